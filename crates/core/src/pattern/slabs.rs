//! The cells of a pattern in slabs, each at its owners and on one rank. Only the cells of one slab move at a time, so that the
//! memory for them is bounded, however many cells there are.

use std::ops::Range;

use super::{Pattern, PatternError, Redistribution, refuse};
use crate::domain::{Grid, Halo, HaloCells, IndexBox, IndexSet, MAX_AXES};

/// Default of the limit of a slab: 64 MiB.
pub const DEFAULT_SLAB_BYTES: usize = 64 << 20;

/// The slabs of all cells of a pattern, one after the other; from [`Pattern::slabs`].
///
/// The *rows* of the whole are its indices along the first axis of the grid, or the positions of numbered cells in the ascending
/// order of their ids. A slab is some consecutive rows.
#[derive(Debug)]
pub struct Slabs {
    pattern: Pattern,
    root: usize,
    extents: Vec<usize>,
    /// The ids of all numbered cells, ascending, on rank `root` alone.
    ids: Vec<i64>,
    rows_each: usize,
    /// The first row of the next slab.
    next: usize,
}

/// The cells of one slab: at their owners, and all of them on one rank. For programs that move them between arrays that are no
/// fields; [`Pattern::gather`] and [`Pattern::scatter`] do all of it for fields.
#[derive(Debug, Clone)]
pub struct Slab {
    rows: Range<usize>,
    parts: Vec<SlabPart>,
    owners: Pattern,
    whole: Pattern,
}

/// The cells of a domain of this rank in a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlabPart {
    /// The domain, in the pattern that is cut.
    pub domain: usize,
    /// Those of its owned cells that lie in the slab, as indices in the whole grid. Of an unstructured domain, the local indices of
    /// all its cells; [`Slab::owners`] knows which of them lie in the slab.
    pub cells: IndexBox,
}

impl Pattern {
    /// Collective: cuts all cells into slabs, to move them between their owners and rank `root`. A slab has as many rows as fit
    /// into `limit` bytes, at least one. `cell_bytes` is the number of bytes of all elements of a cell. All ranks pass the same
    /// numbers.
    ///
    /// Of numbered cells, rank `root` gets the ids of all: 8 bytes for each cell, and as many again while they arrive.
    ///
    /// # Errors
    /// [`PatternError::Refused`], with the same text on all ranks, if ranks pass different numbers, or if there is no rank `root`;
    /// [`PatternError::Transport`], as for [`structured`](Pattern::structured).
    pub fn slabs(&self, root: usize, cell_bytes: usize, limit: usize) -> Result<Slabs, PatternError> {
        let comm = self.comm();
        let mine = [self.number() as usize, root, cell_bytes, limit];
        let first = comm.broadcast(0, &mine)?;
        refuse(comm.agree(disagreement(mine, first, comm.size()))?)?;
        let (extents, ids) = match self.grid() {
            Some(grid) => ((0..grid.axes()).map(|axis| grid.extent(axis)).collect(), Vec::new()),
            None => {
                let own = self.index_sets().iter().flat_map(|set| set.cells(true)).map(|(_, id)| id);
                let mut ids = comm.gather(root, &own.collect::<Vec<_>>())?.unwrap_or_default().concat();
                ids.sort_unstable();
                (vec![comm.broadcast(root, &ids.len())?], ids)
            }
        };
        let row_bytes = extents[1..].iter().fold(cell_bytes, |bytes, extent| bytes.saturating_mul(*extent));
        // A domain has fewer than 2^32 numbered cells.
        let rows_each = limit.checked_div(row_bytes).unwrap_or(0).clamp(1, u32::MAX as usize);
        let next = if row_bytes == 0 { extents[0] } else { 0 };
        Ok(Slabs { pattern: self.clone(), root, extents, ids, rows_each, next })
    }
}

impl Slabs {
    /// The number of cells along each axis of the whole grid, or of all numbered cells.
    pub fn extents(&self) -> &[usize] {
        &self.extents
    }

    /// The ids of all numbered cells, ascending, on rank `root`; none on other ranks and on a grid.
    pub fn ids(&self) -> &[i64] {
        &self.ids
    }

    pub(crate) fn into_ids(self) -> Vec<i64> {
        self.ids
    }

    /// Collective: the next slab; `None` after the last one, and if no cell has any bytes.
    ///
    /// # Errors
    /// [`PatternError::Refused`], with the same text on all ranks, if a cell is owned twice; [`PatternError::Transport`], as for
    /// [`structured`](Pattern::structured).
    pub fn next_slab(&mut self) -> Result<Option<Slab>, PatternError> {
        let rows = self.next..self.next.saturating_add(self.rows_each).min(self.extents[0]);
        if rows.is_empty() {
            return Ok(None);
        }
        self.next = rows.end;
        if self.pattern.grid().is_some() { self.of_grid(rows) } else { self.of_lists(rows) }.map(Some)
    }

