//! What may be wrong with a mesh.

use thiserror::Error;

/// Why something is no mesh.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MeshError {
    /// A mesh has at least one cell.
    #[error("the mesh has no cells")]
    NoCells,
    /// A cell is a polygon.
    #[error("cell {cell} has {found} vertices; expected at least 3")]
    TooFewVertices {
        /// The cell.
        cell: usize,
        /// How many vertices it has.
        found: usize,
    },
    /// A cell names a vertex that is not there.
    #[error("cell {cell} has a vertex {vertex}, but the mesh has {vertices} vertices, numbered from 0")]
    NoSuchVertex {
        /// The cell.
        cell: usize,
        /// The vertex it names.
        vertex: usize,
        /// How many vertices there are.
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
    /// A vertex that no cell has.
    #[error("vertex {vertex} belongs to no cell; leave it out")]
    UnusedVertex {
        /// The vertex.
        vertex: usize,
    },
    /// A position that is no place.
    #[error("vertex {vertex} is at {position:?}: expected finite numbers")]
    NotFinite {
        /// The vertex.
        vertex: usize,
        /// Its position.
        position: [f64; 3],
    },
    /// A vertex of a spherical mesh that is not on the unit sphere.
    #[error("vertex {vertex} is {radius} from the origin; expected 1, since the mesh is on the unit sphere")]
    NotOnSphere {
        /// The vertex.
        vertex: usize,
        /// Its distance from the origin.
        radius: f64,
    },
    /// A surface has one or two cells at each edge.
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
    /// A generator was asked for no cells, or for more than fit.
    #[error("{what} would have {cells} cells; expected 1 to {limit}")]
    Size {
        /// The mesh that was asked for.
        what: String,
        /// How many cells it would have; the largest number of the type where there are more.
        cells: u128,
        /// The most cells that a generator makes.
        limit: usize,
    },
}
