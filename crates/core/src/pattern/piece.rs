//! Pieces: cells of one domain that fill the halo of another one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::{IndexBox, Orientation};

/// Cells that one domain sends to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The domain of the sending rank that owns the cells.
    pub source_domain: usize,
    /// The cells in the numbering of the sender: indices of the grid, or local indices.
    pub source: Cells,
    /// The domain of the receiving rank whose halo the cells fill.
    pub target_domain: usize,
    /// The same cells in the numbering of the receiver: indices around its domain, possibly beyond a periodic end of
    /// the grid or an edge of a tile; or local indices in the same order.
    pub target: Cells,
    /// For each axis of the target, the axis of the source along which it runs.
    pub orientation: Orientation,
}

/// The pieces that a rank receives from each rank, and those that it sends to each rank, in the order in which they travel.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) receives: BTreeMap<usize, Vec<Piece>>,
    pub(super) sends: BTreeMap<usize, Vec<Piece>>,
}

/// Cells of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cells {
    /// A box of a structured domain.
    Box(IndexBox),
    /// The local indices of cells of an unstructured domain.
    List(Arc<[u32]>),
    /// Cells of a structured domain, one by one, in a [redistribution](crate::Redistribution) between a grid and numbered
    /// cells.
    ListInBox {
        /// The number of axes of the grid.
        axes: usize,
        /// The numbers of the cells in the box of the domain: counted from 0, the last axis fastest.
        numbers: Arc<[u32]>,
    },
}

impl Piece {
    /// The same cells on the way from the halo to their owner.
    pub(crate) fn reversed(&self) -> Piece {
        Piece {
            source_domain: self.target_domain,
            source: self.target.clone(),
            target_domain: self.source_domain,
            target: self.source.clone(),
            orientation: self.orientation.inverse(),
        }
    }
}

impl Cells {
    /// The number of cells.
    pub fn count(&self) -> u128 {
        match self {
            Cells::Box(cells) => cells.cells(),
            Cells::List(cells) | Cells::ListInBox { numbers: cells, .. } => cells.len() as u128,
        }
    }

    /// The box; `None` for listed cells.
    pub fn as_box(&self) -> Option<&IndexBox> {
        match self {
            Cells::Box(cells) => Some(cells),
            Cells::List(_) | Cells::ListInBox { .. } => None,
        }
    }

    /// The local indices; `None` for cells of a structured domain.
    pub fn as_list(&self) -> Option<&Arc<[u32]>> {
        match self {
            Cells::Box(_) | Cells::ListInBox { .. } => None,
            Cells::List(cells) => Some(cells),
        }
    }
}