    fn of_grid(&self, rows: Range<usize>) -> Result<Slab, PatternError> {
        let (pattern, comm) = (&self.pattern, self.pattern.comm());
        let mut extents = self.extents.clone();
        extents[0] = rows.len();
        let grid = Grid::new(extents)?;
        let cells = grid.bounds().with_axis(0, rows.start as i64, rows.end as i64);
        let in_slab = |(domain, owned): (usize, &IndexBox)| {
            Some(SlabPart { domain, cells: owned.intersection(&cells)? })
        };
        let parts: Vec<SlabPart> = pattern.boxes().iter().enumerate().filter_map(in_slab).collect();
        let shift = shift(&rows);
        let own: Vec<IndexBox> = parts.iter().map(|part| part.cells.shifted(&shift)).collect();
        let all: Vec<IndexBox> = (comm.rank() == self.root).then(|| grid.bounds()).into_iter().collect();
        let of = |boxes: &[IndexBox]| Pattern::structured(comm, &grid, boxes, &Halo::uniform(0));
        Ok(Slab { rows, parts, owners: of(&own)?, whole: of(&all)? })
    }

    fn of_lists(&self, rows: Range<usize>) -> Result<Slab, PatternError> {
        let (pattern, comm) = (&self.pattern, self.pattern.comm());
        let ids = self.ids.get(rows.clone()).unwrap_or_default();
        let (lowest, highest) = comm.broadcast(self.root, &(ids.first().copied(), ids.last().copied()))?;
        let among = lowest.unwrap_or(0)..=highest.unwrap_or(0);
        let own: Vec<IndexSet> =
            pattern.index_sets().iter().map(|set| set.owned_among(among.clone())).collect();
        let all = if comm.rank() == self.root { vec![IndexSet::new(ids, &[])] } else { Vec::new() };
        let parts = own.iter().enumerate();
        let parts = parts
            .map(|(domain, set)| SlabPart { domain, cells: IndexBox::new([0], [set.len() as i64]) })
            .collect();
        let of = |sets: &[IndexSet]| Pattern::unstructured(comm, sets, &HaloCells::Ids(Vec::new()));
        Ok(Slab { rows, parts, owners: of(&own)?, whole: of(&all)? })
    }
}

impl Slab {
    /// The rows of the whole that are in the slab.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The cells of this rank in the slab: one part for each domain of [`owners`](Slab::owners), in their order.
    pub fn parts(&self) -> &[SlabPart] {
        &self.parts
    }

    /// The cells of the slab at their owners, without a halo. On a grid, indices count from the first cell of the slab, and this
    /// rank has a domain for each of its domains that has cells there. Numbered cells have the domains and the local indices of the
    /// pattern that is cut.
    pub fn owners(&self) -> &Pattern {
        &self.owners
    }

    /// All cells of the slab, without a halo: one domain on rank `root`, none on other ranks.
    pub fn whole(&self) -> &Pattern {
        &self.whole
    }

    /// Collective: from the owners to rank `root`.
    ///
    /// # Errors
    /// As for [`Pattern::redistribute`].
    pub fn to_root(&self) -> Result<Redistribution, PatternError> {
        self.owners.redistribute(&self.whole)
    }

    /// Collective: from rank `root` to the owners.
    ///
    /// # Errors
    /// As for [`Pattern::redistribute`].
    pub fn to_owners(&self) -> Result<Redistribution, PatternError> {
        self.whole.redistribute(&self.owners)
    }

    /// The shift of indices from the pattern that is cut to [`owners`](Slab::owners).
    pub(crate) fn shift(&self) -> [i64; MAX_AXES] {
        if self.owners.grid().is_some() { shift(&self.rows) } else { [0; MAX_AXES] }
    }
}

/// From the indices in the whole grid to those in a slab.
fn shift(rows: &Range<usize>) -> [i64; MAX_AXES] {
    std::array::from_fn(|axis| if axis == 0 { -(rows.start as i64) } else { 0 })
}

/// Describes in words which argument of this rank is wrong, or differs from that of rank 0.
fn disagreement(mine: [usize; 4], first: [usize; 4], ranks: usize) -> Option<String> {
    let names = ["number of the pattern", "root", "number of bytes of a cell", "limit of a slab in bytes"];
    let differs = names.iter().zip(mine.iter().zip(first)).find(|(_, (mine, first))| **mine != *first);
    if let Some((name, (mine, first))) = differs {
        return Some(format!("the {name} is {mine} here and {first} on rank 0; pass the same on every rank"));
    }
    let root = mine[1];
    (root >= ranks).then(|| format!("the root is rank {root}, expected one of the ranks 0 to {}", ranks - 1))
}
