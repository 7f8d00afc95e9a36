//! `haloport mesh` for users: counts, parts, files, exit codes and messages.

use std::fs;

use crate::common::{Haloport, refusal};
use serde_json::json;

/// A mesh of quadrangles and triangles that the mesh library's tests ship.
const PLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mesh/tests/data/plate.msh");

#[test]
fn a_grid_of_icon_is_counted_and_measured() {
    let mesh = Haloport::new("mesh");
    let grid = mesh.json("info icon:r2b04");
    assert_eq!(grid["mesh"], "icon:R2B4");
    let counts = ["cells", "edges", "vertices", "euler_characteristic", "boundary_edges"];
    assert_eq!(counts.map(|name| grid[name].as_u64().unwrap()), [20_480, 30_720, 10_242, 2, 0]);
    assert_eq!(grid["cells_by_vertices"], json!({"3": 20_480}));
    assert!((grid["area"].as_f64().unwrap() - 4.0 * std::f64::consts::PI).abs() < 1e-11);
    let (low, high) =
        (grid["cell_area"]["min"].as_f64().unwrap(), grid["cell_area"]["max"].as_f64().unwrap());
    assert!(0.0 < low && low < high && high < 2.0 * low);
}

#[test]
fn a_file_is_counted_and_measured() {
    let mesh = Haloport::new("mesh");
    fs::copy(PLATE, mesh.path("plate.msh")).unwrap();
    let plate = mesh.json("info plate.msh");
    assert_eq!((&plate["vertices"], &plate["euler_characteristic"]), (&json!(123), &json!(0)));
    assert_eq!(plate["surface"], "flat cells");
    let text = mesh.out("info plate.msh");
    for part in ["triangles, 36 quadrangles", "boundary edges", "Euler characteristic             0"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn parts_are_reported_and_written_and_read_back() {
    let mesh = Haloport::new("mesh");
    let arguments = "partition icosahedral:8 --parts 6 --halo 2 --out parts";
    let by_curve = mesh.json(arguments);
    let parts = by_curve["parts"].as_array().unwrap();
    assert_eq!((parts.len(), &by_curve["cells"], &by_curve["halo"]), (6, &json!(1280), &json!(2)));
    assert_eq!((&by_curve["min_owned"], &by_curve["max_owned"]), (&json!(213), &json!(214)));
    let owned: u64 = parts.iter().map(|part| part["owned"].as_u64().unwrap()).sum();
    assert_eq!(owned, 1280);
    for part in parts {
        assert!(part["halo"].as_u64().unwrap() > 0);
        // To be a neighbour is mutual.
        for other in part["neighbours"].as_array().unwrap() {
            let back = &parts[other.as_u64().unwrap() as usize]["neighbours"];
            assert!(back.as_array().unwrap().contains(&part["part"]));
        }
    }
    let lines = fs::read_to_string(mesh.path("parts")).unwrap();
    assert_eq!(lines.lines().count(), 1280);

    let from_file = mesh.json("partition icosahedral:8 --halo 2 --partition parts");
    assert_eq!((&from_file["parts"], &from_file["edge_cut"]), (&by_curve["parts"], &by_curve["edge_cut"]));

    let text = mesh.out(arguments);
    assert!(text.contains("6 parts by curve") && text.contains("owned cells 213 to 214"), "{text}");
    assert_eq!(text.lines().count(), 3 + 1 + 1 + 6, "{text}");
}

#[test]
fn more_levels_and_common_vertices_give_wider_halos() {
    let mesh = Haloport::new("mesh");
    let halo = |more: &str| {
        mesh.json(&format!("partition icon:R2B2 --parts 5 {more}"))["max_halo"].as_u64().unwrap()
    };
    let edges = halo("");
    assert!(halo("--halo 0") == 0 && halo("--halo 2") > edges);
    assert!(halo("--neighbours vertices") > edges);
}

#[test]
fn parts_may_be_empty_where_that_is_allowed() {
    let mesh = Haloport::new("mesh");
    let lines: String = (0..20).map(|cell| format!("{}\n", 2 * (cell % 2))).collect();
    fs::write(mesh.path("parts"), lines).unwrap();
    let arguments = "partition icosahedral:1 --partition parts";
    let line = mesh.refusal(arguments);
    assert!(line.contains("part 1 of 3 has no cells; choose fewer parts, or allow empty ones"), "{line}");
    let allowed = mesh.json(&format!("{arguments} --allow-empty --parts 4"));
    assert_eq!(allowed["parts"][1], json!({"part": 1, "owned": 0, "halo": 0, "neighbours": []}));
    assert_eq!(allowed["parts"].as_array().unwrap().len(), 4);
}

#[test]
fn metis_is_used_where_it_is_built_in() {
    let mesh = Haloport::new("mesh");
    let arguments = "partition icon:R2B3 --parts 4 --partition metis";
    if cfg!(feature = "metis") {
        let by_metis = mesh.json(arguments);
        assert_eq!(
            (&by_metis["partition"], by_metis["parts"].as_array().unwrap().len()),
            (&json!("metis"), 4)
        );
        assert!(by_metis["edge_cut"].as_u64().unwrap() < 300);
    } else {
        let line = mesh.refusal(arguments);
        assert!(line.contains("without METIS") && line.contains("--features metis"), "{line}");
        let line = Haloport::new("run advection").refusal("--partition metis --ranks 2");
        assert!(line.contains("this build has no METIS; build with `--features metis`"), "{line}");
    }
}

#[test]
fn bad_meshes_get_one_line() {
    let mesh = Haloport::new("mesh");
    let plate = fs::read_to_string(PLATE).unwrap();
    fs::write(mesh.path("cut.msh"), &plate[..plate.len() / 2]).unwrap();
    let with_lost_node = plate.replace("$EndNodes", "").replacen("\n1\n", "\n1001\n", 1);
    fs::write(mesh.path("lost.msh"), with_lost_node.replace("$Elements", "$EndNodes\n$Elements")).unwrap();
    for (name, parts) in [
        ("cut.msh", &["cut.msh: the file is cut off"][..]),
        ("lost.msh", &["lost.msh: element", "has a node 1, which is missing"]),
        (
            "none.msh",
            &["none.msh: there is no such file; expected a file of Gmsh, icon:RnBk or icosahedral:n"],
        ),
        ("icn:R2B4", &["icn:R2B4: there is no such file; expected a file of Gmsh, icon:RnBk"]),
        (".", &[".: "]),
        ("icosahedral:0", &["0 divisions would have 0 cells"]),
        ("icosahedral:many", &["no mesh `icosahedral:many`", "icosahedral:32"]),
        ("icon:R2", &["no mesh `icon:R2`", "icon:R2B4"]),
        ("icon:R2B40", &["icon:R2B40: expected a mesh that fits into the ", "GiB"]),
    ] {
        for arguments in [format!("info {name}"), format!("partition {name} --parts 2")] {
            let line = mesh.refusal(&arguments);
            parts.iter().for_each(|part| assert!(line.contains(part), "{arguments}: `{part}` in `{line}`"));
        }
    }
}

#[test]
fn bad_parts_get_one_line() {
    let mesh = Haloport::new("mesh");
    fs::write(mesh.path("short"), "0\n1\n").unwrap();
    fs::write(mesh.path("words"), "0\none\n").unwrap();
    fs::write(mesh.path("high"), "3\n".repeat(20)).unwrap();
    for (arguments, parts) in [
        ("--parts 0", &["--parts", "expected a whole number from 1; found `0`"][..]),
        ("--parts 21", &["--parts: 21 parts of 20 cells would leave parts empty"]),
        ("--parts x", &["--parts", "`x`"]),
        ("--parts -1", &["-1"]),
        ("", &["--partition curve needs a number of --parts"]),
        ("--parts 2 --partition magic", &["--partition: expected curve, metis or a file", "no file `magic`"]),
        ("--partition short", &["short", "of 2 cells, but the mesh has 20"]),
        ("--partition words", &["words, line 2: expected the number of a part, found `one`"]),
        ("--partition high --parts 2", &["cell 0 is in part 3, but there are 2 parts"]),
        ("--partition high", &["part 0 of 4 has no cells"]),
        ("--parts 2 --neighbours near", &["--neighbours", "near", "edges, vertices"]),
        ("--parts 2 --halo -1", &["-1"]),
    ] {
        let line = mesh.refusal(&format!("partition icosahedral:1 {arguments}"));
        parts.iter().for_each(|part| assert!(line.contains(part), "{arguments}: `{part}` in `{line}`"));
    }
    let output = mesh.run("partition icosahedral:1 --parts 2 --out no/parts");
    assert!(refusal(&output, 1).starts_with("--out: cannot write no/parts: "));
}
