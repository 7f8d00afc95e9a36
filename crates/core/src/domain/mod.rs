//! Domains: the cells that a rank owns, and the widths of their halos.
//!
//! Structured domains are boxes of cells ([`IndexBox`]) of a [`Grid`], which may be periodic, folded at one end
//! ([`fold`]), or a cubed sphere ([`cubed_sphere`]). A [`Split`] cuts a grid into such boxes, and a [`Halo`] gives the widths. Unstructured domains
//! are sets of numbered cells ([`IndexSet`]). Everything here is plain data of one rank; a [`Pattern`](crate::Pattern)
//! brings the domains of all ranks together.

pub mod cubed_sphere;
pub mod fold;
mod grid;
mod halo;
mod index_box;
mod index_set;
mod orientation;
mod split;

pub use fold::{Fold, Pivot, Points};
pub use grid::{Grid, GridError};
pub use halo::{Connectivity, Halo};
pub use index_box::{IndexBox, MAX_AXES};
pub use index_set::{HaloCells, IndexSet};
pub use orientation::Orientation;
pub use split::Split;

pub(crate) use halo::HaloWidths;
pub(crate) use orientation::Renumbering;
