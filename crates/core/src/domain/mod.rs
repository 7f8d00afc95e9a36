//! What a rank owns: boxes of a grid's cells and how wide their halos are, or sets of numbered cells.

mod bounds;
mod grid;
mod halo;
mod index_set;
mod split;

pub use bounds::{IndexBox, MAX_AXES};
pub use grid::{Grid, GridError};
pub use halo::{Halo, Neighbours};
pub use index_set::{HaloCells, IndexSet};
pub use split::Split;

pub(crate) use halo::HaloWidths;
pub(crate) use split::balanced_counts;
