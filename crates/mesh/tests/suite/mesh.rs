//! Meshes: counts, orientation, neighbours, geometry and refusals.

use std::f64::consts::PI;

use haloport_mesh::{Mesh, MeshError, Surface, sphere};

fn icosahedral(divisions: usize) -> Mesh {
    Mesh::icosahedral(divisions).expect("a mesh")
}

/// A triangle and a square with a common edge; vertices 0 to 4 from left to right, bottom to top.
fn mixed() -> Mesh {
    let positions = vec![[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [1.0, 1.0, 0.0], [2.0, 1.0, 0.0]];
    let cells: [&[usize]; 2] = [&[0, 1, 3], &[1, 2, 4, 3]];
    Mesh::new(Surface::Flat, positions, cells).expect("a mesh")
}

#[test]
fn icosahedral_meshes_have_the_counts_of_theory() {
    for n in 1..=9 {
        let mesh = icosahedral(n);
        assert_eq!((mesh.cells(), mesh.edges(), mesh.vertices()), (20 * n * n, 30 * n * n, 10 * n * n + 2));
        assert_eq!((mesh.euler_characteristic(), mesh.boundary_edges()), (2, 0));
    }
}

#[test]
fn icon_grids_have_the_counts_that_icon_publishes() {
    // "ICON grids", DWD, table of the number of cells: R02B04 has 20480, R03B05 has 184320.
    for (root, bisections, cells) in
        [(1, 0, 20), (2, 2, 1280), (2, 4, 20_480), (3, 3, 11_520), (3, 5, 184_320)]
    {
        let mesh = Mesh::icon(root, bisections).unwrap();
        assert_eq!(mesh.cells(), cells, "R{root}B{bisections}");
        assert_eq!((mesh.edges(), mesh.vertices()), (cells / 2 * 3, cells / 2 + 2));
    }
}

#[test]
fn cells_are_counter_clockwise_and_cover_the_sphere_once() {
    for mesh in [icosahedral(1), icosahedral(7), Mesh::icon(3, 2).unwrap(), Mesh::icon(2, 4).unwrap()] {
        let areas: Vec<f64> = (0..mesh.cells()).map(|cell| mesh.cell_area(cell)).collect();
        assert!(areas.iter().all(|&area| area > 0.0));
        let total: f64 = areas.iter().sum();
        assert!((total / (4.0 * PI) - 1.0).abs() < 1e-12, "{total}");
    }
}

#[test]
fn cells_are_of_like_size() {
    let spread = |mesh: &Mesh| {
        let areas = (0..mesh.cells()).map(|cell| mesh.cell_area(cell));
        areas.clone().fold(0.0, f64::max) / areas.fold(f64::MAX, f64::min)
    };
    assert!((spread(&icosahedral(1)) - 1.0).abs() < 1e-12);
    for mesh in [icosahedral(16), Mesh::icon(2, 3).unwrap(), Mesh::icon(3, 3).unwrap()] {
        assert!(spread(&mesh) < 1.6, "{}", spread(&mesh));
    }
}

#[test]
fn two_divisions_are_one_bisection() {
    let (cut, bisected) = (icosahedral(2), Mesh::icon(1, 1).unwrap());
    for vertex in 0..cut.vertices() {
        assert!(sphere::arc(cut.position(vertex), bisected.position(vertex)) < 1e-15);
    }
    let cells = |mesh: &Mesh| (0..mesh.cells()).map(|c| mesh.cell_vertices(c).to_vec()).collect::<Vec<_>>();
    assert_eq!(cells(&cut), cells(&bisected));
}

#[test]
fn children_follow_their_parents() {
    let (parents, children) = (Mesh::icon(2, 1).unwrap(), Mesh::icon(2, 2).unwrap());
    for parent in 0..parents.cells() {
        let family: f64 = (4 * parent..4 * parent + 4).map(|child| children.cell_area(child)).sum();
        assert!((family / parents.cell_area(parent) - 1.0).abs() < 1e-12);
    }
}

#[test]
fn neighbours_are_mutual_and_edges_fit_their_cells() {
    for mesh in [icosahedral(1), icosahedral(5), Mesh::icon(3, 2).unwrap(), mixed()] {
        for cell in 0..mesh.cells() {
            let corners = mesh.cell_vertices(cell);
            assert_eq!(mesh.cell_neighbours(cell).len(), corners.len());
            for (k, other) in mesh.cell_neighbours(cell).enumerate() {
                let edge = mesh.cell_edges(cell)[k];
                let ends = [corners[k], corners[(k + 1) % corners.len()]];
                let (left, right) = mesh.edge_cells(edge);
                if left == cell {
                    assert_eq!((mesh.edge_vertices(edge), right), (ends, other));
                } else {
                    assert_eq!((mesh.edge_vertices(edge), right), ([ends[1], ends[0]], Some(cell)));
                    assert_eq!(other, Some(left));
                }
                assert!(right.is_none_or(|right| left < right));
                if let Some(other) = other {
                    assert!(mesh.cell_neighbours(other).any(|back| back == Some(cell)));
                }
            }
        }
        for vertex in 0..mesh.vertices() {
            let around = mesh.vertex_cells(vertex);
            assert!(around.is_sorted() && !around.is_empty());
            let having = (0..mesh.cells()).filter(|&cell| mesh.cell_vertices(cell).contains(&vertex));
            assert!(around.iter().copied().eq(having));
        }
    }
}

#[test]
fn twelve_vertices_have_five_cells_and_all_others_six() {
    let mesh = Mesh::icon(2, 3).unwrap();
    assert!((0..12).all(|vertex| mesh.vertex_cells(vertex).len() == 5));
    assert!((12..mesh.vertices()).all(|vertex| mesh.vertex_cells(vertex).len() == 6));
}

#[test]
fn triangles_and_squares_mix() {
    let mesh = mixed();
    assert_eq!((mesh.cells(), mesh.edges(), mesh.vertices()), (2, 6, 5));
    assert_eq!((mesh.euler_characteristic(), mesh.boundary_edges()), (1, 5));
    assert_eq!(mesh.cell_edges(1), [3, 4, 5, 1]);
    assert!(mesh.cell_neighbours(1).eq([None, None, None, Some(0)]));
    assert_eq!((mesh.cell_area(0), mesh.cell_area(1)), (0.5, 1.0));
    assert_eq!(mesh.cell_centre(1), [1.5, 0.5, 0.0]);
    assert_eq!(mesh.edge_length(2), 2.0_f64.sqrt());
    assert_eq!(mesh.edge_centre(0), [0.5, 0.0, 0.0]);
}

#[test]
fn the_circumcentre_is_equally_far_from_the_corners() {
    let mesh = icosahedral(4);
    for cell in 0..mesh.cells() {
        let [a, b, c]: [_; 3] = std::array::from_fn(|k| mesh.position(mesh.cell_vertices(cell)[k]));
        let centre = sphere::circumcentre(a, b, c);
        let radius = sphere::arc(centre, a);
        assert!(
            radius < 0.4 && [b, c].iter().all(|&corner| (sphere::arc(centre, corner) - radius).abs() < 1e-14)
        );
        assert!(sphere::arc(centre, mesh.cell_centre(cell)) < radius / 4.0);
    }
}

#[test]
fn small_triangles_keep_their_area() {
    // A right triangle with legs of 1e-6 at the equator is flat up to the square of its size.
    let h = 1e-6_f64;
    let (a, b, c) = ([1.0, 0.0, 0.0], [h.cos(), h.sin(), 0.0], [h.cos(), 0.0, h.sin()]);
    assert!((sphere::triangle_area(a, b, c) / (h * h / 2.0) - 1.0).abs() < 1e-9);
    assert!((sphere::arc(a, b) / h - 1.0).abs() < 1e-9);
}

#[test]
fn what_is_no_surface_is_refused() {
    let corner = |i: usize| [i as f64, (i * i) as f64, 0.0];
    let made = |vertices: usize, cells: &[&[usize]]| {
        Mesh::new(Surface::Flat, (0..vertices).map(corner).collect(), cells).unwrap_err()
    };
    assert_eq!(made(0, &[]), MeshError::NoCells);
    assert_eq!(made(3, &[&[0, 1, 2], &[0, 1]]), MeshError::TooFewVertices { cell: 1, found: 2 });
    assert_eq!(made(3, &[&[0, 1, 3]]), MeshError::NoSuchVertex { cell: 0, vertex: 3, vertices: 3 });
    assert_eq!(made(3, &[&[0, 1, 2, 1]]), MeshError::RepeatedVertex { cell: 0, vertex: 1 });
    assert_eq!(made(4, &[&[0, 1, 2]]), MeshError::UnusedVertex { vertex: 3 });
    assert_eq!(
        made(4, &[&[0, 1, 2], &[0, 1, 3]]),
        MeshError::Orientation { vertices: [0, 1], cells: [0, 1] }
    );
    assert_eq!(
        made(5, &[&[0, 1, 2], &[1, 0, 3], &[0, 1, 4]]),
        MeshError::NonManifold { vertices: [0, 1], cells: [0, 1, 2] }
    );

    assert_eq!(
        made(5, &[&[0, 1, 2], &[0, 1, 3], &[0, 1, 4]]),
        MeshError::NonManifold { vertices: [0, 1], cells: [0, 1, 2] }
    );

    let on = |positions: [[f64; 3]; 3]| Mesh::new(Surface::UnitSphere, positions.to_vec(), [[0, 1, 2]]);
    assert!(on([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).is_ok());
    let far = on([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]]).unwrap_err();
    assert_eq!(far, MeshError::NotOnSphere { vertex: 1, radius: 2.0 });
    let lost = on([[1.0, 0.0, 0.0], [0.0, f64::NAN, 0.0], [0.0, 0.0, 1.0]]).unwrap_err();
    assert!(matches!(lost, MeshError::NotFinite { vertex: 1, .. }));
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let refused = |made: Result<Mesh, MeshError>| made.unwrap_err().to_string();
    assert!(
        refused(Mesh::icosahedral(0)).contains("0 divisions would have 0 cells; expected 1 to 134217728")
    );
    assert!(refused(Mesh::icosahedral(usize::MAX)).contains("expected 1 to"));
    assert!(refused(Mesh::icon(0, 3)).contains("R0B03 would have 0 cells"));
    assert!(refused(Mesh::icon(2, 11)).contains("R2B11 would have 335544320 cells"));
    assert!(refused(Mesh::icon(2, 4_000_000_000)).contains("expected 1 to"));
}
