//! `haloport run advection` for users: results, files, exit codes and messages.

use haloport_conformance::drawn;

use crate::common::{Haloport, is_png};
use haloport_demos::advection::model::tracer::{Shape, Tracer};
use haloport_demos::advection::model::wind::Wind;
use haloport_demos::advection::picture::{Snapshot, globes};
use haloport_mesh::{Mesh, Partition};

#[test]
fn every_check_holds_and_the_results_are_complete() {
    let advection = Haloport::new("run advection");
    let report = advection.json("--mesh icon:R2B2 --days 3 --ranks 2 --levels 2 --verify");
    let checks = report["checks"].as_array().unwrap();
    let names: Vec<&str> = checks.iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mass", "order", "ranks"]);
    for check in checks {
        assert_eq!(check["ok"], true, "{check}");
        assert!(check["value"].is_number() && check["bound"].is_number(), "{check}");
    }
    assert_eq!(report["cells"], 20 * 8 * 8);
    assert_eq!(report["ranks"], 2);
    assert_eq!(report["levels"], 2);
    assert_eq!(report["cells_of_ranks"], serde_json::json!([640, 640]));
    assert_eq!(report["simulated_days"], 3.0);
    // Every halo cell has two values of 8 bytes.
    assert_eq!(report["bytes_per_exchange"], report["halo_cells"].as_u64().unwrap() * 16);
    assert_eq!(report["path"], "direct copies from neighbours' fields");
    assert_eq!(report["exchanges"].as_u64().unwrap(), 2 * report["steps"].as_u64().unwrap());
    for figure in ["cells_per_second", "exchange_share", "mass", "largest", "wall_s"] {
        assert!(report[figure].as_f64().is_some_and(|figure| figure > 0.0), "{figure} in {report}");
    }
    let ladder = report["ladder"].as_array().unwrap();
    let meshes: Vec<&str> = ladder.iter().map(|rung| rung["mesh"].as_str().unwrap()).collect();
    assert_eq!(meshes, ["icon:R2B1", "icon:R2B2", "icon:R2B3"]);
    assert!(ladder[0]["order"].is_null() && ladder[2]["order"]["l2"].as_f64().unwrap() > 1.8);
    assert!(is_png(&advection.path("out/advection/globe.png")));
    assert_eq!(std::fs::read_dir(advection.path("out/advection")).unwrap().count(), 1);
}

#[test]
fn the_summary_tells_errors_order_mass_and_the_picture() {
    let advection = Haloport::new("run advection");
    for &(days, after) in drawn(&[(0.01, 1.0), (1.5, 1.5), (13.0, 12.0)]) {
        let report = advection.json(&format!("--mesh icosahedral:4 --days {days} --ranks 2"));
        assert_eq!(report["ladder_days"], after);
        let order = &report["ladder"][2]["order"]["l2"];
        assert!(order.as_f64().is_some_and(|order| order > 1.8), "{days}: {order}");
    }
    let out = advection.out("--mesh icosahedral:8 --days 3 --ranks 3 --no-overlap --out here");
    for part in [
        "Advection on icosahedral:8: 3 days, 0.25 times round",
        "1280 cells, 1 level",
        "curve: 426 to 427 cells each",
        "million cells per second",
        "with nothing computed meanwhile; ",
        "% of the time",
        "relative change",
        "  hash          ",
        "after 3 days ",
        "order",
        "icosahedral:4 ",
        "here/globe.png",
    ] {
        assert!(out.contains(part), "`{part}` in {out}");
    }
}

#[test]
fn the_title_of_the_picture_says_how_far_the_tracer_went() {
    let mesh = Mesh::icosahedral(2).unwrap();
    let partition = Partition::by_curve(&mesh, 1).unwrap();
    let tracer = Tracer { shape: Shape::Gaussian, levels: 1, wind: Wind::tilted(0.5) };
    // Up to the number of days, which begins with the same digit.
    let title = |days: f64| {
        let end = Snapshot { days, values: tracer.means(&mesh, days) };
        let picture = globes(&mesh, &partition, &tracer, &[end], "").unwrap();
        let pixels = (20..60).flat_map(|y| (40..500).map(move |x| (x, y)));
        pixels.map(|(x, y)| picture.pixel(x, y)).collect::<Vec<_>>()
    };
    let once = title(12.0);
    assert_eq!(once, title(12.0));
    assert_ne!(once, title(15.0), "450° are no whole rounds");
}

