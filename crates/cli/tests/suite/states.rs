//! Fields in files: `--save` and `--restart`, and the stores behind them. `hashes` restarts on all pairs of numbers of ranks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::{Haloport, refusal};
use haloport::run_ranks;
use haloport_conformance::drawn;
use haloport_demos::common::history::{Constant, History, Named, Saved, Shape};
use serde_json::{Value, json};

/// The files of a store, by their names in it.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(here) = folders.pop() {
        for entry in fs::read_dir(here).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

/// The fields of a store at its times from number `from` on, by field and number of the time after that, and chunk.
fn fields(folder: &Path, names: &[&str], from: usize) -> BTreeMap<String, Vec<u8>> {
    let later = |(name, bytes): (String, Vec<u8>)| {
        let (field, chunk) = name.split_once("/c/")?;
        let (time, chunk) = chunk.split_once('/').unwrap_or((chunk, ""));
        let time = time.parse::<usize>().ok()?.checked_sub(from)?;
        names.contains(&field).then(|| (format!("{field} {time} {chunk}"), bytes))
    };
    files(folder).into_iter().filter_map(later).collect()
}

const FIELDS: [&str; 5] = ["time", "h", "hu", "hv", "largest"];

#[test]
fn a_tsunami_goes_on_where_one_on_other_ranks_left_off() {
    let tsunami = Haloport::new("run tsunami");
    let run = |arguments: &str| tsunami.json(&format!("--refine 1 {arguments}"));
    let stored = |store: &str, from: usize| fields(&tsunami.path(store), &FIELDS, from);
    let in_one_go = run("--hours 0.2 --ranks 1 --uplift-height 3 --save whole.zarr");
    // After 0, 10 and 12 minutes.
    let whole = stored("whole.zarr", 0);
    assert_eq!(whole.len(), 3 * FIELDS.len(), "{:?}", whole.keys());
    assert!(whole["h 1 0/0"] != whole["h 2 0/0"] && whole["largest 2 0/0"].iter().any(|&byte| byte != 0));

    for &(first, second) in drawn(&[(2, 3), (3, 1), (4, 2)]) {
        let (begun, rest) = (format!("{first}.zarr"), format!("{first}-{second}.zarr"));
        let hours = 600.0 / 3600.0;
        run(&format!("--hours {hours} --ranks {first} --uplift-height 3 --save {begun} --writers 1"));
        let report = run(&format!("--hours 0.2 --ranks {second} --restart {begun} --save {rest}"));
        assert_eq!((&report["started_s"], &report["simulated_s"]), (&json!(600.0), &json!(720.0)));
        assert_eq!(report["uplift"]["height"], 3.0);
        assert!(report["hash"].is_string() && report["hash"] == in_one_go["hash"], "{report}, {in_one_go}");
        assert!(stored(&rest, 0) == stored("whole.zarr", 1), "from {first} to {second} ranks");
        let before = stored(&begun, 0);
        assert!(before.iter().all(|(name, chunk)| whole[name] == *chunk) && before.len() == 2 * FIELDS.len());
    }
}

#[test]
fn a_tracer_goes_on_where_one_on_other_parts_of_the_mesh_left_off() {
    let advection = Haloport::new("run advection");
    let run =
        |arguments: &str| advection.json(&format!("--mesh icon:R2B1 --days 1.1 --levels 2 {arguments}"));
    let stored = |store: &str, from: usize| fields(&advection.path(store), &["time", "tracer"], from);
    for &(first, second) in drawn(&[(2, 3), (4, 1), (3, 2)]) {
        let (begun, rest) = (format!("{first}.zarr"), format!("{first}-{second}.zarr"));
        let in_one_go = run(&format!("--ranks {first} --save {begun} --writers 1"));
        let whole = stored(&begun, 0);
        assert_eq!(whole.len(), 5 * 2, "{:?}", whole.keys());
        assert!(whole["tracer 2 0/0"] != whole["tracer 4 0/0"]);
        refuses_other_runs(&advection, &begun);
        // As if the run had been ended after the second quarter.
        let times = advection.path(&begun).join("time/zarr.json");
        let mut array: Value = serde_json::from_slice(&fs::read(&times).unwrap()).unwrap();
        array["shape"] = json!([3]);
        fs::write(times, array.to_string()).unwrap();
        let report = run(&format!("--ranks {second} --restart {begun} --save {rest}"));
        assert_eq!((&report["started_days"], &report["simulated_days"]), (&json!(0.55), &json!(1.1)));
        assert!(report["hash"].is_string() && report["hash"] == in_one_go["hash"], "{report}, {in_one_go}");
        assert!(stored(&rest, 0) == stored(&begun, 2), "from {first} to {second} ranks");
    }
}

