//! Unstructured meshes: generating and reading them, cutting them into parts, and the cells, edges and vertices of a
//! part.
//!
//! - [`Mesh`]: cells (polygons), edges and vertices of a surface, and their neighbours;
//! - [`Mesh::icosahedral`] and [`Mesh::icon`]: triangles on the unit sphere;
//! - [`Partition`]: the part of every cell, by a space-filling curve, by METIS (feature `metis`), or as given;
//! - [`LocalMesh`]: the cells, edges and vertices of one part, with halo levels by distance;
//! - [`GmshMesh`]: meshes from files of Gmsh;
//! - [`sphere`]: lengths, areas and centres on the unit sphere.
//!
//! Everything is numbered from 0, and the same input gives the same numbers on every rank: the number of a cell, an
//! edge or a vertex is its global id. This crate does not depend on ranks, fields and exchanges.
//!
//! ```
//! use haloport_mesh::{LocalMesh, Mesh, Neighbourhood, Partition};
//!
//! let mesh = Mesh::icon(2, 2)?; // ICON's R2B2: 1280 triangles
//! let partition = Partition::by_curve(&mesh, 4)?;
//! let local = LocalMesh::new(&mesh, &partition, 0, 2, Neighbourhood::Edges);
//! assert_eq!(local.cells().owned(), 320);
//! let ids: &[i64] = local.cells().ids(); // global: owned first, then the halo, in the order of a pattern
//! let across: &[Option<usize>] = local.cell_neighbours(0); // local numbers
//! # assert!(ids.len() > 320 && across.len() == 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

mod connect;
mod error;
mod gmsh;
mod icosahedral;
mod lists;
mod local;
mod mesh;
pub mod partition;
pub mod sphere;

pub use error::MeshError;
pub use gmsh::{GmshError, GmshMesh, GmshProblem};
pub use local::{LocalItems, LocalMesh, Neighbourhood};
pub use mesh::{Mesh, Surface};
pub use partition::{Partition, PartitionError};
