//! Files of Gmsh, good and bad.

use std::path::Path;

use haloport_mesh::{GmshMesh, GmshProblem, Mesh, Surface};

fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn read(name: &str) -> GmshMesh {
    GmshMesh::read(&path(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn area(mesh: &Mesh) -> f64 {
    (0..mesh.cells()).map(|cell| mesh.cell_area(cell)).sum()
}

/// The vector area of a cell.
fn normal(mesh: &Mesh, cell: usize) -> [f64; 3] {
    use haloport_mesh::sphere::{cross, difference};
    let [a, b, c] = [0, 1, 2].map(|k| mesh.position(mesh.cell_vertices(cell)[k]));
    cross(difference(b, a), difference(c, a))
}

/// A file with these nodes (tag, x, y) and elements (tag, nodes) of the type with this dimension and number.
fn file(nodes: &[(u64, f64, f64)], (dimension, kind): (i32, i32), elements: &[(u64, &[u64])]) -> String {
    let mut text =
        format!("$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$Nodes\n1 {} 1 {}\n", nodes.len(), nodes.len());
    text += &format!("2 1 0 {}\n", nodes.len());
    nodes.iter().for_each(|(tag, ..)| text += &format!("{tag}\n"));
    nodes.iter().for_each(|(_, x, y)| text += &format!("{x} {y} 0\n"));
    text += &format!("$EndNodes\n$Elements\n1 {} 1 {}\n", elements.len(), elements.len());
    text += &format!("{dimension} 1 {kind} {}\n", elements.len());
    for (tag, nodes) in elements {
        let nodes: Vec<String> = nodes.iter().map(u64::to_string).collect();
        text += &format!("{tag} {}\n", nodes.join(" "));
    }
    text + "$EndElements\n"
}

const TRIANGLES: (i32, i32) = (2, 2);
const SQUARE: [(u64, f64, f64); 4] = [(1, 0.0, 0.0), (2, 1.0, 0.0), (3, 1.0, 1.0), (4, 0.0, 1.0)];

fn problem(text: &str) -> String {
    let told = GmshMesh::parse(text.as_bytes()).expect_err("a refusal").to_string();
    assert_eq!(told.lines().count(), 1, "{told}");
    told
}

#[test]
fn a_plate_of_triangles_and_quadrangles() {
    let GmshMesh { mesh, node_tags, element_tags } = read("plate.msh");
    assert_eq!(mesh.surface(), Surface::Flat);
    let corners: Vec<usize> = (0..mesh.cells()).map(|cell| mesh.cell_vertices(cell).len()).collect();
    assert_eq!(corners.iter().filter(|&&count| count == 4).count(), 36);
    assert!(corners.iter().all(|&count| count == 3 || count == 4));
    // A disc with one hole, and as many vertices as the file has nodes.
    assert_eq!((mesh.euler_characteristic(), mesh.vertices()), (0, 123));
    // The hole is a polygon; its area is a little smaller than that of the circle.
    let hole = 3.0 - area(&mesh);
    assert!(hole < std::f64::consts::PI / 16.0 && hole > 0.15, "{hole}");
    assert!((0..mesh.cells()).all(|cell| normal(&mesh, cell)[2] > 0.0));
    assert_eq!(node_tags, (1..=123).collect::<Vec<_>>());
    assert!(element_tags.is_sorted() && element_tags.len() == mesh.cells());
}

#[test]
fn a_cube_is_turned_outward() {
    let GmshMesh { mesh, .. } = read("cube.msh");
    assert_eq!((mesh.euler_characteristic(), mesh.boundary_edges()), (2, 0));
    assert!((area(&mesh) - 6.0).abs() < 1e-12);
    for cell in 0..mesh.cells() {
        let outward = haloport_mesh::sphere::difference(mesh.cell_centre(cell), [0.5; 3]);
        assert!(haloport_mesh::sphere::dot(normal(&mesh, cell), outward) > 0.0);
    }
}

#[test]
fn a_closed_surface_is_turned_outward_wherever_it_is() {
    let faces: [&[u64]; 4] = [&[1, 2, 3], &[1, 3, 4], &[1, 4, 2], &[2, 4, 3]];
    for inside_out in [false, true] {
        for (x, z) in [(1.0, 1.0), (-1.0, 1.0), (1.0, -1.0)] {
            let turned = faces.map(|face| {
                let mut face = face.to_vec();
                if inside_out {
                    face.reverse();
                }
                face
            });
            let elements: Vec<(u64, &[u64])> = (1..).zip(turned.iter().map(|face| &face[..])).collect();
            let text =
                file(&[(1, 0.0, 0.0), (2, x, 0.0), (3, 0.0, 1.0), (4, 0.0, 0.0)], TRIANGLES, &elements);
            // The last node is not in the plane.
            let text = text.replace("0 0 0\n$EndNodes", &format!("0 0 {z}\n$EndNodes"));
            let mesh = GmshMesh::parse(text.as_bytes()).unwrap().mesh;
            let centre = [x / 4.0, 0.25, z / 4.0];
            for cell in 0..4 {
                let outward = haloport_mesh::sphere::difference(mesh.cell_centre(cell), centre);
                assert!(haloport_mesh::sphere::dot(normal(&mesh, cell), outward) > 0.0);
            }
        }
    }
}

#[test]
fn a_sphere_has_no_boundary() {
    let mesh = read("sphere.msh").mesh;
    assert_eq!((mesh.euler_characteristic(), mesh.boundary_edges()), (2, 0));
    let missing = 4.0 * std::f64::consts::PI - area(&mesh);
    assert!(missing > 0.0 && missing < 1.5, "{missing}");
}

#[test]
fn tags_may_have_gaps_and_any_order_and_nodes_may_be_unused() {
    let nodes = [(40, 0.0, 1.0), (7, 9.0, 9.0), (3, 1.0, 1.0), (2, 1.0, 0.0), (1, 0.0, 0.0)];
    // The second triangle is clockwise, so it is reversed.
    let text = file(&nodes, TRIANGLES, &[(9, &[1, 2, 3]), (5, &[1, 40, 3])]);
    let GmshMesh { mesh, node_tags, element_tags } = GmshMesh::parse(text.as_bytes()).unwrap();
    assert_eq!((node_tags, element_tags), (vec![40, 3, 2, 1], vec![9, 5]));
    assert_eq!(mesh.positions(), [[0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]);
    assert_eq!((mesh.cell_vertices(0), mesh.cell_vertices(1)), (&[3, 2, 1][..], &[1, 0, 3][..]));

    // Tags without gaps, not in ascending order.
    let nodes = [(2, 0.0, 0.0), (3, 1.0, 0.0), (1, 0.0, 1.0)];
    let text = file(&nodes, TRIANGLES, &[(1, &[1, 2, 3])]).replace('\n', "\r\n");
    let GmshMesh { mesh, node_tags, .. } = GmshMesh::parse(text.as_bytes()).unwrap();
    assert_eq!((node_tags, mesh.cell_vertices(0)), (vec![2, 3, 1], &[2, 0, 1][..]));
}

#[test]
fn a_file_that_is_cut_off_says_so() {
    let text = std::fs::read_to_string(path("cube.msh")).unwrap();
    let at = |mark: &str, after: usize| problem(&text[..text.find(mark).unwrap() + after]);
    assert_eq!(at("$EndNodes", 0), "the file is cut off: it ends within the section $Nodes");
    assert_eq!(at("$Nodes", 1000), "the file is cut off: it ends within the section $Nodes");
    assert_eq!(at("$Elements", 1000), "the file is cut off: it ends within the section $Elements");
    assert_eq!(at("$Entities", 100), "the file is cut off: it ends within the section $Entities");
    assert_eq!(at("4.1", 0), "the file is cut off: it ends within the section $MeshFormat");
    assert!(at("$Elements", 0).contains("no triangles"));
    assert!(problem("").contains("not a mesh of Gmsh"));
    // Lines are missing inside.
    let within = text.replace("$EndNodes\n", "");
    assert_eq!(problem(&within), "the file is cut off: it ends within the section $Nodes");
    let nodes = text.find("$Nodes").unwrap();
    let lines: String = text[nodes..].lines().take(20).map(|line| format!("{line}\n")).collect();
    let lost = format!("{}{lines}{}", &text[..nodes], &text[text.find("$EndNodes").unwrap()..]);
    assert!(problem(&lost).starts_with("line "), "{}", problem(&lost));
}

#[test]
fn what_is_no_surface_gets_one_clear_line() {
    let triangles = |elements: &[(u64, &[u64])]| file(&SQUARE, TRIANGLES, elements);
    assert_eq!(
        problem(&triangles(&[(8, &[1, 2, 9])])),
        "element 8 has a node 9, which is missing from the section $Nodes"
    );
    assert_eq!(problem(&triangles(&[(8, &[1, 2, 2])])), "element 8 has node 2 twice");
    let fans: &[(u64, &[u64])] = &[(5, &[1, 2, 3]), (6, &[1, 2, 4]), (7, &[1, 2, 5])];
    let five = [&SQUARE[..], &[(5, 3.0, 3.0)]].concat();
    assert!(problem(&file(&five, TRIANGLES, fans)).contains("has three elements, 5, 6 and 7"));
    assert_eq!(
        problem(&triangles(&[(5, &[1, 2, 3]), (6, &[2, 1, 3])])),
        "elements 5 and 6 have the same nodes"
    );
    assert!(problem(&triangles(&[])).contains("no triangles or quadrangles"));
    assert!(problem(&file(&[], TRIANGLES, &[])).contains("no triangles"));
    let twice = [&SQUARE[..], &[(2, 3.0, 3.0)]].concat();
    assert_eq!(problem(&file(&twice, TRIANGLES, &[(5, &[1, 2, 3])])), "two nodes have the tag 2");

    let other_block = triangles(&[(5, &[1, 2, 3])])
        .replace("$Nodes\n1 4", "$Nodes\n2 5")
        .replace("$EndNodes", "0 1 0 1\n2\n5 5 0\n$EndNodes");
    assert_eq!(problem(&other_block), "two nodes have the tag 2");

    let told = problem(&file(&SQUARE, (3, 4), &[(1, &[1, 2, 3, 4])]));
    assert!(told.starts_with("elements of 3 dimensions and type Tet4 (number 4 in Gmsh)"), "{told}");
    assert!(problem(&file(&SQUARE, (2, 9), &[(1, &[1, 2, 3, 4, 1, 2])])).contains("type Tri6"));
    let told = problem(&file(&SQUARE, (2, 999), &[(1, &[1, 2, 3])]));
    assert!(
        told.starts_with("line 18: ") && told.contains("999") && told.contains("unknown element"),
        "{told}"
    );
    assert!(problem(&file(&SQUARE, (1, 1), &[(1, &[1, 2])])).contains("no triangles"));
}

#[test]
fn a_strip_with_one_side_is_refused() {
    // A Möbius strip: a ring of five squares; the last one is joined with a twist.
    let nodes: Vec<(u64, f64, f64)> = (1..=10).map(|tag| (tag, tag as f64, (tag * tag) as f64)).collect();
    let quads: [&[u64]; 5] = [&[1, 3, 4, 2], &[3, 5, 6, 4], &[5, 7, 8, 6], &[7, 9, 10, 8], &[9, 2, 1, 10]];
    let elements: Vec<(u64, &[u64])> = (1..).zip(quads).collect();
    assert!(problem(&file(&nodes, (2, 3), &elements)).contains("the surface has one side only"));
}

#[test]
fn other_formats_are_told_how_to_become_this_one() {
    let text = file(&SQUARE, TRIANGLES, &[(1, &[1, 2, 3])]);
    assert!(GmshMesh::parse(text.as_bytes()).is_ok());
    assert!(
        problem(&text.replace("4.1 0 8", "2.2 0 8")).contains("version 4.1 of the MSH format, found 2.2")
    );
    assert!(problem(&text.replace("4.1 0 8", "4.1 1 8")).contains("found a binary one"));
    assert!(
        problem(&text.replace("4.1 0 8", "99999999999999999999 0 8")).contains("found 99999999999999999999")
    );
    assert!(problem(&text.replace("4.1 0 8", "ascii")).contains("not a mesh of Gmsh"));
    assert!(problem("solid cube\n").contains("not a mesh of Gmsh"));
    assert!(
        problem(&text.replace("$Nodes", "$Other").replace("$EndNodes", "$EndOther"))
            .contains("no section $Nodes")
    );
    let missing = GmshMesh::read(&path("none.msh")).unwrap_err();
    assert!(matches!(missing.problem, GmshProblem::File(_)) && missing.to_string().contains("none.msh: "));
}
