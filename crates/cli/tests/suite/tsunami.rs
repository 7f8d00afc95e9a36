//! `haloport run tsunami` for users: results, files, exit codes and messages.

use std::fs::File;
use std::path::Path;

use crate::common::{Haloport, is_png};
use haloport_conformance::drawn;
use haloport_demos::drawing::Canvas;
use haloport_demos::tsunami::model::SHIPPED;
use haloport_demos::tsunami::model::relief::Relief;
use haloport_demos::tsunami::picture::{largest_wave, surface};
use ndarray::{Array1, Array2};
use ndarray_npy::NpzWriter;

#[test]
fn every_check_holds_and_the_results_are_complete() {
    let tsunami = Haloport::new("run tsunami");
    let report = tsunami.json("--refine 1 --hours 0.17 --ranks 2 --verify");
    let checks = report["checks"].as_array().unwrap();
    let names: Vec<&str> = checks.iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["volume", "depth", "rest", "ranks"]);
    for check in checks {
        assert_eq!(check["ok"], true, "{check}");
        assert!(check["value"].is_number() && check["bound"].is_number(), "{check}");
    }
    assert_eq!(report["grid"], serde_json::json!([120, 91]));
    assert_eq!(report["cells"], 120 * 91);
    assert_eq!(report["ranks"], 2);
    assert_eq!(report["blocks"], serde_json::json!([2, 1]));
    assert_eq!(report["simulated_s"], 612.0);
    assert_eq!(report["gauges"].as_array().unwrap().len(), 9);
    let shipped = serde_json::json!({
        "longitude": 234.6, "latitude": 48.37, "height": 2.5, "length": 26_000.0, "width": 12_000.0, "strike": 320.0
    });
    assert_eq!(report["uplift"], shipped);
    // Two columns of 91 cells to either side, three fields of 8 bytes.
    assert_eq!(report["bytes_per_exchange"], 2 * 2 * 91 * 3 * 8);
    assert_eq!(report["path"], "direct copies from neighbours' fields");
    assert_eq!(report["exchanges"].as_u64().unwrap(), 2 * report["steps"].as_u64().unwrap());
    for figure in ["cells_per_second", "exchange_share", "max_wave_m", "max_speed_m_s", "wall_s"] {
        assert!(report[figure].as_f64().is_some_and(|figure| figure > 0.0), "{figure} in {report}");
    }
    let hash = report["hash"].as_str().unwrap();
    assert!(hash.len() == 16 && u64::from_str_radix(hash, 16).is_ok(), "{hash}");

    let out = tsunami.path("out/tsunami");
    for picture in ["surface-000.png", "surface-010.png", "surface-end.png", "largest.png"] {
        assert!(is_png(&out.join(picture)), "{picture}");
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 5, "nothing but the pictures and the record");
}

#[test]
fn water_at_rest_has_the_colour_of_0_and_colours_reach_as_far_as_the_wave() {
    let axis = |first: f64| (0..4).map(|cell| first + f64::from(cell)).collect::<Vec<_>>();
    let bed: Vec<f64> = (0..16).map(|cell| -10.0 - 300.0 * f64::from(cell)).collect();
    let relief = Relief::new(axis(10.0), axis(40.0), bed.clone()).unwrap();
    let inside = [[300, 300], [600, 500], [850, 800]];
    let colours = |canvas: Canvas| inside.map(|[x, y]| canvas.pixel(x, y).unwrap());

    // The middle of the colour scale, and its start.
    let depth: Vec<f64> = bed.iter().map(|bed| -bed).collect();
    assert_eq!(colours(surface(&relief, &[], &depth, 0.0).unwrap()), [[0xf7, 0xf7, 0xf5]; 3]);
    assert_eq!(colours(largest_wave(&relief, &[], &[0.0; 16], 0.0).unwrap()), [[0xf4, 0xf6, 0xf4]; 3]);

    let wave = |height: f64| {
        let level = |cell: usize| height * [1.0, -0.5, 0.25][cell % 3];
        let depth: Vec<f64> = depth.iter().enumerate().map(|(cell, depth)| depth + level(cell)).collect();
        let largest: Vec<f64> = (0..16).map(|cell| level(cell).max(0.0)).collect();
        let surface = surface(&relief, &[], &depth, 0.0).unwrap();
        [colours(surface), colours(largest_wave(&relief, &[], &largest, 0.0).unwrap())]
    };
    assert_ne!(wave(2.9)[0], [[0xf7, 0xf7, 0xf5]; 3]);
    // The same shape, at a tenth of the height.
    assert_eq!(wave(0.29), wave(2.9));
}

