//! Errors of meshes.

use thiserror::Error;

/// Why cells and vertices form no mesh.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MeshError {
    /// The mesh has no cells.
    #[error("the mesh has no cells")]
    NoCells,
    /// A cell has fewer than three vertices.
    #[error("cell {cell} has {found} vertices; expected at least 3")]
    TooFewVertices {
        /// The cell.
        cell: usize,
        /// The number of its vertices.
        found: usize,
    },
    /// A cell names a missing vertex.
    #[error("cell {cell} has a vertex {vertex}, but the mesh has {vertices} vertices, numbered from 0")]
    NoSuchVertex {
        /// The cell.
        cell: usize,
        /// The missing vertex.
        vertex: usize,
        /// The number of vertices of the mesh.
        vertices: usize,
    },
    /// A cell has the same vertex twice.
    #[error("cell {cell} has vertex {vertex} twice")]
    RepeatedVertex {
        /// The cell.
        cell: usize,
        /// The vertex.
        vertex: usize,
    },
    /// No cell has a vertex.
    #[error("vertex {vertex} belongs to no cell; leave it out")]
    UnusedVertex {
        /// The vertex.
        vertex: usize,
    },
    /// A position is not finite.
    #[error("vertex {vertex} is at {position:?}: expected finite numbers")]
    NotFinite {
        /// The vertex.
        vertex: usize,
        /// Its position.
        position: [f64; 3],
    },
    /// A vertex of a spherical mesh is not on the unit sphere.
    #[error("vertex {vertex} is {radius} from the origin; expected 1, since the mesh is on the unit sphere")]
    NotOnSphere {
        /// The vertex.
        vertex: usize,
        /// Its distance from the origin.
        radius: f64,
    },
    /// Three cells share an edge.
    #[error(
        "the edge between vertices {} and {} has three cells, {}, {} and {}; expected one or two: \
         the cells do not form a surface", .vertices[0], .vertices[1], .cells[0], .cells[1], .cells[2]
    )]
    NonManifold {
        /// The ends of the edge.
        vertices: [usize; 2],
        /// The cells that have it.
        cells: [usize; 3],
    },
    /// Neighbouring cells list their vertices in opposite senses.
    #[error(
        "cells {} and {} run along the edge between vertices {} and {} in the same direction; expected all cells \
         counter-clockwise", .cells[0], .cells[1], .vertices[0], .vertices[1]
    )]
    Orientation {
        /// The ends of the edge.
        vertices: [usize; 2],
        /// The cells that have it.
        cells: [usize; 2],
    },
    /// A generator was asked for no cells, or for more than its limit.
    #[error("{what} would have {cells} cells; expected 1 to {limit}")]
    Size {
        /// The mesh that was asked for.
        what: String,
        /// The number of cells that it would have, at most the largest number of the type.
        cells: u128,
        /// The most cells that a generator makes.
        limit: usize,
    },
}
