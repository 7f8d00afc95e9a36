//! `haloport run poisson`.

use crate::common::Haloport;

#[test]
fn the_error_falls_by_order_2_and_solutions_are_those_of_any_ranks() {
    let job = Haloport::new("run poisson");
    let report = job.json("--mesh icosahedral:12 --degree 3 --ranks 3 --verify");
    let ladder = report["ladder"].as_array().unwrap();
    let meshes: Vec<_> = ladder.iter().map(|rung| rung["mesh"].as_str().unwrap()).collect();
    assert_eq!(meshes, ["icosahedral:3", "icosahedral:6", "icosahedral:12"]);
    let finest = &ladder[2];
    assert_eq!((&finest["triangles"], &finest["vertices"]), (&2880.into(), &1442.into()));
    assert!(finest["halo_vertices"].as_u64() > Some(50), "{report}");
    // The shape of the triangles and the degree decide on the factor before the square of their size.
    let (l2, order) = (finest["l2"].as_f64().unwrap(), finest["order"].as_f64().unwrap());
    assert!((1e-3..3e-2).contains(&l2) && (1.8..2.3).contains(&order), "{report}");
    let checks: Vec<_> = report["checks"].as_array().unwrap().iter().map(|check| &check["ok"]).collect();
    assert_eq!(checks, [true, true], "{report}");

    // More ranks than triangles, and one mesh alone.
    let report = job.json("--mesh icosahedral:1 --ranks 24");
    assert_eq!(report["ladder"].as_array().map(Vec::len), Some(1), "{report}");
    assert!(report["ladder"][0]["order"].is_null() && report["checks"].is_null(), "{report}");
    let out = job.out("--mesh icosahedral:4 --ranks 2");
    assert!(out.contains("harmonic of degree 4") && out.lines().count() == 8, "{out}");
}

#[test]
fn wrong_meshes_and_degrees_are_refused() {
    let job = Haloport::new("run poisson");
    for (arguments, reason) in [
        ("--degree 0", "from 1 to 1000; found `0`"),
        ("--degree 4000000000", "from 1 to 1000; found `4000000000`"),
        ("--mesh icon:R2", "there is no mesh `icon:R2`"),
        ("--mesh icon:R2B30", "--mesh: expected a mesh that fits into the"),
        ("--mesh icosahedral:4 --verify", "for degree 4 icosahedral:16 or a finer one, found icosahedral:4"),
    ] {
        let refused = job.refusal(arguments);
        assert!(refused.contains(reason), "{arguments}: {refused}");
    }
}
