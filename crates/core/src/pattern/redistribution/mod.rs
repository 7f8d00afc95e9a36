//! The cells that each rank sends to each other rank, from the owned cells of one pattern to those of another.
//!
//! The domains of the source answer, through the same directories that find the owners of halos; the domains of the target
//! ask. So the memory and the messages of a rank grow with its own cells, and with the ranks that own parts of them on the
//! other side, or that it answers: if the source has few domains, few ranks keep its directory. Here: the agreement, and boxes
//! of a grid on both sides; `ids`: numbered cells, on both sides or on one; `numbered`: the numbers of the cells of a grid.

mod ids;
mod numbered;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::comm::CollectiveCall;
use crate::domain::{Grid, IndexBox};
use crate::pattern::halo_boxes::{halo_boxes, owned_boxes};
use crate::pattern::piece::{Piece, Pieces};
use crate::pattern::{Description, Domains, Inner, Pattern, PatternError, SetupCost, agree, structured};
use numbered::Numbered;

/// The cells that move from their owners in one pattern, the *source*, to their owners in another one, the *target*. From
/// [`Pattern::redistribute`]; [`bind`](Redistribution::bind) or [`plan`](Redistribution::plan) makes an exchange of it.
/// Cloning gives another handle to the same redistribution.
#[derive(Debug, Clone)]
pub struct Redistribution {
    /// With the domains of the target, and with pieces that are sent from domains of the source.
    pattern: Pattern,
    target: Pattern,
}

impl Pattern {
    /// Collective: prepares to take the cells that this pattern owns to their owners in `target`, a pattern of the same
    /// communicator and of the same cells, which may lie on other ranks: a transpose, fewer ranks for output, new parts for
    /// load balance. A rank may own nothing on either side.
    ///
    /// Cells are the same if they have the same index, in grids with as many cells along each axis, or the same id. Between a
    /// grid and numbered cells, the id of a cell of the grid is its number in the grid, counted from 0 with the last axis
    /// fastest: in a grid of `[a, b, c]` cells, the cell `[i, j, k]` has the id `(i * b + j) * c + k`. How
    /// grids are cut, whether they are periodic or folded, and halos may differ. The halo of the source is not read; that of
    /// the target keeps its values, unless [`redistribute_with_halo`](Pattern::redistribute_with_halo) fills it.
    ///
    /// Directories that are distributed over the ranks find the owners, as they do for a pattern. The memory and the
    /// messages of a rank grow with its own cells, and with the ranks that own parts of them on the other side; those of a
    /// rank that keeps a part of a directory, with the ranks that ask it, which are many if the source has few domains.
    ///
    /// ```
    /// use haloport::cpu::CpuDevice;
    /// use haloport::exchange::SourceTarget;
    /// use haloport::{Field, Grid, Halo, Pattern, Split, run_ranks};
    ///
    /// // Six rows of four cells: each rank has three rows, then each has two columns.
    /// run_ranks(2, |comm| {
    ///     let grid = Grid::new([6, 4])?;
    ///     let cut = |parts: [usize; 2]| -> Result<Pattern, haloport::Error> {
    ///         let mine = Split::even(&grid, parts)?.part(comm.rank()).ok_or("no such part")?;
    ///         Ok(Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(0))?)
    ///     };
    ///     let (rows, columns) = (cut([2, 1])?, cut([1, 2])?);
    ///     let to_columns = rows.redistribute(&columns)?;
    ///
    ///     let device = CpuDevice::with_threads(1)?;
    ///     let mut source = Field::<f64, _>::new(&device, &rows)?;
    ///     let target = Field::<f64, _>::builder(&columns).axis_order([1, 0]).build(&device)?; // transposed in memory
    ///     source.view_mut(0)?.fill_with(|cell, _| (10 * cell[0] + cell[1]) as f64);
    ///     let mut exchange = to_columns.bind(SourceTarget { source, target })?;
    ///     exchange.run()?;
    ///     let column = 2 * comm.rank() as i64;
    ///     assert_eq!(exchange.fields().target.view(0)?[[5, column]], (50 + column) as f64);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), haloport::comm::RanksError>(())
    /// ```
    ///
    /// # Errors
    /// [`PatternError::Refused`], with the same text on all ranks, which names a cell where there is one: if the grids have other
    /// numbers of cells, or if an id is owned twice, or not at all, on one of the two sides. Also if the two are of different
    /// communicators, and if ranks pass other patterns of the communicator; between a grid and numbered cells, if a box has
    /// 2^32 cells or more, or the grid 2^63.
    /// [`PatternError::Transport`], as for [`structured`](Pattern::structured).
    pub fn redistribute(&self, target: &Pattern) -> Result<Redistribution, PatternError> {
        make(self, target, false)
    }

    /// Collective: as [`redistribute`](Pattern::redistribute), and fills the halo of the target in the same pass: the cells
    /// that an exchange of `target` fills, with vectors turned as there. On a [folded grid](crate::Grid::folded), these
    /// include the duplicates among owned cells; without the halo, these are copied as other owned cells are.
    ///
    /// # Errors
    /// As for [`redistribute`](Pattern::redistribute); and if the source has numbered cells and the target a grid, whose halo
    /// has no ids. An exchange of the target fills it.
    pub fn redistribute_with_halo(&self, target: &Pattern) -> Result<Redistribution, PatternError> {
        make(self, target, true)
    }