#[test]
fn ranks_and_partitions_change_no_figure() {
    let advection = Haloport::new("run advection");
    let striped: String = (0..320).map(|cell| format!("{}\n", cell % 3)).collect();
    std::fs::write(advection.path("striped"), striped).unwrap();
    let figures = |arguments: &str| {
        let report = advection.json(&format!("--mesh icon:R2B1 --days 0.5 --tracer bell {arguments}"));
        ["mass", "norms", "smallest", "largest", "ladder", "hash"].map(|name| report[name].to_string())
    };
    let one = figures("--ranks 1");
    let others = ["--ranks 5", "--ranks 5 --no-overlap", "--ranks 3 --partition striped"].map(String::from);
    let all: Vec<String> = (2..=8).map(|ranks| format!("--ranks {ranks}")).chain(others).collect();
    for more in drawn(&all) {
        assert_eq!(one, figures(more), "{more}");
    }
    assert_ne!(one, figures("--ranks 1 --limited"));
}

#[test]
fn with_the_limiter_no_value_is_negative() {
    let advection = Haloport::new("run advection");
    let report = advection.json("--mesh icosahedral:8 --days 3 --tracer bell --limited --ranks 2 --verify");
    let checks = report["checks"].as_array().unwrap();
    let names: Vec<&str> = checks.iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mass", "positive", "ranks"]);
    assert!(checks.iter().all(|check| check["ok"] == true), "{report}");
}

#[test]
fn a_check_that_fails_ends_the_command_with_1() {
    let advection = Haloport::new("run advection");
    // The cosine bell has a kink, which shows on coarse meshes.
    for more in drawn(&["", "--json"]) {
        let output =
            advection.run(&format!("--mesh icosahedral:2 --days 5 --tracer bell --ranks 1 --verify {more}"));
        assert_eq!(output.status.code(), Some(1));
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if more.is_empty() {
            assert!(out.contains("FAILED"), "{out}");
            assert_eq!(err.trim_end(), "error: 1 of 3 checks failed: order");
        } else {
            // The report stays the one object.
            let report: serde_json::Value = serde_json::from_str(&out).unwrap();
            assert!(report["checks"].is_array() && report["error"].is_null(), "{report}");
        }
    }
}

#[test]
fn bad_arguments_give_one_line_and_the_exit_code_2() {
    let advection = Haloport::new("run advection");
    let write = |name: &str, text: &str| std::fs::write(advection.path(name), text).unwrap();
    write("short", "0\n1\n");
    write("words", &"0\nmany\n".repeat(10));
    write("wide", &"0\n7\n".repeat(40));
    write("idle", &"0\n0\n".repeat(40));
    for (arguments, parts) in [
        ("--mesh cube:3", &["--mesh", "no mesh `cube:3`", "icon:R2B4", "icosahedral:32"][..]),
        ("--mesh icon:R0B3", &["--mesh", "0 cells"]),
        ("--mesh icosahedral:0", &["--mesh", "0 cells"]),
        ("--mesh icon:R2B30", &["--mesh", "GiB", "icon:R2B30"]),
        ("--mesh icon:R2B99", &["--mesh", "GiB"]),
        ("--mesh icosahedral:1 --ranks 21", &["--ranks", "21 parts of 20 cells", "at most 20 parts"]),
        ("--ranks 0", &["--ranks", "found `0`"]),
        ("--days 0", &["--days", "above 0", "`0`"]),
        ("--days -1", &["--days", "above 0", "`-1`"]),
        ("--days NaN", &["--days", "`NaN`"]),
        ("--days 1e9", &["--days", "at most 10000"]),
        ("--alpha up", &["--alpha", "degrees", "`up`"]),
        ("--alpha inf", &["--alpha", "`inf`"]),
        ("--levels 0", &["--levels", "from 1", "`0`"]),
        ("--levels 1.5", &["--levels", "`1.5`"]),
        ("--tracer cone", &["--tracer", "gaussian or bell", "`cone`"]),
        ("--partition nowhere --ranks 2", &["--partition", "nowhere", "No such file"]),
        ("--mesh icosahedral:2 --ranks 2 --partition short", &["--partition", "of 2 cells", "has 80"]),
        ("--mesh icosahedral:2 --ranks 2 --partition words", &["--partition", "line 2", "`many`"]),
        ("--mesh icosahedral:2 --ranks 2 --partition wide", &["--partition", "part 7", "2 parts"]),
        ("--mesh icosahedral:2 --ranks 2 --partition idle", &["--partition", "part 1 of 2 has no cells"]),
        ("--device metal:0", &["no device `metal:0`"]),
        ("--depth 3", &["--depth"]),
    ] {
        let line = advection.refusal(&format!("{arguments} --json"));
        for part in parts {
            assert!(line.contains(part), "{arguments}: `{part}` in `{line}`");
        }
    }
    let line = advection.refusal("--mesh icosahedral:2 --out short/below");
    assert!(line.contains("--out: expected a folder that can be written to, found short/below"), "{line}");
}
