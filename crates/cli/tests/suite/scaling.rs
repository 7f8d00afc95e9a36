//! `haloport bench scaling`: the messages and memory of a rank do not grow with the number of ranks.

use crate::common::Haloport;
use haloport_conformance::usual;
use serde_json::Value;

fn figure(row: &Value, name: &str, which: &str) -> f64 {
    row[name][which].as_f64().unwrap_or_else(|| panic!("{name}.{which} in {row}"))
}

/// The figures of an exchange and of its set-up that do not depend on the node of a rank, but for the bytes of the set-up.
const FIGURES: [&str; 7] =
    ["neighbours", "messages", "bytes", "collectives", "setup_messages", "setup_received", "largest_table"];

/// The rows of a series: 64 ranks, and more.
fn series(report: &Value, name: &str) -> (Value, Value) {
    let all = report["series"].as_array().unwrap();
    let rows = &all.iter().find(|series| series["name"] == name).unwrap()["rows"];
    (rows[0].clone(), rows[1].clone())
}

#[test]
fn nothing_of_a_rank_grows_with_the_number_of_ranks() {
    // 4, and 6 or 16, blocks along each axis.
    let most = usual(216, 4096);
    let scaling = Haloport::new("bench scaling");
    let report = scaling.json(&format!("--ranks 64,{most} --local 6,5,4 --levels 3 --node 8"));
    for name in report["series"].as_array().unwrap().iter().map(|series| series["name"].as_str().unwrap()) {
        let (few, many) = series(&report, name);
        assert_eq!((&few["ranks"], &many["ranks"]), (&64.into(), &most.into()), "{name}");
    }
    grids_are_bounded(&report);
    meshes_are_bounded(&report);
}

fn grids_are_bounded(report: &Value) {
    // Every rank has its 26 neighbours, and the same work.
    let (few, many) = series(report, "grid");
    for name in FIGURES {
        for which in ["mean", "largest"] {
            let (few, many) = (figure(&few, name, which), figure(&many, name, which));
            assert_eq!(few, many, "{name}, {which}");
        }
    }
    assert_eq!(figure(&many, "neighbours", "largest"), 26.0);
    // 2 × 3 faces, 4 × 3 edges and 8 corners of 8 bytes a cell, each message a multiple of 64 bytes.
    let cells = [20, 20, 24, 24, 30, 30, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 1, 1, 1, 1, 1, 1, 1, 1];
    let least: usize = cells.iter().map(|cells| cells * 8).sum();
    assert!(figure(&many, "bytes", "largest") >= least as f64);
    // Numbers of ranks and cells take a byte more where they are 128 times as large.
    assert!(figure(&many, "setup_bytes", "largest") <= 1.25 * figure(&few, "setup_bytes", "largest"));

    // Halos that are added to their owners go the same ways back.
    let (few, many) = series(report, "grid, halos added");
    for name in FIGURES {
        let (few, many) = (figure(&few, name, "largest"), figure(&many, name, "largest"));
        assert_eq!(few, many, "halos added: {name}");
    }
    // The new block of a rank lies in 8 old ones, its own among them, but at the ends of the grid.
    let (few, many) = series(report, "grid, new blocks");
    for name in FIGURES {
        let (few, many) = (figure(&few, name, "largest"), figure(&many, name, "largest"));
        assert_eq!(few, many, "new blocks: {name}");
    }
    assert_eq!(figure(&many, "neighbours", "largest"), 7.0);
    assert!(figure(&many, "setup_bytes", "largest") <= 1.25 * figure(&few, "setup_bytes", "largest"));
}

fn meshes_are_bounded(report: &Value) {
    // Parts of a mesh differ; their mean does not grow once there are many more of them than neighbours.
    for mesh in ["mesh, owners named", "mesh, halos added"] {
        let (few, many) = series(report, mesh);
        for name in FIGURES {
            let (few, many) = (figure(&few, name, "mean"), figure(&many, name, "mean"));
            assert!(many <= 1.2 * few, "{mesh}, {name}: {few} on 64 ranks, {many} on more");
        }
    }
    // Half of each part goes to the next rank.
    let (few, many) = series(report, "mesh, new parts");
    for name in ["neighbours", "messages", "collectives"] {
        assert_eq!(figure(&few, name, "largest"), figure(&many, name, "largest"), "new parts: {name}");
    }
    assert_eq!(figure(&many, "messages", "largest"), 1.0);
    // Parts differ by a few cells.
    assert!(figure(&many, "bytes", "largest") <= 1.1 * figure(&few, "bytes", "largest"));
    // A rank asks the directory with no more letters than it has ids, and keeps no more than its share, by chance. For new parts,
    // both patterns and the redistribution tell it the owned ids, and it is asked for all of them, and answers.
    for (mesh, letters) in [("mesh", 2.0), ("mesh, new parts", 5.0)] {
        let (_, many) = series(report, mesh);
        let ids = figure(&many, "largest_table", "mean");
        let most = letters * ids + 5.0 * figure(&many, "neighbours", "mean");
        assert!(figure(&many, "setup_messages", "mean") <= most, "{mesh}");
        assert!(figure(&many, "largest_table", "largest") <= 4.0 * ids, "{mesh}");
    }
    for mesh in ["mesh", "mesh, owners named", "mesh, halos added", "mesh, new parts"] {
        let (few, many) = series(report, mesh);
        let (few, many) =
            (figure(&few, "largest_table", "largest"), figure(&many, "largest_table", "largest"));
        assert!(many <= 1.5 * few, "{mesh}: {few} on 64 ranks, {many} on more");
    }
}

#[test]
fn each_number_of_ranks_has_a_row_and_bad_numbers_are_refused() {
    let scaling = Haloport::new("bench scaling");
    let out = scaling.out("--ranks 8,1,8 --local 4,4 --cells 20 --levels 1 --node 4");
    // Tables of the exchange, of the set-up and of times, of seven series.
    assert_eq!(out.matches("| ranks | neighbours |").count(), 7, "{out}");
    for ranks in [1, 8] {
        assert_eq!(out.matches(&format!("\n| {ranks} | ")).count(), 3 * 7, "{ranks} in {out}");
    }

    for (arguments, named) in
        [("--ranks 0", "0"), ("--ranks 4,x", "x"), ("--loggp 1,2,3", "1,2,3"), ("--local 4,4,4,4,4", "axes")]
    {
        let line = scaling.refusal(arguments);
        assert!(line.contains(named), "{arguments}: {line}");
    }
}