fn refuses_other_runs(advection: &Haloport, complete: &str) {
    for (arguments, parts) in [
        (
            "--days 1.1",
            &["--restart: expected a run that ended before its last day", complete, "1.1 days"][..],
        ),
        ("--days 2", &["expected the same run", "days: 2.0", "days: 1.1"]),
        ("--days 1.1 --limited", &["expected the same run", "limited: true"]),
        ("--days 1.1 --levels 3", &["expected 320 by 3 elements of `tracer`", "[5, 320, 2]"]),
    ] {
        let levels = if arguments.contains("--levels") { "" } else { "--levels 2" };
        let failed = advection.run(&format!("--mesh icon:R2B1 {levels} {arguments} --restart {complete}"));
        let line = refusal(&failed, 2);
        for part in parts {
            assert!(line.contains(part), "{arguments}: `{part}` in `{line}`");
        }
    }
}

#[test]
fn states_that_cannot_be_saved_or_restored_are_refused() {
    let tsunami = Haloport::new("run tsunami");
    tsunami.json("--refine 1 --hours 0.01 --ranks 1 --save old.zarr --out made");
    fs::create_dir(tsunami.path("empty")).unwrap();
    let damage = |name: &str, file: &str, change: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        for (path, bytes) in files(&tsunami.path("old.zarr")) {
            let to = tsunami.path(name).join(&path);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::write(to, if path == file { change(bytes) } else { bytes }).unwrap();
        }
    };
    let replaced = |from: &'static str, to: &'static str| {
        move |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(from, to).into_bytes()
    };
    damage("cut.zarr", "h/c/1/0/0", &|bytes| bytes[..100].to_vec());
    damage("f32.zarr", "hu/zarr.json", &replaced("float64", "float32"));
    damage("v2.zarr", "zarr.json", &replaced("\"zarr_format\": 3", "\"zarr_format\": 2"));
    damage("text.zarr", "time/zarr.json", &|_| b"no JSON".to_vec());
    damage("bed.zarr", "bed/c/0/0", &|mut bytes| {
        bytes[0] ^= 1;
        bytes
    });
    damage("nan.zarr", "time/c/1", &|_| vec![0xff; 8]);
    damage(
        "chunk.zarr",
        "time/zarr.json",
        &replaced("    \"chunk_shape\": [\n        1", "    \"chunk_shape\": [\n        2"),
    );
    for (arguments, parts) in [
        ("--restart nan.zarr", &["nan.zarr: expected a last time of 0 s or later, found NaN"][..]),
        ("--restart chunk.zarr", &["chunk.zarr: expected times in chunks of [1], found [2]"]),
        ("--save old.zarr", &["--save: expected a name of which there is no file", "found old.zarr"]),
        (
            "--restart old.zarr --hours 0.01",
            &["--hours: expected more than the 0.010 hours", "old.zarr", "0.01"],
        ),
        ("--restart nowhere.zarr", &["--restart: cannot read nowhere.zarr/time/zarr.json: No such file"]),
        ("--restart empty", &["--restart: cannot read empty/time/zarr.json"]),
        ("--restart old.zarr --refine 2", &["expected 182 by 240 elements of `h`", "[2, 91, 120]"]),
        ("--restart old.zarr --uplift-height 3", &["--restart", "--uplift-height"]),
        ("--restart f32.zarr", &["f32.zarr/hu/zarr.json: expected an array of Zarr 3", "float32"]),
        ("--restart v2.zarr", &["v2.zarr/zarr.json: expected a group of Zarr 3", "\"group\" of Zarr 2"]),
        ("--restart text.zarr", &["text.zarr/time/zarr.json: expected an array", "line 1"]),
        ("--restart bed.zarr", &["bed.zarr: expected a run on the same relief", "elevation"]),
        ("--save new.zarr --writers 0", &["--writers", "from 1", "`0`"]),
    ] {
        let refine = if arguments.contains("--refine") { "" } else { "--refine 1" };
        let line = tsunami.refusal(&format!("{refine} {arguments}"));
        for part in parts {
            assert!(line.contains(part), "{arguments}: `{part}` in `{line}`");
        }
    }
    let output = tsunami.run("--refine 1 --hours 0.02 --ranks 2 --restart cut.zarr");
    let line = refusal(&output, 1);
    assert!(
        line.contains("cut.zarr/h/c/1/0/0: expected 87360 bytes, found 100; is the file cut off?"),
        "{line}"
    );
}

