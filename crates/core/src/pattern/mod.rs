//! Patterns: the cells that each rank sends to each other rank, derived once from the domains and used for any field.
//!
//! A pattern is made collectively. Each rank brings its own domains, and no rank holds a table of all ranks. A
//! directory, which is distributed over the ranks, finds the owners of the cells of a halo. Each rank then sends the
//! owners a list of the cells that it needs, and the owners send in the order of that list.
//!
//! - `structured`: boxes of a grid; `halo_boxes` cuts the halos, `box_directory` finds their owners; `on_grid`: the same
//!   for a grid that is split evenly;
//! - `unstructured`: numbered cells; `id_directory` finds their owners, in tables of `locations`;
//! - `lists`: cells that the program has listed itself, for both ends;
//! - `piece`: the cells that one domain sends to another;
//! - `regions`: the cells that can be computed while halos travel;
//! - `axis_by_axis`: patterns that fill the same halos one axis after the other;
//! - `set`: several patterns, whose fields travel in one exchange;
//! - `redistribution`: the cells that each rank sends to each other rank, from the owned cells of one pattern to those of
//!   another one.
//!
//! An [exchange](crate::exchange) binds a pattern to fields.

mod axis_by_axis;
mod box_directory;
mod halo_boxes;
mod id_directory;
mod lists;
mod locations;
mod on_grid;
mod piece;
mod redistribution;
mod regions;
mod set;
mod slabs;
mod structured;
mod unstructured;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

pub use on_grid::GridPattern;
pub use piece::{Cells, Piece};
pub use redistribution::Redistribution;
pub use regions::{CellRegions, Regions};
pub use set::PatternSet;
pub use slabs::{DEFAULT_SLAB_BYTES, Slab, SlabPart, Slabs};

use crate::comm::Communicator;
use crate::device::Combine;
use crate::domain::{Fold, Grid, GridError, Halo, HaloCells, HaloWidths, IndexBox, IndexSet};
use crate::transport::TransportError;

/// The cells that each rank sends to each other rank, for one set of domains and one halo. Cloning gives another handle
/// to the same pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    comm: Communicator,
    number: u32,
    domains: Domains,
    receives: BTreeMap<usize, Vec<Piece>>,
    sends: BTreeMap<usize, Vec<Piece>>,
    setup: SetupCost,
    /// If cells go from halos to their owners.
    reversal: Option<Reversal>,
    /// The pattern of the fields from which cells are read, if it is another one.
    source: Option<Pattern>,
}

/// How cells go from halos to their owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reversal {
    /// How they are combined there.
    pub(crate) combine: Combine,
    /// Whether the halo is then set to zero.
    pub(crate) zero_halo: bool,
}

/// The domains of this rank.
#[derive(Debug, Clone)]
enum Domains {
    Structured {
        grid: Grid,
        widths: HaloWidths,
        boxes: Vec<IndexBox>,
    },
    Unstructured {
        sets: Vec<IndexSet>,
        runs: OnceLock<Vec<Runs>>,
    },
    /// Those of several patterns, one after the other.
    Several(Vec<Pattern>),
}

/// The longest runs of local indices of an unstructured domain.
#[derive(Debug, Clone)]
struct Runs {
    /// Of owned cells.
    owned: Range<usize>,
    /// Of owned cells that are not sent.
    interior: Range<usize>,
}

/// The block of a field for a domain, along the axes of the pattern.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockShape {
    pub(crate) owned: IndexBox,
    pub(crate) allocated: IndexBox,
}

/// The cost of making a pattern on this rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SetupCost {
    /// Messages sent to other ranks.
    pub messages: usize,
    /// Entries of the largest table that the rank held: cells (boxes of cells in a structured pattern), questions or
    /// answers, its own or those of which it is the keeper.
    pub largest_table: usize,
}

impl SetupCost {
    /// Counts a table of `entries` entries.
    fn count_table(&mut self, entries: usize) {
        self.largest_table = self.largest_table.max(entries);
    }
}

