//! Patterns: who sends which cells to whom, derived once from what each rank owns and used for any field.
//!
//! A pattern is made collectively. Each rank brings its own domains; nobody holds a table of all ranks. A directory,
//! itself spread over the ranks, answers who owns the cells of a halo; each rank then tells the owners what it wants,
//! and the owners send in exactly that order.
//!
//! - `structured`: boxes of a grid, with the directory `boxes`;
//! - `unstructured`: numbered cells, with the directory `ids` of `places`;
//! - `overlap`: which cells can be computed while halos travel.

mod axes;
mod boxes;
mod ids;
mod overlap;
mod piece;
mod places;
mod regions;
mod structured;
mod unstructured;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

pub use overlap::{CellRegions, Regions};
pub use piece::{Cells, Piece};

use crate::comm::Communicator;
use crate::domain::{Grid, GridError, Halo, HaloCells, HaloWidths, IndexBox, IndexSet};
use crate::transport::TransportError;

/// Who sends which cells to whom, for one set of domains and one halo. Cloning gives another handle to the same
/// pattern.
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
}

/// What the ranks own.
#[derive(Debug, Clone)]
enum Domains {
    Structured { grid: Grid, widths: HaloWidths, boxes: Vec<IndexBox> },
    Unstructured { sets: Vec<IndexSet>, runs: OnceLock<Vec<Runs>> },
}

/// The longest runs of local indices of an unstructured domain.
#[derive(Debug, Clone)]
struct Runs {
    /// Owned.
    owned: Range<usize>,
    /// Owned, and not sent.
    interior: Range<usize>,
}

/// The block that a field has for a domain, along the axes of the pattern.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockShape {
    pub(crate) owned: IndexBox,
    pub(crate) allocated: IndexBox,
}

/// What it took this rank to make a pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SetupCost {
    /// Messages sent to other ranks.
    pub messages: usize,
    /// Entries of the largest table held: of cells (in a structured pattern, of boxes of them), questions or answers of
    /// one's own, or kept for others.
    pub largest_table: usize,
}

impl SetupCost {
    /// Notes that a table of this many entries is held.
    fn hold(&mut self, entries: usize) {
        self.largest_table = self.largest_table.max(entries);
    }
}

