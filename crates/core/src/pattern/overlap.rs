//! Which owned cells can be computed while halos travel, and which wait for them.

use super::{Domains, Pattern};
use crate::domain::{Grid, HaloWidths, IndexBox};

/// The owned cells of a box of a grid, by what a stencil that reaches as far as the halo is wide reads for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regions {
    /// Cells whose stencil meets no cell that an exchange fills: they can be computed while it is pending. `None` where
    /// there are none.
    pub interior: Option<IndexBox>,
    /// The other owned cells, as disjoint boxes: two for each axis at most. Those at the ends of the first axis reach over
    /// the whole domain along the others, so that they lie together in memory where that axis is the slowest.
    pub boundary: Vec<IndexBox>,
}

/// The owned cells of an unstructured domain, by what is read for them: local indices, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CellRegions {
    /// Cells for which no cell is read that an exchange fills: they can be computed while it is pending.
    pub interior: Vec<u32>,
    /// The other owned cells.
    pub boundary: Vec<u32>,
}

impl Pattern {
    /// The cells of `domain` that can be computed while halos travel, and the others, for a stencil that reaches from a cell
    /// as far as the halo is wide, on each side of each axis (with [`Connectivity::Faces`](crate::Connectivity::Faces) along
    /// the axes alone). `None` in an unstructured pattern, and for a domain that is not there.
    ///
    /// Sides at which the grid ends are not cut off: no exchange fills cells beyond them. The program fills these itself,
    /// before it starts the exchange, and reads them while it is pending: [`Pending::owned`](crate::Pending::owned) lends
    /// them as well.
    ///
    /// These are the cells that need no halo. Those that no neighbour's halo needs, which may be written meanwhile, are
    /// [`interior`](Pattern::interior): other ones where the halo is wider on one side than on the other.
    pub fn regions(&self, domain: usize) -> Option<Regions> {
        let Domains::Structured { grid, widths, boxes } = &self.inner.domains else { return None };
        let owned = *boxes.get(domain)?;
        if owned.is_empty() {
            return Some(Regions { interior: None, boundary: Vec::new() });
        }
        let interior = (0..owned.axes()).fold(owned, |interior, axis| {
            let ((lower, upper), [below, above]) = (owned.bounds(axis), filled(grid, widths, &owned, axis));
            interior.with_axis(axis, lower + below, upper - above)
        });
        Some(Regions {
            interior: (!interior.is_empty()).then_some(interior),
            boundary: owned.minus(&interior),
        })
    }

    /// `cells`, which `domain` owns, with those of `allocated` beyond the sides at which nothing is filled, where `cells`
    /// reach to such a side: no exchange reads or writes what is added. Of an unstructured domain and on a cubed sphere,
    /// `cells` alone.
    pub(crate) fn with_margins(&self, domain: usize, cells: IndexBox, allocated: &IndexBox) -> IndexBox {
        let Domains::Structured { grid, widths, boxes } = &self.inner.domains else { return cells };
        let Some(owned) = boxes.get(domain).filter(|_| !grid.is_cubed_sphere()) else { return cells };
        // Filled cells lie within the halo's widths and, along axes that are not periodic, within the grid; so do those
        // that are sent on axis by axis.
        (0..owned.axes()).fold(cells, |grown, axis| {
            let ((mut lower, mut upper), [below, above]) =
                (cells.bounds(axis), filled(grid, widths, owned, axis));
            let ((first, past), (lowest, highest)) = (owned.bounds(axis), allocated.bounds(axis));
            if below == 0 && lower == first {
                lower = lower.min(lowest);
            }
            if above == 0 && upper == past {
                upper = upper.max(highest);
            }
            grown.with_axis(axis, lower, upper)
        })
    }

    /// The cells of an unstructured `domain` that can be computed while halos travel, and the others. `reads` gives the local
    /// indices of the cells that are read for an owned cell: of lists one after the other,
    /// `|cell| cells[offsets[cell]..offsets[cell + 1]].iter().copied()`. `None` in a structured pattern, and for a domain
    /// that is not there.
    ///
    /// Halo cells that the pattern does not fill count as any other cell. What is read beyond the last cell of the domain
    /// counts as filled, so that nobody takes it for something that is there already.
    pub fn cell_regions<R: IntoIterator<Item = usize>>(
        &self,
        domain: usize,
        mut reads: impl FnMut(usize) -> R,
    ) -> Option<CellRegions> {
        let set = self.index_sets().get(domain)?;
        let mut filled = vec![false; set.len()];
        for piece in self.receives().values().flatten().filter(|piece| piece.target_domain == domain) {
            for &index in piece.target.as_list().into_iter().flat_map(|list| list.iter()) {
                filled[index as usize] = true;
            }
        }
        let mut regions = CellRegions::default();
        for (cell, _) in set.cells(true) {
            let is_filled = |read: usize| filled.get(read).copied().unwrap_or(true);
            let waits = reads(cell as usize).into_iter().any(is_filled);
            let list = if waits { &mut regions.boundary } else { &mut regions.interior };
            list.push(cell);
        }
        Some(regions)
    }
}

/// How many cells beyond each side of `owned` an exchange fills along `axis`: below and above.
fn filled(grid: &Grid, widths: &HaloWidths, owned: &IndexBox, axis: usize) -> [i64; 2] {
    let (lower, upper) = owned.bounds(axis);
    let endless = grid.is_periodic(axis) || grid.is_tile_axis(axis);
    let below = if endless || lower > 0 { widths.lower[axis] } else { 0 };
    let above = if endless || upper < grid.extent(axis) as i64 { widths.upper[axis] } else { 0 };
    [below, above]
}
