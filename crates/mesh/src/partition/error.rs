//! Errors of partitions.

use std::path::PathBuf;

use thiserror::Error;

/// Why a mesh cannot be cut into these parts.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// The number of parts is 0 or above the limit.
    #[error("a partition has 1 to {limit} parts; found {found}")]
    Parts {
        /// The number of parts that was asked for.
        found: usize,
        /// The most parts.
        limit: usize,
    },
    /// There are more parts than cells.
    #[error("{parts} parts of {cells} cells would leave parts empty; choose at most {cells} parts")]
    MoreThanCells {
        /// The number of parts that was asked for.
        parts: usize,
        /// The number of cells of the mesh.
        cells: usize,
    },
    /// The partition is not of as many cells as the mesh has.
    #[error("the partition is of {found} cells, but the mesh has {cells}")]
    Length {
        /// The number of cells of the partition.
        found: usize,
        /// The number of cells of the mesh.
        cells: usize,
    },
    /// A cell is in a part that does not exist.
    #[error("cell {cell} is in part {part}, but there are {parts} parts, numbered from 0")]
    NoSuchPart {
        /// The cell.
        cell: usize,
        /// Its part.
        part: usize,
        /// The number of parts.
        parts: usize,
    },
    /// A part has no cells, and empty parts are not allowed.
    #[error("part {part} of {parts} has no cells; choose fewer parts, or allow empty ones")]
    EmptyPart {
        /// The lowest part that is empty.
        part: usize,
        /// The number of parts.
        parts: usize,
    },
    /// A file of parts cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// A line of a file of parts is not a number.
    #[error("{}, line {line}: expected the number of a part, found `{found}`", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The line that was found.
        found: String,
    },
    /// METIS failed.
    #[cfg(feature = "metis")]
    #[error("METIS failed: {0}")]
    Metis(String),
}
