//! What may be wrong with a partition.

use std::path::PathBuf;

use thiserror::Error;

/// Why a mesh cannot be cut into parts like this.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// No parts, or too many.
    #[error("a partition has 1 to {limit} parts; found {found}")]
    Parts {
        /// How many were asked for.
        found: usize,
        /// The most that are possible.
        limit: usize,
    },
    /// There are too few cells for the parts.
    #[error("{parts} parts of {cells} cells would leave parts empty; choose at most {cells} parts")]
    MoreThanCells {
        /// How many parts were asked for.
        parts: usize,
        /// How many cells there are.
        cells: usize,
    },
    /// There is not one part for each cell.
    #[error("the partition is of {found} cells, but the mesh has {cells}")]
    Length {
        /// How many cells have a part.
        found: usize,
        /// How many cells there are.
        cells: usize,
    },
    /// A cell is in a part that does not exist.
    #[error("cell {cell} is in part {part}, but there are {parts} parts, numbered from 0")]
    NoSuchPart {
        /// The cell.
        cell: usize,
        /// Its part.
        part: usize,
        /// How many parts there are.
        parts: usize,
    },
    /// A part has no cell, where that is not allowed.
    #[error("part {part} of {parts} has no cells; choose fewer parts, or allow empty ones")]
    EmptyPart {
        /// The lowest part that is empty.
        part: usize,
        /// How many parts there are.
        parts: usize,
    },
    /// A file of parts cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A line of a file of parts is no number.
    #[error("{}, line {line}: expected the number of a part, found `{found}`", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What stands there.
        found: String,
    },
    /// METIS failed.
    #[cfg(feature = "metis")]
    #[error("METIS failed: {0}")]
    Metis(String),
}
