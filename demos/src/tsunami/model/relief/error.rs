//! The errors of a relief.

use std::path::PathBuf;

use thiserror::Error;

/// The error of a relief that cannot be read or refined.
#[derive(Debug, Error)]
pub enum ReliefError {
    /// The file could not be opened.
    #[error("cannot open the relief {path}: {source}", path = path.display())]
    Open {
        /// The file asked for.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The bytes are no .npz archive.
    #[error("the relief is not a .npz archive of NumPy arrays: {reason}")]
    NotNpz {
        /// The error of the archive's reader.
        reason: String,
    },
    /// An array is not in the archive.
    #[error("the relief needs an array `{name}`, found {found}")]
    Missing {
        /// The array looked for.
        name: &'static str,
        /// The arrays of the archive.
        found: String,
    },
    /// An array holds elements of a type that is not read.
    #[error("array `{name}` of the relief must hold {expected}, found {found}")]
    ElementType {
        /// The array.
        name: &'static str,
        /// The types that are read.
        expected: &'static str,
        /// NumPy's description of the type found.
        found: String,
    },
    /// An array has the wrong number of dimensions or the wrong size.
    #[error("array `{name}` of the relief must have {expected}, found {found}")]
    Shape {
        /// The array.
        name: &'static str,
        /// The shape that was expected.
        expected: String,
        /// The shape found.
        found: String,
    },
    /// An array could not be decoded.
    #[error("array `{name}` of the relief cannot be read: {reason}")]
    Damaged {
        /// The array.
        name: &'static str,
        /// The error of the array's reader.
        reason: String,
    },
    /// An axis is too short.
    #[error("the relief must have at least {MIN_CELLS} cells on each axis, found {found} in {name}")]
    TooSmall {
        /// The axis.
        name: &'static str,
        /// Its number of cells.
        found: usize,
    },
    /// A value is NaN or infinite.
    #[error("array `{name}` of the relief must be finite, found {value} at index {index}")]
    NotFinite {
        /// The array.
        name: &'static str,
        /// The value found.
        value: f64,
        /// The index in row-major order.
        index: usize,
    },
    /// A mountain higher, or a sea deeper, than any on Earth.
    #[error(
        "array `topo` of the relief must be metres from -{HIGHEST} to {HIGHEST}, found {value} at index {index}, \
         {longitude} degrees east, {latitude} degrees north"
    )]
    Elevation {
        /// The value found.
        value: f64,
        /// The index in row-major order.
        index: usize,
        /// Centre of the cell, degrees east.
        longitude: f64,
        /// Centre of the cell, degrees north.
        latitude: f64,
    },
    /// A coordinate lies outside the range that the grid can describe.
    #[error("{name} of the relief must lie within {limit} degrees of zero, found {value} at index {index}")]
    OutOfRange {
        /// The axis.
        name: &'static str,
        /// The largest magnitude, degrees.
        limit: f64,
        /// The value found, degrees.
        value: f64,
        /// The index.
        index: usize,
    },
    /// The spacing of an axis changes sign, vanishes or varies too much.
    #[error(
        "{name} of the relief must be spaced {expected}, found {found} degrees after {before} at index {index}"
    )]
    Spacing {
        /// The axis.
        name: &'static str,
        /// The expected spacing.
        expected: &'static str,
        /// The step found, degrees.
        found: f64,
        /// The expected step, degrees.
        before: f64,
        /// The cell where the step begins.
        index: usize,
    },
    /// All cells are land.
    #[error("the relief has no sea: expected elevations below 0 m, found none below {lowest} m")]
    NoSea {
        /// The lowest elevation, metres.
        lowest: f64,
    },
    /// A refinement by zero, or one that gives more cells than [`MAX_CELLS`].
    #[error(
        "the refinement must be at least 1 and give at most {MAX_CELLS} cells, found {factor} on {cells} cells"
    )]
    Refinement {
        /// The refinement asked for.
        factor: usize,
        /// The number of cells before.
        cells: usize,
    },
}

/// The fewest cells on an axis.
pub const MIN_CELLS: usize = 4;

/// The most cells that a refinement may give (2 GiB a field).
pub const MAX_CELLS: usize = 1 << 28;

/// The largest magnitude of an elevation, metres. The deepest cell limits the time step of all: a wrong depth would
/// make a run endless.
pub const HIGHEST: f64 = 12_000.0;