/// An error in making a pattern. All ranks get the same error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The halo does not fit the axes of the grid.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// The ranks disagree, or their domains do not fit together. The text names the rank.
    #[error("{0}")]
    Refused(String),
    /// The communication between ranks failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl Pattern {
    /// Collective: derives the pattern of a structured grid from the domains of each rank.
    ///
    /// `domains` are the boxes of cells that this rank owns: any number of them, even empty ones. The domains of all
    /// ranks together cover the grid, each cell once. Halo cells beyond a non-periodic end of the grid belong to no
    /// domain, and exchanges leave them untouched. Halos may be wider than the blocks of the neighbours, and than the
    /// grid. On a [cubed sphere](Grid::cubed_sphere), halos reach across the edges of the tiles; on a
    /// [folded grid](Grid::folded), across the fold.
    ///
    /// # Errors
    /// [`PatternError::Refused`], with the same text on all ranks, if ranks disagree about the grid or the halo, or if
    /// domains overlap, leave gaps or lie outside of the grid; [`PatternError::Transport`], with
    /// [`TransportError::OutOfStep`] if a rank makes another [collective call](Communicator).
    pub fn structured(
        comm: &Communicator,
        grid: &Grid,
        domains: &[IndexBox],
        halo: &Halo,
    ) -> Result<Pattern, PatternError> {
        structured::make(comm, grid, domains, halo)
    }

    /// Collective: derives the pattern of unstructured domains, any number of them on each rank, from the ids of their
    /// cells. An exchange fills the cells of `halo` in each domain, from the domain that owns them, which may be the
    /// same one.
    ///
    /// A directory of ids, which is distributed over the ranks, finds the owners, unless all domains name them
    /// ([`IndexSet::with_owners`]). The memory and the messages of a rank grow with its own cells and neighbours.
    ///
    /// # Errors
    /// [`PatternError::Refused`], with the same text on all ranks, if no rank or not the named rank owns an id of a
    /// halo, if an id is owned twice or negative, if a list has the wrong length, or if `halo` lists an id that is in
    /// no halo of the rank; [`PatternError::Transport`], as for [`structured`](Pattern::structured).
    pub fn unstructured(
        comm: &Communicator,
        domains: &[IndexSet],
        halo: &HaloCells,
    ) -> Result<Pattern, PatternError> {
        unstructured::make(comm, domains, halo)
    }

    /// Collective: a pattern of lists that the program has made itself, for one domain of `cells` cells on each rank.
    /// `sends` has the local indices of the cells that go to each neighbour rank, `receives` those of the cells that come
    /// from it; cell number k of the one list fills cell number k of the other. A cell may be sent several times. A rank
    /// may be its own neighbour.
    ///
    /// The cells that are received are the halo; all others are owned, and have their local indices as ids
    /// ([`index_sets`](Pattern::index_sets)).
    ///
    /// ```
    /// use haloport::{Pattern, run_ranks};
    ///
    /// // A ring: two cells on each rank, then the last cell of the rank below and the first one of the rank above.
    /// run_ranks(3, |comm| {
    ///     let (below, above) = ((comm.rank() + 2) % 3, (comm.rank() + 1) % 3);
    ///     let pattern = Pattern::from_lists(&comm, 4, &[(below, [0]), (above, [1])], &[(below, [2]), (above, [3])])?;
    ///     assert_eq!(pattern.halo_cells(), 2);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), haloport::comm::RanksError>(())
    /// ```
    ///
    /// # Errors
    /// [`PatternError::Refused`], with the same text on all ranks, if the lists of two ranks for each other have
    /// different lengths (an empty list is the same as none), if a rank or a cell does not exist, if a rank is named
    /// twice in one direction, if a cell is received twice, or both received and sent, or if there is no memory for
    /// `cells` cells; [`PatternError::Transport`], as for [`structured`](Pattern::structured).
    pub fn from_lists<L: AsRef<[u32]>>(
        comm: &Communicator,
        cells: usize,
        sends: &[(usize, L)],
        receives: &[(usize, L)],
    ) -> Result<Pattern, PatternError> {
        lists::make(comm, cells, sends, receives)
    }

    fn new(
        (comm, number): (&Communicator, u32),
        domains: Domains,
        receives: BTreeMap<usize, Vec<Piece>>,
        sends: BTreeMap<usize, Vec<Piece>>,
        setup: SetupCost,
    ) -> Pattern {
        let (comm, reversal, source) = (comm.clone(), None, None);
        let inner = Inner { comm, number, domains, receives, sends, setup, reversal, source };
        Pattern { inner: Arc::new(inner) }
    }

    /// The communicator of the ranks.
    pub fn comm(&self) -> &Communicator {
        &self.inner.comm
    }

    /// The number of the pattern on its communicator, from 1, in the order in which patterns and
    /// [redistributions](Redistribution) are made. It is the same on all ranks, and errors name it.
    pub fn number(&self) -> u32 {
        self.inner.number
    }

    /// The grid; `None` for an unstructured pattern.
    pub fn grid(&self) -> Option<&Grid> {
        match &self.inner.domains {
            Domains::Structured { grid, .. } => Some(grid),
            Domains::Unstructured { .. } | Domains::Several(_) => None,
        }
    }

    /// The number of axes of the grid, or 1, the axis of the cells. Fields may have further axes.
    pub(crate) fn axes(&self) -> usize {
        self.grid().map_or(1, Grid::axes)
    }

    /// The number of domains of this rank.
    pub fn domain_count(&self) -> usize {
        match &self.inner.domains {
            Domains::Structured { boxes, .. } => boxes.len(),
            Domains::Unstructured { sets, .. } => sets.len(),
            Domains::Several(patterns) => patterns.iter().map(Pattern::domain_count).sum(),
        }
    }

    /// The boxes of cells that this rank owns; none in an unstructured pattern.
    pub fn boxes(&self) -> &[IndexBox] {
        match &self.inner.domains {
            Domains::Structured { boxes, .. } => boxes,
            Domains::Unstructured { .. } | Domains::Several(_) => &[],
        }
    }

    /// The boxes of cells that this rank owns, on another grid that ends elsewhere: boxes at the upper end of an axis end
    /// where that grid ends, the others are the same. So the nodes of a staggered grid, one more along an axis than its
    /// cells, are cut as the cells are.
    ///
    /// # Errors
    /// [`GridError::Length`] unless both grids have as many axes; [`GridError::Alike`] if the other grid ends below the end
    /// of a box that is not at the upper end of this one, and for an unstructured pattern.
    pub fn boxes_on(&self, other: &Grid) -> Result<Vec<IndexBox>, GridError> {
        let Some(grid) = self.grid() else {
            return Err(GridError::Alike { problem: "the other pattern has no grid".into() });
        };
        grid.check_length("the shape of the other grid", other.axes())?;
        let on_other = self.boxes().iter().map(|owned| {
            if owned.is_empty() {
                return Ok(IndexBox::new(vec![0; owned.axes()], vec![0; owned.axes()]));
            }
            (0..owned.axes()).try_fold(*owned, |moved, axis| {
                let ((lower, upper), found) = (owned.bounds(axis), other.extent(axis));
                let (end, other_end) = (grid.extent(axis) as i64, found as i64);
                let is_last = upper == end;
                let least = if is_last { lower } else { upper };
                if other_end < least {
                    let problem = format!("it has {found} cells along axis {axis}, expected {least} or more");
                    return Err(GridError::Alike { problem });
                }
                Ok(moved.with_axis(axis, lower, if is_last { other_end } else { upper }))
            })
        });
        on_other.collect()
    }

    /// The unstructured domains of this rank; none in a structured pattern.
    pub fn index_sets(&self) -> &[IndexSet] {
        match &self.inner.domains {
            Domains::Structured { .. } | Domains::Several(_) => &[],
            Domains::Unstructured { sets, .. } => sets,
        }
    }

    /// The pieces that this rank receives from each sending rank, itself included, in the order in which they travel.
    pub fn receives(&self) -> &BTreeMap<usize, Vec<Piece>> {
        &self.inner.receives
    }

    /// The pieces that this rank sends to each receiving rank, itself included, in the order in which they travel.
    pub fn sends(&self) -> &BTreeMap<usize, Vec<Piece>> {
        &self.inner.sends
    }

    /// Whether other processes of this node send cells to this rank, or receive cells from it.
    pub(crate) fn has_near_neighbours(&self) -> bool {
        let comm = self.comm();
        let mut peers = self.sends().keys().chain(self.receives().keys());
        peers.any(|&peer| peer != comm.rank() && comm.is_near(peer))
    }

    /// The number of halo cells that one exchange fills on this rank.
    pub fn halo_cells(&self) -> u128 {
        self.inner.receives.values().flatten().map(|piece| piece.target.count()).sum()
    }

    /// The cost of making the pattern on this rank.
    pub fn setup_cost(&self) -> SetupCost {
        self.inner.setup
    }

    /// A box of cells of `domain` that no exchange reads or writes: the largest box left after trimming the sides that
    /// are sent, or, for an unstructured domain, the longest run of local indices. `None` for a domain that does not
    /// exist or has no such cell. [`regions`](Pattern::regions) returns the cells that can be computed without the
    /// halo.
    pub fn interior(&self, domain: usize) -> Option<IndexBox> {
        if self.is_redistribution() {
            return None;
        }
        match &self.inner.domains {
            Domains::Structured { boxes, .. } => {
                let owned = *boxes.get(domain)?;
                let sent = self.inner.sends.values().flatten().filter(|piece| piece.source_domain == domain);
                let mut sent = sent.filter_map(|piece| piece.source.as_box());
                let interior = sent.try_fold(owned, |interior, source| interior.minus_one_side(source))?;
                let interior = self.minus_duplicates(domain, interior)?;
                (!interior.is_empty()).then_some(interior)
            }
            Domains::Unstructured { .. } => run_box(&self.runs()?.get(domain)?.interior),
            Domains::Several(_) => None,
        }
    }

    /// A box of cells that `domain` owns: all of them, on a [folded grid](Grid::folded) without the duplicates, or, for
    /// an unstructured domain, the longest run of local indices. `None` for a domain that does not exist or owns no cells.
    pub fn owned(&self, domain: usize) -> Option<IndexBox> {
        if self.is_redistribution() {
            return None;
        }
        match &self.inner.domains {
            Domains::Structured { boxes, .. } => {
                let owned = boxes.get(domain).copied().filter(|owned| !owned.is_empty())?;
                self.minus_duplicates(domain, owned)
            }
            Domains::Unstructured { .. } => run_box(&self.runs()?.get(domain)?.owned),
            Domains::Several(_) => None,
        }
    }

    /// The largest box left of `cells` after trimming the sides that have duplicates of `domain`, which exchanges fill;
    /// `None` if nothing is left.
    fn minus_duplicates(&self, domain: usize, cells: IndexBox) -> Option<IndexBox> {
        if self.grid().and_then(Grid::fold).is_none() {
            return Some(cells);
        }
        let filled = self.inner.receives.values().flatten().filter(|piece| piece.target_domain == domain);
        let mut filled = filled.filter_map(|piece| piece.target.as_box());
        filled.try_fold(cells, |cells, target| cells.minus_one_side(target))
    }

    /// The same domains with other pieces.
    fn with_pieces(
        &self,
        receives: BTreeMap<usize, Vec<Piece>>,
        sends: BTreeMap<usize, Vec<Piece>>,
    ) -> Pattern {
        let Inner { comm, number, domains, setup, reversal, source, .. } = &*self.inner;
        let (comm, domains, number, source) = (comm.clone(), domains.clone(), *number, source.clone());
        let (setup, reversal) = (*setup, *reversal);
        let inner = Inner { comm, number, domains, receives, sends, setup, reversal, source };
        Pattern { inner: Arc::new(inner) }
    }

    /// The pattern by which cells go the other way: from halos to their owners, where they are combined.
    pub(crate) fn reversed(&self, reversal: Reversal) -> Pattern {
        let reversed = |pieces: &BTreeMap<usize, Vec<Piece>>| {
            let of_rank =
                |(&rank, pieces): (&usize, &Vec<Piece>)| (rank, pieces.iter().map(Piece::reversed).collect());
            pieces.iter().map(of_rank).collect()
        };
        let Inner { comm, number, domains, receives, sends, setup, source, .. } = &*self.inner;
        let inner = Inner {
            comm: comm.clone(),
            number: *number,
            domains: domains.clone(),
            receives: reversed(sends),
            sends: reversed(receives),
            setup: *setup,
            reversal: Some(reversal),
            source: source.clone(),
        };
        Pattern { inner: Arc::new(inner) }
    }

    /// How cells go from halos to their owners; `None` if they go from owners to halos.
    pub(crate) fn reversal(&self) -> Option<Reversal> {
        self.inner.reversal
    }

    /// The halo cells that travel, in either direction, each with its domain.
    pub(crate) fn halo(&self) -> impl Iterator<Item = (usize, &Cells)> {
        let Inner { receives, sends, reversal, .. } = &*self.inner;
        let pieces = if reversal.is_some() { sends } else { receives };
        pieces.values().flatten().map(|piece| match reversal {
            Some(_) => (piece.source_domain, &piece.source),
            None => (piece.target_domain, &piece.target),
        })
    }

    /// The blocks of a field for the domains.
    pub(crate) fn block_shapes(&self) -> Vec<BlockShape> {
        match &self.inner.domains {
            Domains::Structured { widths, boxes, .. } => boxes
                .iter()
                .map(|owned| {
                    // A box that is empty along one axis may be huge along the others.
                    let nothing = || IndexBox::new(owned.lower(), owned.lower());
                    let allocated = if owned.is_empty() { nothing() } else { widths.around(owned) };
                    BlockShape { owned: *owned, allocated }
                })
                .collect(),
            Domains::Unstructured { sets, .. } => sets
                .iter()
                .map(|set| IndexBox::new([0], [set.len() as i64]))
                .map(|cells| BlockShape { owned: cells, allocated: cells })
                .collect(),
            Domains::Several(patterns) => patterns.iter().flat_map(Pattern::block_shapes).collect(),
        }
    }

    /// The longest runs of an unstructured pattern.
    fn runs(&self) -> Option<&Vec<Runs>> {
        let Domains::Unstructured { sets, runs } = &self.inner.domains else { return None };
        Some(runs.get_or_init(|| unstructured::runs(sets, self.inner.sends.values().flatten())))
    }
}