#[test]
fn a_history_is_the_same_for_any_ranks_and_is_read_by_any() {
    let folder = tempfile::tempdir().unwrap();
    // Chunks of 2 rows, 7 rows: four chunks, of which the last one is half empty.
    let (rows, elements) = (7, 1 << 16);
    let named = |name| Named { name, long_name: "values of a test", units: "1" };
    let (values, place) = ([named("a"), named("b")], named("place"));
    let shape = Shape { fields: &values, axes: ["row", "element"], extents: [rows, elements] };
    let value = |step: usize, field: usize, row: usize, element: usize| {
        (((step * 2 + field) * rows + row) * elements + element) as f64
    };
    let store = |ranks: usize, writers: usize| folder.path().join(format!("{ranks}-{writers}.zarr"));
    let slab_of = |step: usize, field: usize, rows: std::ops::Range<usize>| -> Vec<f64> {
        rows.flat_map(|row| (0..elements).map(move |element| value(step, field, row, element))).collect()
    };
    let all = [(1, 1), (3, 1), (3, 2), (2, 9), (5, 4), (6, 9)];
    for (ranks, writers) in all {
        let slabs = run_ranks(ranks, |comm| {
            let place = Constant { array: place, axes: &[("row", rows)], values: &[0.5; 7] };
            let about = json!({ "about": "a test" });
            let path = store(ranks, writers);
            let mut history = History::create(&comm, &path, &about, &[place], &shape, writers)?;
            for step in 0..2 {
                let fields: Vec<_> = (0..2).map(|field| slab_of(step, field, history.slab())).collect();
                history.add(10.0 * step as f64, &fields)?;
            }
            Ok(history.slab())
        })
        .unwrap();
        let writing = slabs.iter().filter(|slab| !slab.is_empty()).count();
        assert_eq!(writing, writers.min(ranks).min(4), "{slabs:?}");
        assert!(files(&store(ranks, writers)) == files(&store(1, 1)), "{ranks} ranks, {writers} writers");
    }
    for ((ranks, readers), (wrote, writers)) in all.into_iter().zip(all.into_iter().rev()) {
        run_ranks(ranks, |comm| {
            let saved = Saved::open(&store(wrote, writers), &shape)?;
            assert_eq!((saved.time, saved.constant("place")?), (10.0, vec![0.5; 7]));
            assert_eq!(saved.attributes::<Value>()?["about"], "a test");
            let slab = saved.slab(&comm, readers);
            let fields = saved.last(&comm, &slab)?;
            assert!((0..2).all(|field| fields[field] == slab_of(1, field, slab.clone())));
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn an_error_of_one_writer_is_one_of_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let field = [Named { name: "a", long_name: "values of a test", units: "1" }];
    let shape = Shape { fields: &field, axes: ["row", "element"], extents: [6, 1 << 16] };
    let texts = run_ranks(3, |comm| {
        let store = folder.path().join("s.zarr");
        let mut history = History::create(&comm, &store, &json!({}), &[], &shape, 3)?;
        if comm.rank() == 0 {
            // In place of the folder in which rank 1 writes its chunk.
            fs::create_dir_all(store.join("a/c/0")).unwrap();
            fs::write(store.join("a/c/0/1"), "").unwrap();
        }
        comm.barrier()?;
        let values = vec![0.0; history.slab().len() << 16];
        let error = history.add(0.0, &[values]).unwrap_err().to_string();
        let again = History::create(&comm, &store, &json!({}), &[], &shape, 3).unwrap_err().to_string();
        assert!(again.starts_with("rank 0: cannot create"), "{again}");
        assert!(Saved::open(&store, &shape).unwrap_err().to_string().contains("found none yet"));
        Ok(error)
    })
    .unwrap();
    assert!(
        texts[0].starts_with("rank 1: cannot write") && texts.iter().all(|text| *text == texts[0]),
        "{texts:?}"
    );
}
