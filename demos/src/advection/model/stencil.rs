//! The weights, offsets and fluxes of each cell.
//!
//! They follow from the whole mesh and the wind alone, in the mesh's own order, so all ranks that compute a cell have
//! the same bits.

use haloport_mesh::sphere::{difference, dot};
use haloport_mesh::{Mesh, Surface};
use thiserror::Error;

use super::tracer::directions;
use super::wind::Wind;

/// The error of a mesh on which the scheme cannot run.
#[derive(Debug, Error)]
pub enum StencilError {
    /// The mesh is no closed sphere.
    #[error("the mesh must be a closed sphere, found {edges} edges at a boundary on {surface:?}")]
    NotASphere {
        /// Edges with one cell alone.
        edges: usize,
        /// The surface of the mesh.
        surface: Surface,
    },
    /// A cell is no triangle.
    #[error("cell {cell} of the mesh has {found} vertices; expected triangles")]
    NotATriangle {
        /// The cell.
        cell: usize,
        /// Its vertices.
        found: usize,
    },
}

/// The edges of a cell.
pub const EDGES: usize = 3;

/// One of the three neighbours of a cell, and the edge to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// The cell.
    pub cell: usize,
    /// Weights: the gradient is the sum, over neighbours, of weight times difference, along both axes.
    pub weights: [f64; 2],
    /// The middle of the edge, relative to the centre of the cell.
    pub offset: [f64; 2],
}

/// The flow through one edge of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The upwind cell: this one or the one across the edge.
    pub upwind: usize,
    /// Flux per unit of tracer and day, outwards: the negative of that seen from the other side.
    pub flux: f64,
    /// The middle of the edge relative to the upwind cell, in the plane that touches the sphere there.
    pub offset: [f64; 2],
}

/// Checks that the scheme can run on `mesh`.
///
/// # Errors
/// [`StencilError`].
pub fn check(mesh: &Mesh) -> Result<(), StencilError> {
    let (edges, surface) = (mesh.boundary_edges(), mesh.surface());
    if edges > 0 || surface != Surface::UnitSphere {
        return Err(StencilError::NotASphere { edges, surface });
    }
    let other = (0..mesh.cells()).find(|&cell| mesh.cell_vertices(cell).len() != EDGES);
    other.map_or(Ok(()), |cell| {
        Err(StencilError::NotATriangle { cell, found: mesh.cell_vertices(cell).len() })
    })
}

/// The neighbours of `cell` in the order of its edges, with the weights of the gradient that fits the differences to
/// them best (least squares, equal weights), in the plane that touches the sphere at the cell's centre.
pub fn neighbours(mesh: &Mesh, cell: usize) -> [Neighbour; EDGES] {
    let across = mesh.cell_neighbours(cell).map(|other| other.unwrap_or(cell));
    let mut found = [Neighbour { cell, weights: [0.0; 2], offset: [0.0; 2] }; EDGES];
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for ((other, &edge), place) in across.zip(mesh.cell_edges(cell)).zip(&mut found) {
        let [x, y] = seen_from(mesh, cell, mesh.cell_centre(other));
        *place =
            Neighbour { cell: other, weights: [x, y], offset: seen_from(mesh, cell, mesh.edge_centre(edge)) };
        (xx, xy, yy) = (xx + x * x, xy + x * y, yy + y * y);
    }
    let determinant = xx * yy - xy * xy;
    for place in &mut found {
        let [x, y] = place.weights;
        place.weights = [(yy * x - xy * y) / determinant, (xx * y - xy * x) / determinant];
    }
    found
}

/// The flows through the edges of `cell`, in order: differences of the stream function between their ends, whose sum
/// around a cell is zero up to rounding.
pub fn flows(mesh: &Mesh, wind: &Wind, cell: usize) -> [Flow; EDGES] {
    let mut flows = [Flow { upwind: cell, flux: 0.0, offset: [0.0; 2] }; EDGES];
    let across = mesh.cell_neighbours(cell).map(|other| other.unwrap_or(cell));
    for ((other, &edge), place) in across.zip(mesh.cell_edges(cell)).zip(&mut flows) {
        let [from, to] = mesh.edge_vertices(edge).map(|vertex| wind.stream_function(mesh.position(vertex)));
        // From the left to the right of the edge, for both sides alike.
        let rightward = to - from;
        let (left, _) = mesh.edge_cells(edge);
        let is_left = left == cell;
        let flux = if is_left { rightward } else { -rightward };
        // If the flux is zero, both sides must name the same cell, too.
        let upwind = if is_left == (rightward > 0.0) { cell } else { other };
        *place = Flow { upwind, flux, offset: seen_from(mesh, upwind, mesh.edge_centre(edge)) };
    }
    flows
}

/// The fraction of its tracer that a cell loses within a day; the largest of all cells.
pub fn largest_outflow(mesh: &Mesh, wind: &Wind) -> f64 {
    let outflow = |cell: usize| -> f64 {
        let outward = flows(mesh, wind, cell).map(|flow| flow.flux.max(0.0));
        outward.iter().sum::<f64>() / mesh.cell_area(cell)
    };
    (0..mesh.cells()).map(outflow).fold(0.0, f64::max)
}

/// The point `at` in the plane that touches the sphere at the centre of `cell`, relative to that.
fn seen_from(mesh: &Mesh, cell: usize, at: [f64; 3]) -> [f64; 2] {
    let centre = mesh.cell_centre(cell);
    // Any axis that is not too near the cell.
    let up = if centre[2].abs() < 0.8 { [0.0, 0.0, 1.0] } else { [1.0, 0.0, 0.0] };
    directions(centre, up).map(|direction| dot(difference(at, centre), direction))
}