fn run_box(run: &Range<usize>) -> Option<IndexBox> {
    (!run.is_empty()).then(|| IndexBox::new([run.start as i64], [run.end as i64]))
}

/// The properties on which all ranks must agree first.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Description {
    Structured {
        cells: IndexBox,
        periodic: Vec<bool>,
        cubed_sphere: bool,
        fold: Option<Fold>,
        widths: Box<HaloWidths>,
    },
    Unstructured,
    Lists,
    /// The numbers of the two patterns, and whether the halo of the target is filled.
    Redistribution {
        source: u32,
        target: u32,
        fills_halo: bool,
    },
    /// The numbers of the patterns.
    Set {
        patterns: Vec<u32>,
    },
}

/// Collective: checks that all ranks have the same description and no rank has an error in its arguments. A rank with
/// invalid arguments still takes part, so that all ranks get its error.
fn agree(
    comm: &Communicator,
    mine: &Result<Description, String>,
    complaint: Option<String>,
) -> Result<(), PatternError> {
    let first = comm.broadcast(0, mine)?;
    let disagreement = match (mine, &first) {
        (Err(error), _) => Some(error.clone()),
        (Ok(mine), Ok(first)) => disagreement(mine, first),
        (Ok(_), Err(_)) => None,
    };
    refuse(comm.agree(disagreement.or(complaint))?)
}

