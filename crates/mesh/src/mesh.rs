//! A mesh: cells, edges, vertices and their neighbours.

use crate::connect::{self, Edges};
use crate::error::MeshError;
use crate::lists::Lists;
use crate::sphere;

/// The largest distance of a spherical mesh's vertices from the unit sphere.
const ON_SPHERE: f64 = 1e-9;

/// The kind of surface that cells and edges lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// Edges are arcs of great circles, cells are spherical polygons; vertices have length 1.
    UnitSphere,
    /// Edges are straight, cells are flat polygons, or nearly flat ones.
    Flat,
}

/// Cells (polygons), edges and vertices of a surface in space.
///
/// All three are numbered from 0. The numbers depend only on the list of cells and serve as global ids. A surface has
/// one or two cells at each edge; it may have holes and several pieces.
#[derive(Clone, Debug, PartialEq)]
pub struct Mesh {
    surface: Surface,
    positions: Vec<[f64; 3]>,
    cell_vertices: Lists,
    edges: Edges,
    vertex_cells: Lists,
}

impl Mesh {
    /// Makes the mesh with vertices at `positions` whose cell `c` has the vertices `cells[c]`: at least three,
    /// counter-clockwise as seen from outside (or from above).
    ///
    /// # Errors
    /// [`MeshError`] if the cells form no surface: a vertex is missing, repeated or unused; an edge has three cells;
    /// neighbours have opposite orientations. Also if positions are not finite or, on [`Surface::UnitSphere`], not on
    /// the unit sphere.
    pub fn new<C: AsRef<[usize]>>(
        surface: Surface,
        positions: Vec<[f64; 3]>,
        cells: impl IntoIterator<Item = C>,
    ) -> Result<Mesh, MeshError> {
        let mut cell_vertices = Lists::new();
        cells.into_iter().for_each(|cell| cell_vertices.push(cell.as_ref().iter().copied()));
        check_positions(surface, &positions)?;
        check_cells(&cell_vertices, positions.len())?;
        let pairs = cell_vertices.iter().enumerate().flat_map(|(c, list)| list.iter().map(move |&v| (v, c)));
        let vertex_cells = Lists::grouped(positions.len(), pairs);
        if let Some(vertex) = vertex_cells.iter().position(<[usize]>::is_empty) {
            return Err(MeshError::UnusedVertex { vertex });
        }
        let edges = connect::edges(&cell_vertices)?;
        Ok(Mesh { surface, positions, cell_vertices, edges, vertex_cells })
    }

    /// The kind of surface.
    pub fn surface(&self) -> Surface {
        self.surface
    }

    /// The number of cells.
    pub fn cells(&self) -> usize {
        self.cell_vertices.len()
    }

    /// The number of edges.
    pub fn edges(&self) -> usize {
        self.edges.vertices.len()
    }

    /// The number of vertices.
    pub fn vertices(&self) -> usize {
        self.positions.len()
    }

    /// The vertices of `cell`, counter-clockwise as seen from outside.
    ///
    /// # Panics
    /// Like the indexing of a slice, this and the methods below panic if there is no such cell, edge or vertex.
    pub fn cell_vertices(&self, cell: usize) -> &[usize] {
        self.cell_vertices.of(cell)
    }

    /// The edges of `cell`: edge `k` leads from its vertex `k` to its next vertex.
    pub fn cell_edges(&self, cell: usize) -> &[usize] {
        self.edges.of_cells.of(cell)
    }

    /// The cells next to `cell`. The `k`th is the one across edge `k`; `None` at the boundary of the mesh.
    pub fn cell_neighbours(&self, cell: usize) -> impl ExactSizeIterator<Item = Option<usize>> {
        self.cell_edges(cell).iter().map(move |&edge| self.across(edge, cell))
    }

    /// The cells on the left and on the right of `edge`, as seen from its first vertex to its second; `None` on the
    /// right if the edge is on the boundary. The left one has the lower number.
    pub fn edge_cells(&self, edge: usize) -> (usize, Option<usize>) {
        self.edges.cells[edge]
    }

    /// The ends of `edge`.
    pub fn edge_vertices(&self, edge: usize) -> [usize; 2] {
        self.edges.vertices[edge]
    }

    /// The cells around `vertex`, ascending.
    pub fn vertex_cells(&self, vertex: usize) -> &[usize] {
        self.vertex_cells.of(vertex)
    }

