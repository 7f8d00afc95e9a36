//! Patterns: who sends which cells to whom, derived once from what each rank owns and used for any field.
//!
//! A pattern is made collectively. Each rank brings its own domains; nobody holds a table of all ranks. A directory of
//! boxes, itself spread over the ranks, answers who owns the cells of a halo; each rank then tells the owners what it
//! wants, and the owners send in exactly that order.

mod directory;
mod regions;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::{Grid, GridError, Halo, HaloWidths, IndexBox};
use crate::transport::{Communicator, TransportError};

/// Who sends which cells to whom, for one grid, one set of domains and one halo. Cloning gives another handle to
/// the same pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    comm: Communicator,
    grid: Grid,
    widths: HaloWidths,
    domains: Vec<IndexBox>,
    receives: BTreeMap<usize, Vec<Piece>>,
    sends: BTreeMap<usize, Vec<Piece>>,
}

/// A box of cells that one domain sends to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The domain of the sending rank that owns the cells.
    pub source_domain: usize,
    /// The cells as the sender numbers them: within the grid.
    pub source: IndexBox,
    /// The domain of the receiving rank whose halo they fill.
    pub target_domain: usize,
    /// The same cells as the receiver numbers them: around its domain, possibly beyond a periodic end of the grid.
    pub target: IndexBox,
}

/// Why a pattern could not be made. Every rank gets the same error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The halo does not fit the grid's axes.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// The ranks disagree, or their domains do not make up the grid. The text names the rank.
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
    /// the grid.
    ///
    /// # Errors
    /// [`PatternError::Refused`], with the same text on every rank, where ranks disagree about the grid or the halo,
    /// or the domains overlap, leave gaps or lie outside of the grid; [`PatternError::Transport`].
    pub fn structured(
        comm: &Communicator,
        grid: &Grid,
        domains: &[IndexBox],
        halo: &Halo,
    ) -> Result<Pattern, PatternError> {
        let widths = halo.on(grid);
        // A rank whose own arguments are wrong still takes part in the agreement, so that all get its error.
        let description =
            widths.as_ref().map(|widths| Description::new(grid, widths)).map_err(ToString::to_string);
        let first = comm.broadcast(0, &description)?;
        let complaint = match (&description, &first) {
            (Err(error), _) => Some(error.clone()),
            (Ok(mine), Ok(first)) => disagreement(mine, first),
            (Ok(_), Err(_)) => None,
        };
        refuse(comm.agree(complaint.or_else(|| stray_domain(grid, domains)))?)?;
        let widths = widths?;

        let directory = directory::Directory::new(grid, comm.size())?;
        let known = directory.register(comm, domains)?;
        let wanted = regions::wanted(grid, &widths, domains);
        let receives = directory.look_up(comm, &known, &wanted)?;
        let requests: Vec<(usize, Vec<Piece>)> =
            receives.iter().map(|(&owner, pieces)| (owner, pieces.clone())).collect();
        let sends = comm.sparse_exchange(&requests)?.into_iter().collect();
        let domains = domains.to_vec();
        Ok(Pattern {
            inner: Arc::new(Inner { comm: comm.clone(), grid: *grid, widths, domains, receives, sends }),
        })
    }

    /// The ranks.
    pub fn comm(&self) -> &Communicator {
        &self.inner.comm
    }

    /// The grid.
    pub fn grid(&self) -> &Grid {
        &self.inner.grid
    }

    /// The boxes of cells that this rank owns.
    pub fn domains(&self) -> &[IndexBox] {
        &self.inner.domains
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
        self.inner.receives.values().flatten().map(|piece| piece.target.cells()).sum()
    }

    /// A box of cells of `domain` that no exchange reads or writes, as large as cutting off what is sent leaves it;
    /// `None` for a domain that is not there or has no such cell.
    pub fn interior(&self, domain: usize) -> Option<IndexBox> {
        let owned = *self.inner.domains.get(domain)?;
        let mut sent = self.inner.sends.values().flatten().filter(|piece| piece.source_domain == domain);
        let interior = sent.try_fold(owned, |interior, piece| interior.minus_one_side(&piece.source))?;
        (!interior.is_empty()).then_some(interior)
    }

    pub(crate) fn widths(&self) -> &HaloWidths {
        &self.inner.widths
    }
}

fn refuse(agreed: Result<(), String>) -> Result<(), PatternError> {
    agreed.map_err(PatternError::Refused)
}

/// What all ranks must agree on.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Description {
    cells: IndexBox,
    periodic: Vec<bool>,
    widths: HaloWidths,
}

impl Description {
    fn new(grid: &Grid, widths: &HaloWidths) -> Description {
        Description { cells: grid.cells(), periodic: grid.periodic_axes().to_vec(), widths: *widths }
    }
}

fn disagreement(mine: &Description, first: &Description) -> Option<String> {
    if (mine.cells, &mine.periodic) != (first.cells, &first.periodic) {
        let show = |it: &Description| format!("{} (periodic: {:?})", it.cells, it.periodic);
        return Some(format!("the grid is {} here and {} on rank 0", show(mine), show(first)));
    }
    if mine.widths != first.widths {
        let axes = mine.cells.axes();
        let show = |it: &HaloWidths| {
            format!("{:?} below, {:?} above, {:?}", &it.lower[..axes], &it.upper[..axes], it.neighbours)
        };
        return Some(format!(
            "the halo is {} here and {} on rank 0",
            show(&mine.widths),
            show(&first.widths)
        ));
    }
    None
}

fn stray_domain(grid: &Grid, domains: &[IndexBox]) -> Option<String> {
    domains.iter().enumerate().find_map(|(number, domain)| {
        if domain.axes() != grid.axes() {
            return Some(format!(
                "domain {number} has {} axes, expected the {} of the grid",
                domain.axes(),
                grid.axes()
            ));
        }
        (!grid.cells().encloses(domain)).then(|| {
            format!("domain {number} ({domain}) reaches outside of the grid, which is {}", grid.cells())
        })
    })
}