fn refuse(agreed: Result<(), String>) -> Result<(), PatternError> {
    agreed.map_err(PatternError::Refused)
}

/// Checks that other ranks ask only for cells that this rank `owns`.
fn check_sends(
    sends: &BTreeMap<usize, Vec<Piece>>,
    owns: impl Fn(&Piece) -> bool,
) -> Result<(), TransportError> {
    let stray = sends.iter().find(|(_, pieces)| !pieces.iter().all(&owns));
    stray.map_or(Ok(()), |(&sender, _)| {
        let why = "it asks for cells that this rank does not own".into();
        Err(TransportError::Malformed { sender, why })
    })
}

/// Collective: agrees on the errors that the keepers of a directory found. The text does not name the keeper, which did
/// not cause the error.
fn agree_on_findings(comm: &Communicator, found: Option<String>) -> Result<(), PatternError> {
    let agreed = comm.agree(found)?;
    refuse(agreed.map_err(|text| text.split_once(": ").map_or(text.clone(), |(_, found)| found.to_string())))
}

/// The text of the first difference between the descriptions of this rank and of rank 0.
fn disagreement(mine: &Description, first: &Description) -> Option<String> {
    use Description::{Lists, Redistribution, Set, Structured, Unstructured};
    let (
        Structured { cells, periodic, cubed_sphere, fold, widths },
        Structured {
            cells: cells0,
            periodic: periodic0,
            cubed_sphere: cubed_sphere0,
            fold: fold0,
            widths: widths0,
        },
    ) = (mine, first)
    else {
        let show = |it: &Description| match it {
            Structured { .. } => "structured".into(),
            Unstructured => "unstructured".into(),
            Lists => "made from lists".into(),
            Redistribution { source, target, fills_halo } => {
                let halo = if *fills_halo { " with its halo" } else { "" };
                format!("a redistribution from pattern {source} to pattern {target}{halo}")
            }
            Set { patterns } => format!("a set of the patterns {patterns:?}"),
        };
        return (mine != first)
            .then(|| format!("the pattern is {} here and {} on rank 0", show(mine), show(first)));
    };
    if (cells, periodic, cubed_sphere) != (cells0, periodic0, cubed_sphere0) {
        let show = |cells: &IndexBox, periodic: &Vec<bool>, cubed_sphere: bool| {
            let kind = if cubed_sphere { "a cubed sphere of " } else { "" };
            format!("{kind}{cells} (periodic: {periodic:?})")
        };
        let (here, there) = (show(cells, periodic, *cubed_sphere), show(cells0, periodic0, *cubed_sphere0));
        return Some(format!("the grid is {here} here and {there} on rank 0"));
    }
    if fold != fold0 {
        let show = |fold: &Option<Fold>| match fold {
            Some(Fold { y, x, pivot, points }) => {
                format!("the axes {y} and {x}, the pivot {pivot:?} and the points {points:?}")
            }
            None => "nothing".into(),
        };
        return Some(format!("the fold of the grid has {} here and {} on rank 0", show(fold), show(fold0)));
    }
    if widths != widths0 {
        let axes = cells.axes();
        let show = |it: &HaloWidths| {
            let clipped = if it.ends.iter().any(|&end| end > 0) { ", clipped" } else { "" };
            let (lower, upper) = (&it.lower[..axes], &it.upper[..axes]);
            format!("{lower:?} below, {upper:?} above, {:?}{clipped}", it.connectivity)
        };
        return Some(format!("the halo is {} here and {} on rank 0", show(widths), show(widths0)));
    }
    None
}