/// Why a pattern could not be made. Every rank gets the same error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The halo does not fit the grid's axes.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// The ranks disagree, or their domains do not fit together. The text names the rank.
    #[error("{0}")]
    Refused(String),
    /// The ranks could not talk to each other.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl Pattern {
    /// Collective: derives the pattern of a structured grid from the domains of each rank.
    ///
    /// `domains` are the boxes of cells that this rank owns: any number of them, empty ones too. Together, those of
    /// all ranks are the whole grid, each cell once. Halo cells beyond a non-periodic end of the grid belong to no
    /// domain and are left untouched by every exchange. Halos may be wider than the neighbours' blocks, and than
    /// the grid. On a [cubed sphere](Grid::cubed_sphere) halos go across the edges of the tiles.
    ///
    /// # Errors
    /// [`PatternError::Refused`], with the same text on every rank, where ranks disagree about the grid or the halo,
    /// or the domains overlap, leave gaps or lie outside of the grid; [`PatternError::Transport`], within which
    /// [`TransportError::OutOfStep`] where a rank makes another [collective call](Communicator).
    pub fn structured(
        comm: &Communicator,
        grid: &Grid,
        domains: &[IndexBox],
        halo: &Halo,
    ) -> Result<Pattern, PatternError> {
        structured::make(comm, grid, domains, halo)
    }

    /// Collective: derives the pattern of unstructured domains, any number of them on each rank, from the ids of
    /// their cells. An exchange fills the cells that `halo` says in every domain, from the domain that owns them,
    /// which may be the same one.
    ///
    /// Owners are looked up in a directory of ids that is spread over the ranks, unless all domains name theirs
    /// ([`IndexSet::with_owners`]). Memory and messages of a rank grow with its own cells and neighbours.
    ///
    /// # Errors
    /// [`PatternError::Refused`], with the same text on every rank, where an id of a halo is owned by nobody, or not by the
    /// rank that is named, an id is owned twice or negative, a list has the wrong length, or `halo` lists an id that is in no halo of the rank;
    /// [`PatternError::Transport`], as for [`structured`](Pattern::structured).
    pub fn unstructured(
        comm: &Communicator,
        domains: &[IndexSet],
        halo: &HaloCells,
    ) -> Result<Pattern, PatternError> {
        unstructured::make(comm, domains, halo)
    }

    fn new(
        (comm, number): (&Communicator, u32),
        domains: Domains,
        receives: BTreeMap<usize, Vec<Piece>>,
        sends: BTreeMap<usize, Vec<Piece>>,
        setup: SetupCost,
    ) -> Pattern {
        Pattern { inner: Arc::new(Inner { comm: comm.clone(), number, domains, receives, sends, setup }) }
    }

    /// The ranks.
    pub fn comm(&self) -> &Communicator {
        &self.inner.comm
    }

    /// The number of the pattern on its communicator, from 1, in the order in which patterns are made. The same on every
    /// rank: errors name the pattern by it.
    pub fn number(&self) -> u32 {
        self.inner.number
    }

    /// The grid; `None` for an unstructured pattern.
    pub fn grid(&self) -> Option<&Grid> {
        match &self.inner.domains {
            Domains::Structured { grid, .. } => Some(grid),
            Domains::Unstructured { .. } => None,
        }
    }

    /// The number of domains of this rank.
    pub fn domain_count(&self) -> usize {
        match &self.inner.domains {
            Domains::Structured { boxes, .. } => boxes.len(),
            Domains::Unstructured { sets, .. } => sets.len(),
        }
    }

    /// The boxes of cells that this rank owns; none in an unstructured pattern.
    pub fn boxes(&self) -> &[IndexBox] {
        match &self.inner.domains {
            Domains::Structured { boxes, .. } => boxes,
            Domains::Unstructured { .. } => &[],
        }
    }

    /// The unstructured domains of this rank; none in a structured pattern.
    pub fn index_sets(&self) -> &[IndexSet] {
        match &self.inner.domains {
            Domains::Structured { .. } => &[],
            Domains::Unstructured { sets, .. } => sets,
        }
    }

    /// What this rank gets: for each sending rank (itself too) the pieces in the order in which they travel.
    pub fn receives(&self) -> &BTreeMap<usize, Vec<Piece>> {
        &self.inner.receives
    }

    /// What this rank sends: for each receiving rank (itself too) the pieces in the order in which they travel.
    pub fn sends(&self) -> &BTreeMap<usize, Vec<Piece>> {
        &self.inner.sends
    }

    /// The number of halo cells that one exchange fills on this rank.
    pub fn halo_cells(&self) -> u128 {
        self.inner.receives.values().flatten().map(|piece| piece.target.count()).sum()
    }

    /// What it took this rank to find its neighbours.
    pub fn setup_cost(&self) -> SetupCost {
        self.inner.setup
    }

    /// A box of cells of `domain` that no exchange reads or writes, as large as cutting off what is sent leaves it;
    /// `None` for a domain that is not there or has no such cell. Of an unstructured domain, the longest run of local
    /// indices. What can be computed without the halo is another question: see [`regions`](Pattern::regions).
    pub fn interior(&self, domain: usize) -> Option<IndexBox> {
        match &self.inner.domains {
            Domains::Structured { boxes, .. } => {
                let owned = *boxes.get(domain)?;
                let sent = self.inner.sends.values().flatten().filter(|piece| piece.source_domain == domain);
                let mut sent = sent.filter_map(|piece| piece.source.as_box());
                let interior = sent.try_fold(owned, |interior, source| interior.minus_one_side(source))?;
                (!interior.is_empty()).then_some(interior)
            }
            Domains::Unstructured { .. } => run_box(&self.runs()?.get(domain)?.interior),
        }
    }

    /// A box of cells that `domain` owns: all of them, or of an unstructured domain the longest run of local indices;
    /// `None` for a domain that is not there or owns none.
    pub fn owned(&self, domain: usize) -> Option<IndexBox> {
        match &self.inner.domains {
            Domains::Structured { boxes, .. } => boxes.get(domain).copied().filter(|owned| !owned.is_empty()),
            Domains::Unstructured { .. } => run_box(&self.runs()?.get(domain)?.owned),
        }
    }

    /// The same domains with other pieces.
    fn with_pieces(
        &self,
        receives: BTreeMap<usize, Vec<Piece>>,
        sends: BTreeMap<usize, Vec<Piece>>,
    ) -> Pattern {
        let Inner { comm, number, domains, setup, .. } = &*self.inner;
        let (comm, domains) = (comm.clone(), domains.clone());
        let inner = Inner { comm, number: *number, domains, receives, sends, setup: *setup };
        Pattern { inner: Arc::new(inner) }
    }

    /// The blocks that a field has for the domains.
    pub(crate) fn block_shapes(&self) -> Vec<BlockShape> {
        match &self.inner.domains {
            Domains::Structured { widths, boxes, .. } => boxes
                .iter()
                .map(|owned| {
                    // What is empty along one axis may be huge along the others.
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

/// What all ranks must agree on before anything else.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Description {
    Structured { cells: IndexBox, periodic: Vec<bool>, cubed_sphere: bool, widths: HaloWidths },
    Unstructured,
}

/// Collective: agrees on the description, and on the complaint of any rank about its own arguments. A rank whose
/// arguments are wrong still takes part, so that all get its error.
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

/// Checks what other ranks want of this one: cells that it `owns`.
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

/// Collective: agrees on what the keepers of a directory found. A keeper is not the culprit and is not named.
fn agree_on_findings(comm: &Communicator, found: Option<String>) -> Result<(), PatternError> {
    let agreed = comm.agree(found)?;
    refuse(agreed.map_err(|text| text.split_once(": ").map_or(text.clone(), |(_, found)| found.to_string())))
}

fn disagreement(mine: &Description, first: &Description) -> Option<String> {
    use Description::{Structured, Unstructured};
    let (
        Structured { cells, periodic, cubed_sphere, widths },
        Structured { cells: cells0, periodic: periodic0, cubed_sphere: cubed_sphere0, widths: widths0 },
    ) = (mine, first)
    else {
        let show = |it: &Description| if *it == Unstructured { "unstructured" } else { "structured" };
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
    if widths != widths0 {
        let axes = cells.axes();
        let show = |it: &HaloWidths| {
            format!("{:?} below, {:?} above, {:?}", &it.lower[..axes], &it.upper[..axes], it.connectivity)
        };
        return Some(format!("the halo is {} here and {} on rank 0", show(widths), show(widths0)));
    }
    None
}
