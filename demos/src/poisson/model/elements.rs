//! Linear finite elements on plane triangles with their corners on the sphere (G. Dziuk, "Finite elements for the Beltrami operator on
//! arbitrary surfaces", in "Partial Differential Equations and Calculus of Variations", Lecture Notes in Mathematics 1357 (1988)).

use haloport_mesh::sphere::{cross, difference, dot, norm};
use haloport_mesh::{LocalMesh, Mesh};

/// A triangle of a rank.
pub(super) struct Element {
    /// The local numbers of its vertices.
    pub(super) vertices: [usize; 3],
    pub(super) area: f64,
    /// The integrals of the products of the slopes of two vertices' functions, which are 1 there and 0 at the other vertices.
    pub(super) stiffness: [[f64; 3]; 3],
}

/// The triangles of a part.
pub(super) fn elements(mesh: &Mesh, part: &LocalMesh) -> Vec<Element> {
    let triangle = |cell: usize| {
        let vertices: [usize; 3] = part.cell_vertices(cell).try_into().ok()?;
        let corners = vertices.map(|vertex| mesh.position(part.vertices().global(vertex)));
        // The edge opposite each vertex.
        let edges = [0, 1, 2].map(|k| difference(corners[(k + 2) % 3], corners[(k + 1) % 3]));
        let area = norm(cross(edges[0], edges[1])) / 2.0;
        let stiffness = edges.map(|one| edges.map(|other| dot(one, other) / (4.0 * area)));
        Some(Element { vertices, area, stiffness })
    };
    (0..part.cells().owned()).filter_map(triangle).collect()
}