#[test]
fn the_summary_tells_speed_exchange_gauges_and_files() {
    let tsunami = Haloport::new("run tsunami");
    let out = tsunami.out("--refine 1 --hours 0.3 --ranks 2 --out here");
    for part in [
        "120 × 91 cells",
        "million cells per second",
        "while the interior is computed; ",
        "% of the time",
        "halos by      direct copies from neighbours' fields",
        "per exchange",
        "Bamfield",
        "waves are reflected at the edges",
        "  hash          ",
        "here/surface-000.png to surface-end.png (3 pictures)",
        "here/largest.png",
        "here/gauges.csv",
    ] {
        assert!(out.contains(part), "`{part}` in {out}");
    }
}

#[test]
fn the_record_does_not_depend_on_the_number_of_ranks() {
    let tsunami = Haloport::new("run tsunami");
    let record = |ranks: usize| {
        let report = tsunami.json(&format!("--refine 1 --hours 0.2 --ranks {ranks} --out {ranks}"));
        // The wave has reached the open coast and not yet the inner sea.
        let arrival = |gauge: usize| report["gauges"][gauge]["arrival_min"].as_f64();
        assert!(arrival(3).is_some_and(|minutes| minutes > 5.0), "{report}");
        assert_eq!(arrival(8), None);
        std::fs::read_to_string(tsunami.path(format!("{ranks}/gauges.csv"))).unwrap()
    };
    let one = record(1);
    assert!(one.starts_with("time_s,Tofino,Bamfield,"));
    assert!(one.lines().last().unwrap().starts_with("720.0000,"));
    assert_eq!(one, record(3));
}

#[test]
fn the_results_do_not_depend_on_what_is_computed_while_halos_travel() {
    let tsunami = Haloport::new("run tsunami");
    let results = |ranks: usize, more: &str| {
        let out = format!("{ranks}{}", more.replace(' ', ""));
        let report = tsunami.json(&format!("--refine 1 --hours 0.05 --ranks {ranks} --out {out} {more}"));
        let in_turn = more.contains("--no-overlap");
        assert_eq!(report["overlap"], !in_turn);
        let checks = report["checks"].as_array();
        assert!(checks.is_none_or(|checks| checks.iter().all(|check| check["ok"] == true)), "{report}");
        let figures =
            ["steps", "volume_drift", "min_depth_m", "max_speed_m_s", "max_wave_m", "max_wave_at", "hash"];
        let files = ["gauges.csv", "surface-end.png", "largest.png"];
        let files = files.map(|file| std::fs::read(tsunami.path(format!("{out}/{file}"))).unwrap());
        (figures.map(|name| report[name].to_string()), files)
    };
    let one = results(1, "");
    for (ranks, more) in drawn(&[(4, ""), (1, "--no-overlap"), (3, "--no-overlap --verify")]) {
        assert!(one == results(*ranks, more), "{ranks} ranks {more}");
    }
}

#[test]
fn the_record_does_not_depend_on_the_number_of_threads() {
    let tsunami = Haloport::new("run tsunami");
    let record = |threads: usize| {
        let device = format!("--ranks 1 --device cpu:threads={threads}");
        tsunami.json(&format!("--refine 1 --hours 0.05 {device} --out {threads}"));
        std::fs::read(tsunami.path(format!("{threads}/gauges.csv"))).unwrap()
    };
    assert_eq!(record(1), record(3));
}