    /// The position of `vertex`.
    pub fn position(&self, vertex: usize) -> [f64; 3] {
        self.positions[vertex]
    }

    /// The positions of all vertices, by their numbers.
    pub fn positions(&self) -> &[[f64; 3]] {
        &self.positions
    }

    /// The mean of the vertices of `cell`, projected onto the sphere on [`Surface::UnitSphere`]. If the cell is a
    /// triangle, this is its centroid; on the sphere, up to the square of its size.
    pub fn cell_centre(&self, cell: usize) -> [f64; 3] {
        self.centre(self.cell_vertices(cell))
    }

    /// The middle of `edge`.
    pub fn edge_centre(&self, edge: usize) -> [f64; 3] {
        self.centre(&self.edge_vertices(edge))
    }

    /// The area of `cell`; on the unit sphere, its spherical excess.
    pub fn cell_area(&self, cell: usize) -> f64 {
        let corners: Vec<[f64; 3]> = self.cell_vertices(cell).iter().map(|&v| self.position(v)).collect();
        match self.surface {
            Surface::UnitSphere => sphere::polygon_area(&corners),
            Surface::Flat => flat_area(&corners),
        }
    }

    /// The length of `edge`; on the unit sphere, that of the arc.
    pub fn edge_length(&self, edge: usize) -> f64 {
        let [a, b] = self.edge_vertices(edge).map(|vertex| self.position(vertex));
        match self.surface {
            Surface::UnitSphere => sphere::arc(a, b),
            Surface::Flat => sphere::norm(sphere::difference(a, b)),
        }
    }

    /// Vertices − edges + cells: 2 for a sphere, 1 for a disc, 0 for an annulus.
    pub fn euler_characteristic(&self) -> i64 {
        self.vertices() as i64 - self.edges() as i64 + self.cells() as i64
    }

    /// The number of edges with a cell on one side only.
    pub fn boundary_edges(&self) -> usize {
        self.edges.cells.iter().filter(|(_, other)| other.is_none()).count()
    }

    /// The cell on the other side of `edge` from `cell`.
    fn across(&self, edge: usize, cell: usize) -> Option<usize> {
        let (left, right) = self.edge_cells(edge);
        if cell == left { right } else { Some(left) }
    }

    fn centre(&self, vertices: &[usize]) -> [f64; 3] {
        let mut sum = [0.0; 3];
        for &vertex in vertices {
            (0..3).for_each(|axis| sum[axis] += self.positions[vertex][axis]);
        }
        match self.surface {
            Surface::UnitSphere => sphere::unit(sum),
            Surface::Flat => sum.map(|x| x / vertices.len() as f64),
        }
    }
}

/// The area of a flat polygon: half the length of its vector area.
fn flat_area(corners: &[[f64; 3]]) -> f64 {
    let mut vector_area = [0.0; 3];
    for pair in corners[1..].windows(2) {
        let spanned =
            sphere::cross(sphere::difference(pair[0], corners[0]), sphere::difference(pair[1], corners[0]));
        (0..3).for_each(|axis| vector_area[axis] += spanned[axis] / 2.0);
    }
    sphere::norm(vector_area)
}

fn check_positions(surface: Surface, positions: &[[f64; 3]]) -> Result<(), MeshError> {
    for (vertex, &position) in positions.iter().enumerate() {
        if !position.iter().all(|x| x.is_finite()) {
            return Err(MeshError::NotFinite { vertex, position });
        }
        let radius = sphere::norm(position);
        if surface == Surface::UnitSphere && (radius - 1.0).abs() > ON_SPHERE {
            return Err(MeshError::NotOnSphere { vertex, radius });
        }
    }
    Ok(())
}

fn check_cells(cells: &Lists, vertices: usize) -> Result<(), MeshError> {
    if cells.len() == 0 {
        return Err(MeshError::NoCells);
    }
    for (cell, list) in cells.iter().enumerate() {
        if list.len() < 3 {
            return Err(MeshError::TooFewVertices { cell, found: list.len() });
        }
        if let Some(&vertex) = list.iter().find(|&&vertex| vertex >= vertices) {
            return Err(MeshError::NoSuchVertex { cell, vertex, vertices });
        }
        let repeated = |k: &usize| list[..*k].contains(&list[*k]);
        if let Some(k) = (1..list.len()).find(repeated) {
            return Err(MeshError::RepeatedVertex { cell, vertex: list[k] });
        }
    }
    Ok(())
}