    /// The pattern of the fields from which cells are read: this one, or the source of a redistribution.
    pub(crate) fn at_source(&self) -> &Pattern {
        self.inner.source.as_ref().unwrap_or(self)
    }

    /// Whether cells are read from fields of another pattern.
    pub(crate) fn is_redistribution(&self) -> bool {
        self.inner.source.is_some()
    }
}

impl Redistribution {
    /// The pattern whose owned cells are read.
    pub fn source(&self) -> &Pattern {
        self.pattern.at_source()
    }

    /// The pattern whose owned cells are filled.
    pub fn target(&self) -> &Pattern {
        &self.target
    }

    /// The number of the redistribution among the patterns of its communicator, from 1; the same on all ranks. Errors name
    /// it as that of a pattern.
    pub fn number(&self) -> u32 {
        self.pattern.number()
    }

    /// The pieces that this rank receives from each sending rank, itself included, in the order in which they travel. Their
    /// source is in the domains of [`source`](Redistribution::source), their target in those of
    /// [`target`](Redistribution::target).
    pub fn receives(&self) -> &BTreeMap<usize, Vec<Piece>> {
        self.pattern.receives()
    }

    /// The pieces that this rank sends to each receiving rank, itself included, in the order in which they travel.
    pub fn sends(&self) -> &BTreeMap<usize, Vec<Piece>> {
        self.pattern.sends()
    }

    /// The cost of making the redistribution on this rank.
    pub fn setup_cost(&self) -> SetupCost {
        self.pattern.setup_cost()
    }

    /// The pattern to which fields are bound.
    pub(crate) fn pattern(&self) -> &Pattern {
        &self.pattern
    }
}

/// Collective: see [`Pattern::redistribute`].
fn make(source: &Pattern, target: &Pattern, fills_halo: bool) -> Result<Redistribution, PatternError> {
    let comm = source.comm();
    let steps = comm.enter(CollectiveCall::Pattern)?;
    let (from, to) = (source.number(), target.number());
    let description = Description::Redistribution { source: from, target: to, fills_halo };
    agree(comm, &Ok(description), misfit(source, target, fills_halo))?;

    let mut setup = SetupCost::default();
    let Pieces { receives, sends } = match (&source.inner.domains, &target.inner.domains) {
        (
            Domains::Structured { grid, boxes: owners, .. },
            Domains::Structured { grid: target_grid, widths, boxes },
        ) => {
            let mut wanted = owned_boxes(target_grid, boxes, fills_halo);
            if fills_halo {
                wanted.extend(halo_boxes(target_grid, widths, boxes));
            }
            structured::pieces(comm, (grid, owners), &wanted, &mut setup)?
        }
        _ => {
            let (from, to) = (Numbered::of(source), Numbered::of(target));
            let halo = if fills_halo { ids::filled_cells(target) } else { Vec::new() };
            let Pieces { receives, sends } = ids::pieces(comm, &from, &to, &halo, &mut setup)?;
            let of_each = |pieces| numbered::of_each(pieces, from.axes(), to.axes());
            Pieces { receives: of_each(receives), sends: of_each(sends) }
        }
    };
    let inner = Inner {
        comm: comm.clone(),
        number: steps.number(),
        domains: target.inner.domains.clone(),
        receives,
        sends,
        setup,
        reversal: None,
        source: Some(source.clone()),
    };
    Ok(Redistribution { pattern: Pattern { inner: Arc::new(inner) }, target: target.clone() })
}

/// Describes in words why two patterns do not have the same cells, as far as this rank can tell alone.
fn misfit(source: &Pattern, target: &Pattern, fills_halo: bool) -> Option<String> {
    if !source.comm().is_same(target.comm()) {
        return Some(
            "the source and the target of a redistribution are patterns of different communicators; make both on one"
                .into(),
        );
    }
    match (source.grid(), target.grid()) {
        (Some(from), Some(to)) => other_cells(from, to),
        (None, None) => None,
        (None, Some(_)) if fills_halo => Some(
            "the source of a redistribution has numbered cells and its target a grid, whose halo has no ids; leave the halo out, \
             and exchange it after the redistribution"
                .into(),
        ),
        _ => numbered::too_large(source).or_else(|| numbered::too_large(target)),
    }
}

/// Describes in words how the cells of two grids differ, with an example.
fn other_cells(source: &Grid, target: &Grid) -> Option<String> {
    let (from, to) = (source.bounds(), target.bounds());
    if from == to {
        return None;
    }
    let text =
        format!("the source of a redistribution has a grid of {from} cells and its target one of {to}");
    let first =
        |cells: &IndexBox, others: &IndexBox| cells.minus(others).first().map(|rest| rest.lower().to_vec());
    let example = match (from.axes() == to.axes(), first(&from, &to), first(&to, &from)) {
        (false, ..) => String::new(),
        (true, Some(cell), _) => format!(": only the source has the cell {cell:?}"),
        (true, None, Some(cell)) => format!(": only the target has the cell {cell:?}"),
        (true, None, None) => String::new(),
    };
    Some(format!("{text}{example}; pass two patterns of the same cells"))
}