#[test]
fn bad_arguments_give_one_line_and_the_exit_code_2() {
    let tsunami = Haloport::new("run tsunami");
    for (arguments, parts) in [
        ("--hours -1", &["--hours", "above 0", "`-1`"][..]),
        ("--hours 0", &["--hours", "above 0", "`0`"]),
        ("--hours NaN", &["--hours", "above 0", "`NaN`"]),
        ("--hours inf", &["--hours", "at most 1000", "`inf`"]),
        ("--refine 0", &["--refine", "from 1", "`0`"]),
        ("--refine -2", &["--refine", "from 1", "`-2`"]),
        ("--refine 1.5", &["--refine", "whole number", "`1.5`"]),
        ("--refine 1000000", &["--refine", "GiB", "1000000"]),
        ("--refine 18446744073709551615", &["--refine", "GiB"]),
        ("--ranks 0", &["--ranks", "found `0`"]),
        ("--refine 1 --ranks 97", &["--ranks", "97 ranks", "120 x 91", "96 would do"]),
        ("--device gpu", &["--device", "there is no device `gpu`"]),
        ("--device metal:0", &["no device `metal:0`"]),
        ("--bathymetry nowhere.npz", &["--bathymetry", "nowhere.npz", "No such file"]),
        ("--depth 3", &["--depth"]),
    ] {
        let line = tsunami.refusal(&format!("{arguments} --json"));
        for part in parts {
            assert!(line.contains(part), "{arguments}: `{part}` in `{line}`");
        }
    }
    std::fs::write(tsunami.path("file"), "").unwrap();
    let line = tsunami.refusal("--refine 1 --out file/below");
    assert!(line.contains("--out: expected a folder that can be written to, found file/below"), "{line}");
}

#[test]
fn files_that_are_no_relief_are_refused() {
    let tsunami = Haloport::new("run tsunami");
    let refused = |name: &str| tsunami.refusal(&format!("--bathymetry {name}"));
    let path = |name: &str| tsunami.path(name);

    std::fs::write(path("text.npz"), "not an archive").unwrap();
    let line = refused("text.npz");
    assert!(line.contains("--bathymetry: text.npz: the relief is not a .npz archive"), "{line}");

    std::fs::write(path("half.npz"), &SHIPPED[..SHIPPED.len() / 2]).unwrap();
    assert!(refused("half.npz").contains("half.npz"));

    std::fs::create_dir(path("folder.npz")).unwrap();
    assert!(refused("folder.npz").contains("folder.npz"));

    write_relief(&path("names.npz"), "elevation", |_| -50.0);
    let line = refused("names.npz");
    assert!(line.contains("needs an array `topo`, found") && line.contains("elevation"), "{line}");

    write_relief(&path("nan.npz"), "topo", |cell| if cell == 7 { f64::NAN } else { -50.0 });
    let line = refused("nan.npz");
    assert!(line.contains("array `topo` of the relief must be finite, found NaN at index 7"), "{line}");

    write_relief(&path("land.npz"), "topo", |_| 5.0);
    assert!(refused("land.npz").contains("no sea"));

    // A relief that is too small for this number of ranks.
    write_relief(&path("small.npz"), "topo", |_| -50.0);
    let line = tsunami.refusal("--bathymetry small.npz --uplift-at 10.2,40.2 --refine 1 --ranks 9");
    assert!(
        line.contains("9 ranks cannot share a grid of 6 x 4 cells") && line.contains("6 would do"),
        "{line}"
    );
}

#[test]
fn any_other_sea_is_served() {
    let tsunami = Haloport::new("run tsunami");
    write_relief(&tsunami.path("small.npz"), "topo", |cell| -50.0 - cell as f64);
    let report = tsunami
        .json("--bathymetry small.npz --uplift-at 10.2,40.2 --refine 3 --hours 0.05 --ranks 4 --verify");
    assert_eq!(report["grid"], serde_json::json!([18, 12]));
    assert_eq!(report["gauges"], serde_json::json!([]));
    assert!(report["checks"].as_array().unwrap().iter().all(|check| check["ok"] == true), "{report}");
    assert!(report["max_wave_m"].as_f64().unwrap() > 1.0, "{report}");
}

/// A relief of 4 × 6 cells far from the shipped one.
fn write_relief(path: &Path, name: &str, depth: impl Fn(usize) -> f64) {
    let mut npz = NpzWriter::new(File::create(path).unwrap());
    let cells = Array2::from_shape_fn((4, 6), |(row, column)| depth(6 * row + column));
    let axis = |first: f64, cells| Array1::from_shape_fn(cells, |at| first + 0.1 * at as f64);
    npz.add_array(name, &cells).unwrap();
    npz.add_array("longitude", &axis(10.0, 6)).unwrap();
    npz.add_array("latitude", &axis(40.0, 4)).unwrap();
    npz.finish().unwrap();
}
