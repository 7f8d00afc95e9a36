//! What a rank owns: boxes of the cells of a grid, which may be a cubed sphere, and how wide their halos are, or sets
//! of numbered cells.

mod bounds;
pub mod cubed_sphere;
mod grid;
mod halo;
mod index_set;
mod orientation;
mod split;

pub use bounds::{IndexBox, MAX_AXES};
pub use grid::{Grid, GridError};
pub use halo::{Connectivity, Halo};
pub use index_set::{HaloCells, IndexSet};
pub use orientation::Orientation;
pub use split::Split;

pub(crate) use halo::HaloWidths;
pub(crate) use orientation::Placement;
