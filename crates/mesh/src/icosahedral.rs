//! Triangles on the unit sphere, from an icosahedron.

use std::array;

use crate::error::MeshError;
use crate::mesh::{Mesh, Surface};
use crate::sphere;

/// The most cells that a generator makes: above R2B10, ICON's grid of 1.2 km.
const LIMIT: usize = 1 << 27;

impl Mesh {
    /// Makes the icosahedral mesh whose original edges are cut into `divisions` parts: 20 n² triangles, 30 n² edges and
    /// 10 n² + 2 vertices on the unit sphere. The first and the last of the twelve original vertices are the poles.
    ///
    /// Original edges are cut into equal arcs. A point inside an original triangle is the sum of its corners with the
    /// weights sin(θ i/n), projected onto the sphere, where θ is the angle of an original edge and i/n are the
    /// barycentric coordinates: the sine weights of spherical interpolation, extended to triangles.
    ///
    /// # Errors
    /// [`MeshError::Size`] for no divisions or too many.
    pub fn icosahedral(divisions: usize) -> Result<Mesh, MeshError> {
        check_size(&format!("an icosahedral mesh of {divisions} divisions"), divisions, 0)?;
        cut(&icosahedron()?, divisions)
    }

    /// Makes ICON's grid R`root`B`bisections`: the icosahedral mesh of `root` divisions, whose triangles are each cut
    /// into four at the middles of their edges, `bisections` times (G. Zängl et al., "The ICON (ICOsahedral
    /// Non-hydrostatic) modelling framework of DWD and MPI-M", Q. J. R. Meteorol. Soc. 141 (2015), section 2.1; without
    /// the spring optimisation that some of ICON's grids have). The four triangles from cell `c` are 4`c` to 4`c` + 3.
    ///
    /// # Errors
    /// [`MeshError::Size`] for a root of 0 or too many cells.
    pub fn icon(root: usize, bisections: u32) -> Result<Mesh, MeshError> {
        check_size(&format!("R{root}B{bisections:02}"), root, bisections)?;
        let mut mesh = Mesh::icosahedral(root)?;
        for _ in 0..bisections {
            mesh = cut(&mesh, 2)?;
        }
        Ok(mesh)
    }
}

fn check_size(what: &str, root: usize, bisections: u32) -> Result<(), MeshError> {
    let divisions = 2_u128.checked_pow(bisections).and_then(|n| n.checked_mul(root as u128));
    let cells = divisions.and_then(|n| n.checked_mul(n)?.checked_mul(20)).unwrap_or(u128::MAX);
    match cells {
        1.. if cells <= LIMIT as u128 => Ok(()),
        _ => Err(MeshError::Size { what: what.to_string(), cells, limit: LIMIT }),
    }
}

/// The icosahedron with vertices at the poles: two rings of five vertices at the latitudes ± atan(1/2).
fn icosahedron() -> Result<Mesh, MeshError> {
    let latitude = 0.5_f64.atan();
    let ring = |latitude: f64, shift: f64| {
        (0..5).map(move |i| {
            let longitude = (f64::from(i) + shift) * std::f64::consts::TAU / 5.0;
            let (sine, cosine) = longitude.sin_cos();
            sphere::unit([latitude.cos() * cosine, latitude.cos() * sine, latitude.sin()])
        })
    };
    let mut positions = vec![[0.0, 0.0, 1.0]];
    positions.extend(ring(latitude, 0.0).chain(ring(-latitude, 0.5)));
    positions.push([0.0, 0.0, -1.0]);
    let (upper, lower) = (|i: usize| 1 + i % 5, |i: usize| 6 + i % 5);
    let belt = |i: usize| {
        [
            [0, upper(i), upper(i + 1)],
            [upper(i), lower(i), upper(i + 1)],
            [lower(i), lower(i + 1), upper(i + 1)],
            [11, lower(i + 1), lower(i)],
        ]
    };
    Mesh::new(Surface::UnitSphere, positions, (0..5).flat_map(belt))
}

/// Cuts each edge of a mesh of triangles into `n` equal arcs, and each triangle into `n`² with consecutive numbers. The
/// old vertices keep their numbers; then come those on edges, by edge, and those inside triangles, by triangle. Points
/// inside assume equilateral triangles; if `n` is 2, there are none.
fn cut(mesh: &Mesh, n: usize) -> Result<Mesh, MeshError> {
    let inside = (n - 1) * n.saturating_sub(2) / 2;
    let first_on_edges = mesh.vertices();
    let first_inside = first_on_edges + mesh.edges() * (n - 1);

    let mut positions = mesh.positions().to_vec();
    for edge in 0..mesh.edges() {
        let [a, b] = mesh.edge_vertices(edge).map(|vertex| mesh.position(vertex));
        positions.extend((1..n).map(|step| sphere::along(a, b, step as f64 / n as f64)));
    }
    for cell in 0..mesh.cells() {
        let corners: [_; 3] = array::from_fn(|k| mesh.position(mesh.cell_vertices(cell)[k]));
        let points = (2..n).flat_map(|row| (1..row).map(move |column| [n - row, row - column, column]));
        positions.extend(points.map(|weights| between(corners, weights, n)));
    }

    // The point `column` of row `row` of a triangle: row 0 is its first corner, row n the edge across from it.
    let number = |cell: usize, row: usize, column: usize| {
        let on_edge = |k: usize, step: usize| {
            let edge = mesh.cell_edges(cell)[k];
            let forward = mesh.edge_vertices(edge)[0] == mesh.cell_vertices(cell)[k];
            first_on_edges + edge * (n - 1) + if forward { step - 1 } else { n - 1 - step }
        };
        match (row, column) {
            (0, _) => mesh.cell_vertices(cell)[0],
            (_, 0) if row == n => mesh.cell_vertices(cell)[1],
            (_, _) if row == n && column == n => mesh.cell_vertices(cell)[2],
            (_, 0) => on_edge(0, row),
            (_, _) if row == n => on_edge(1, column),
            (_, _) if column == row => on_edge(2, n - row),
            (_, _) => first_inside + cell * inside + (row - 1) * (row - 2) / 2 + column - 1,
        }
    };
    let row_of_triangles = |cell: usize, row: usize| {
        (0..2 * row + 1).map(move |k| {
            let column = k / 2;
            if k % 2 == 0 {
                [(row, column), (row + 1, column), (row + 1, column + 1)]
            } else {
                [(row + 1, column + 1), (row, column + 1), (row, column)]
            }
            .map(|(row, column)| number(cell, row, column))
        })
    };
    let cells = (0..mesh.cells()).flat_map(|cell| (0..n).flat_map(move |row| row_of_triangles(cell, row)));
    Mesh::new(Surface::UnitSphere, positions, cells)
}

/// The point of a triangle with the barycentric coordinates `weights` / `n`.
fn between(corners: [[f64; 3]; 3], weights: [usize; 3], n: usize) -> [f64; 3] {
    let angle = sphere::arc(corners[0], corners[1]);
    let weights = weights.map(|weight| (angle * weight as f64 / n as f64).sin());
    sphere::unit(array::from_fn(|axis| (0..3).map(|k| weights[k] * corners[k][axis]).sum()))
}
