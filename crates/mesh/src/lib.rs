//! Unstructured meshes: where they come from, how they are cut into parts, and what one part of them holds.
//!
//! - [`Mesh`]: cells (polygons), edges and vertices of a surface, and who is next to whom;
//! - [`Mesh::icosahedral`] and [`Mesh::icon`]: triangles on the unit sphere;
//! - [`Partition`]: which part gets which cells, by a space-filling curve, by METIS (feature `metis`), or as given;
//! - [`LocalMesh`]: what one part holds, with halo levels by distance;
//! - [`sphere`]: lengths, areas and centres on the unit sphere.
//!
//! Everything is numbered from 0, and the same input gives the same numbers on every machine and every rank: the
//! number of a cell, an edge or a vertex is its global id. This crate knows nothing of ranks, fields and exchanges.

#![warn(missing_docs)]

mod connect;
mod error;
mod icosahedral;
mod lists;
mod local;
mod mesh;
pub mod partition;
pub mod sphere;

pub use error::MeshError;
pub use local::{LocalItems, LocalMesh, Neighbourhood};
pub use mesh::{Mesh, Surface};
pub use partition::{Partition, PartitionError};
