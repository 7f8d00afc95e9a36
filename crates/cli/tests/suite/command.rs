//! The command for users: output, exit codes and messages.

use crate::common::{Haloport, refusal};
use serde_json::json;

#[test]
fn devices_are_listed_with_what_is_missing_and_why() {
    let devices = Haloport::new("devices");
    let out = devices.out("");
    assert!(out.contains("cpu:0"), "{out}");
    assert!(out.contains("`finish` returns with the halos in place"), "{out}");

    let report = devices.json("");
    assert_eq!(report["auto"], "cpu:0");
    let backend = |name: &str| {
        let backends = report["backends"].as_array().unwrap();
        backends
            .iter()
            .find(|backend| backend["name"] == name)
            .unwrap_or_else(|| panic!("{name} in {report}"))
    };
    assert_eq!(backend("cpu")["devices"][0]["id"], "cpu:0");
    assert!(backend("cpu")["missing"].is_null());
    for (name, built) in [("cuda", cfg!(feature = "cuda")), ("sycl", cfg!(feature = "sycl"))] {
        if !built {
            let missing = format!("it needs the feature `{name}`, which this build lacks");
            assert_eq!(backend(name)["missing"], *missing);
        }
    }
    assert_eq!(backend("in-process")["role"], "transport");
}

#[test]
fn how_ranks_exchange_is_told_for_each_transport() {
    let devices = Haloport::new("devices");
    let report = devices.json("");
    assert!(report["job"].is_null(), "{report}");
    let paths = |name: &str| {
        let backends = report["backends"].as_array().unwrap();
        backends.iter().find(|backend| backend["name"] == name).unwrap()["paths"].clone()
    };
    let within_process = json!([{"peers": "process", "paths": ["direct", "messages"], "refused": null}]);
    assert_eq!(paths("in-process"), within_process);
    assert_eq!(paths("cpu"), json!([]));
    let out = devices.out("");
    let told = "ranks of one process: straight from the neighbour's field, else in messages";
    assert!(out.contains(told), "{out}");

    let mpi = report["backends"].as_array().unwrap().iter().find(|backend| backend["name"] == "mpi").unwrap();
    if !mpi["missing"].is_null() {
        assert_eq!(paths("mpi"), json!([]));
    } else {
        let library = mpi["library"].as_str().unwrap();
        assert!(library.contains("/lib") && out.contains(library), "{library} in {out}");
        // The answer depends on the machine; scripts/test covers refused shared memory.
        let of_node = &paths("mpi")[0];
        let refused = of_node["refused"].as_str().is_some_and(|why| !why.is_empty());
        let expected = if refused { json!(["messages"]) } else { json!(["direct", "shared", "messages"]) };
        assert_eq!((&of_node["peers"], &of_node["paths"]), (&json!("node"), &expected));
        let to_others = json!({"peers": "other-nodes", "paths": ["messages"], "refused": null});
        assert_eq!(paths("mpi")[1], to_others);
        assert!(out.contains("ranks of other nodes: in messages"), "{out}");
    }
}

#[test]
fn the_exchange_is_measured_and_its_results_are_complete() {
    let bench = Haloport::new("bench exchange");
    // Between far cores, so few cells travel packed unless a path is asked for.
    let report = bench
        .json("--local 12,10,8 --halo 2 --fields 2 --ranks 2 --samples 5 --boundary unchanged --path direct");
    // Around each block of 12 × 10 × 8 cells, two fields of 8 bytes.
    let halo_cells = 16 * 14 * 12 - 12 * 10 * 8;
    assert_eq!(report["bytes"], halo_cells * 2 * 8);
    for time in ["median_us", "p10_us", "p90_us", "one_pass_copy_us", "raw_send_us", "bandwidth_gb_s"] {
        assert!(report[time].as_f64().is_some_and(|time| time > 0.0), "{time} in {report}");
    }
    assert!(report.as_object().unwrap().contains_key("packed_persistent_us"));
    assert!(report["packed_persistent_us"].is_null());
    assert_eq!(report["ranks"], 2);
    assert_eq!(report["transport"], "in-process");
    assert_eq!(report["device"], "cpu:0");
    assert_eq!(report["grid"], serde_json::json!([24, 10, 8]));
    assert_eq!(report["path"], "direct copies from neighbours' fields");
    assert_eq!(report["verified"], true);
}

#[test]
fn accumulation_is_measured_beside_a_pass_that_adds() {
    let bench = Haloport::new("bench exchange");
    for (arguments, path) in [
        ("--path direct --fields 2", "direct copies from neighbours' fields"),
        ("--path direct --dtype f32 --boundary unchanged", "direct copies from neighbours' fields"),
        ("--path messages --memory caller", "messages"),
    ] {
        let report =
            bench.json(&format!("--accumulate --local 12,10,8 --halo 2 --ranks 2 --samples 3 {arguments}"));
        assert_eq!(report["accumulated"], true);
        assert_eq!(report["path"], path, "{arguments}");
        let all = report["contestants"].as_array().unwrap();
        let names: Vec<_> = all.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["haloport", "one_pass_add", "raw_send"]);
        assert!(all.iter().all(|one| one["median_us"].is_f64() && one["ratio"].is_f64()), "{report}");
    }
    let out = bench.out("--accumulate --local 8,8 --ranks 1 --samples 2");
    assert!(out.contains("added to their owners; every owned cell checked"), "{out}");
    assert!(out.contains("halo cells are rewritten before each exchange"), "{out}");
    for (arguments, text) in [
        ("--accumulate --dtype u8", "--dtype: --accumulate expects f32 or f64, found u8"),
        ("--accumulate --uneven 5", "cannot be used with"),
    ] {
        let refused = bench.refusal(&format!("--local 8 --ranks 2 {arguments}"));
        assert!(refused.contains(text), "{refused}");
    }
}

#[test]
fn a_transpose_is_measured_beside_plain_copies() {
    let bench = Haloport::new("bench transpose");
    for (arguments, ranks) in [("--path direct --fields 2", 2), ("--path messages", 3), ("", 1)] {
        let report = bench.json(&format!("--cells 12,6,5 --ranks {ranks} --samples 3 {arguments}"));
        let fields = report["fields"].as_u64().unwrap();
        assert_eq!(report["bytes"], 12 * 6 * 5 * 8 * fields / ranks, "{arguments}");
        assert_eq!((&report["verified"], &report["cells"]), (&true.into(), &json!([12, 6, 5])));
        for figure in ["median_us", "one_pass_copy_us", "ratio_to_one_pass_copy"] {
            assert!(report[figure].as_f64().is_some_and(|figure| figure > 0.0), "{figure} in {report}");
        }
    }
    let out = bench.out("--cells 8,8 --ranks 2 --samples 2");
    assert!(out.contains("8 × 8 cells, from parts along the first axis to parts along the second"), "{out}");
    for (arguments, text) in [
        ("--cells 8", "--cells: expected at least 2 axes"),
        ("--cells 8,7", "a multiple of the 2 ranks; found [8, 7]"),
        ("--cells 8,8 --memory caller", "--memory: expected node-shared or private"),
        ("--cells 4000000,4000000", "the fields need"),
    ] {
        let refused = bench.refusal(&format!("{arguments} --ranks 2"));
        assert!(refused.contains(text), "{arguments}: {refused}");
    }
}

#[test]
fn an_exchange_is_measured_beside_work() {
    let bench = Haloport::new("bench overlap");
    for (arguments, ranks) in [("--work 90 --path messages --fields 2", 2), ("--work 99", 3), ("--work 1", 1)]
    {
        let report = bench.json(&format!("--local 6,5,4 --ranks {ranks} --samples 3 {arguments}"));
        let fields = report["fields"].as_u64().unwrap();
        assert_eq!(report["bytes"], (8 * 7 * 6 - 6 * 5 * 4) * 8 * fields, "{arguments}");
        assert_eq!(report["verified"], true);
        let figures: Vec<f64> = ["exchange_us", "work_us"].map(|name| report[name].as_f64().unwrap()).into();
        assert!(figures.iter().all(|&figure| figure > 0.0), "{report}");
        let together = report["together"].as_array().unwrap();
        let names: Vec<_> = together.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["after", "caller", "polled", "thread"]);
        assert!(together.iter().all(|one| one["median_us"].is_f64() && one["hidden"].is_f64()), "{report}");
    }
    let out = bench.out("--local 8,8 --ranks 2 --samples 2 --work 50");
    assert!(out.contains("8 × 8 cells on each rank, periodic, halo 1, 1 field of f64"), "{out}");
    // Twenty cells take 160 µs at this rate, some more with gaps between their pieces, and arrive 1,000 µs later.
    let report = bench.json("--local 8,8 --ranks 2 --samples 3 --work 50 --network 0.008,1000");
    assert!(report["exchange_us"].as_f64().unwrap() > 1100.0, "{report}");
    assert!(report["path"].as_str().unwrap().contains("messages"), "{report}");
    assert!((1160.0..1300.0).contains(&report["transfer_us"].as_f64().unwrap()), "{report}");
    assert!(report["together"][1]["hidden_of_transfer"].is_f64(), "{report}");
    let out = bench.out("--local 8 --ranks 2 --samples 2 --work 50 --network 10,5");
    assert!(
        out.contains("a simulated network of 10 Gbit/s with a latency of 5 µs, in which the messages"),
        "{out}"
    );
    for (arguments, text) in [
        ("--local 8 --memory caller", "--memory: expected node-shared or private"),
        ("--local 8 --work 0", "--work"),
        ("--local 4000000,4000000", "the fields need"),
        ("--local 1,2,3,4,5", "expected 1 to 4 numbers of cells"),
        ("--network 10", "expected Gbit/s from 0.001"),
        ("--network 0,5", "such as 10,5; found `0,5`"),
        ("--network 10,5,fast", "such as 10,5; found `10,5,fast`"),
    ] {
        let refused = bench.refusal(&format!("{arguments} --ranks 1"));
        assert!(refused.contains(text), "{arguments}: {refused}");
    }
}

#[test]
fn owned_cells_are_rewritten_before_each_exchange() {
    let bench = Haloport::new("bench exchange");
    let writing = |report: &serde_json::Value, name: &str| {
        let all = report["contestants"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap()["write_us"].as_f64()
    };
    for memory in ["node-shared", "caller"] {
        let report =
            bench.json(&format!("--local 64,64 --halo 2 --fields 2 --ranks 2 --samples 5 --memory {memory}"));
        assert_eq!(report["boundary"], "written");
        for name in ["haloport", "one_pass_copy"] {
            assert!(writing(&report, name).is_some_and(|time| time > 0.05), "{name}: {report}");
        }
        // What is subtracted may exceed a few samples on a busy machine.
        assert!(report["median_us"].is_f64(), "{report}");
    }
    let report = bench.json("--local 64,64 --ranks 2 --samples 2 --boundary unchanged");
    assert_eq!((&report["boundary"], writing(&report, "haloport")), (&"unchanged".into(), None));
    let uneven = "--local 8 --ranks 2 --samples 2 --uneven 10";
    assert_eq!(bench.json(uneven)["boundary"], "unchanged");
    let refused = bench.refusal(&format!("{uneven} --boundary written"));
    assert!(
        refused.contains("--boundary: expected unchanged, as there is work between start and end"),
        "{refused}"
    );
    let out = bench.out("--local 8,8 --ranks 1 --samples 2");
    assert!(out.contains("owned cells near the halo are rewritten before each exchange"), "{out}");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let crowded = format!("--local 8 --ranks {} --samples 2", cores + 1);
    assert_eq!(bench.json(&crowded)["boundary"], "unchanged");
    let refused = bench.refusal(&format!("{crowded} --boundary written"));
    assert!(refused.contains("--boundary: expected unchanged, as ranks share cores"), "{refused}");

    let bench = Haloport::new("bench unstructured");
    for (layout, memory) in [("fastest", "caller"), ("slowest", "node-shared")] {
        let report =
            bench.json(&format!("--levels 3 --order {layout} --fields 2 --samples 3 --memory {memory}"));
        assert_eq!(report["boundary"], "written");
        for name in ["haloport", "gather_pass"] {
            assert!(writing(&report, name).is_some_and(|time| time > 0.05), "{name}: {report}");
        }
    }
    assert_eq!(bench.json("--levels 3 --samples 2 --boundary unchanged")["boundary"], "unchanged");
    let blocks = "--levels 3 --nproma 8 --samples 2";
    assert_eq!(bench.json(blocks)["boundary"], "unchanged");
    let refused = bench.refusal(&format!("{blocks} --boundary written"));
    assert!(refused.contains("expected unchanged, as cells lie in blocks (--nproma)"), "{refused}");
}

#[test]
fn uneven_work_is_done_between_start_and_end() {
    let bench = Haloport::new("bench exchange");
    let report = bench.json("--local 8,8 --ranks 2 --samples 5 --uneven 2000");
    assert_eq!(report["uneven_us"], 2000);
    let time = |name: &str| {
        let found =
            report["contestants"].as_array().and_then(|all| all.iter().find(|one| one["name"] == name));
        found.and_then(|one| one["median_us"].as_f64()).unwrap_or_else(|| panic!("no {name} in {report}"))
    };
    // Each rank works in every second exchange. On a busy machine, either may take longer.
    assert!(time("work_alone") >= 1900.0 && time("haloport") >= 1900.0, "{report}");
    // What has no work between start and end is left out.
    assert!(report["one_pass_copy_us"].is_null() && report["raw_send_us"].is_null(), "{report}");
    let out = bench.out("--local 8,8 --ranks 2 --samples 2 --uneven 100");
    assert!(out.contains("work for 100 µs between the start of an exchange and its end"), "{out}");
    let refused = bench.refusal("--local 8 --ranks 2 --uneven 0");
    assert!(refused.contains("--uneven") && refused.contains("from 1"), "{refused}");
}

#[test]
fn every_split_element_type_and_number_of_axes_is_served() {
    let bench = Haloport::new("bench exchange");
    // Small fields of threads that outnumber the cores go in messages.
    let straight = |ranks| match ranks > std::thread::available_parallelism().unwrap().get() {
        true => "messages",
        false => "direct copies from neighbours' fields",
    };
    for (arguments, grid, path) in [
        ("--local 9 --ranks 3 --dtype u8", vec![27], straight(3)),
        ("--local 6,5 --ranks 1 --dtype bf16", vec![6, 5], "copies within the rank"),
        ("--local 6,5 --ranks 2 --split fastest --dtype f32 --memory caller", vec![6, 10], "messages"),
        ("--local 4,4,4,4 --ranks 4 --split balanced --dtype complex64", vec![8, 8, 4, 4], straight(4)),
        // A halo wider than the grid.
        ("--local 3,2 --ranks 2 --halo 7", vec![6, 2], straight(2)),
    ] {
        let report = bench.json(&format!("{arguments} --samples 2"));
        assert_eq!(report["grid"], serde_json::json!(grid), "{arguments}");
        assert_eq!(report["path"], path, "{arguments}");
    }
}

#[test]
fn the_table_names_every_contestant() {
    let out = Haloport::new("bench exchange").out("--local 8,8 --ranks 1 --samples 2");
    for name in ["haloport", "one_pass_copy", "raw_send", "packed_persistent"] {
        assert!(out.lines().any(|line| line.starts_with(name)), "{out}");
    }
}

#[test]
fn bad_input_gives_one_line_and_the_exit_code_2() {
    let bench = Haloport::new("bench exchange");
    for (arguments, parts) in [
        ("--local 0,3", &["--local", "at least 1", "an axis of 0 cells"][..]),
        ("--local 1,2,3,4,5", &["--local", "1 to 4", "5 axes"]),
        ("--local 4,x", &["--local", "`4,x`"]),
        ("--local 1000000000000000", &["--local", "expected 1 to 2^48"]),
        ("--local 60000,60000,60000", &["GiB", "choose a smaller --local"]),
        ("--local 18446744073709551615,2,2 --ranks 2", &["--local", "too many"]),
        ("--halo 0", &["--halo", "expected a whole number from 1", "`0`"]),
        ("--fields -1", &["-1"]),
        ("--samples many", &["--samples", "`many`"]),
        ("--dtype foo", &["--dtype", "f64, f32", "`foo`"]),
        ("--split sideways", &["--split", "sideways", "slowest, fastest, balanced"]),
        ("--device gpu", &["--device", "there is no device `gpu`", "cpu"]),
        (
            "--device cuda:99",
            if cfg!(feature = "cuda") { &["was not found"] } else { &["needs the feature `cuda`"] },
        ),
        ("--ranks 0", &["--ranks", "expected 1 to", "found `0`"]),
        ("--ranks 1000000", &["--ranks", "found `1000000`"]),
        ("--rnks 2", &["--rnks", "'--ranks'"]),
    ] {
        let line = bench.refusal(&format!("--json {arguments}"));
        for part in parts {
            assert!(line.contains(part), "{arguments}: `{part}` in `{line}`");
        }
    }
    assert!(Haloport::new("devises").refusal("").contains("devises"));
}

#[test]
#[cfg(feature = "mpi")]
fn a_machine_without_mpi_is_told_what_was_looked_for() {
    let named = ("HALOPORT_MPI", "/nonexistent/libmpi.so");
    let (devices, bench) = (Haloport::new("devices"), Haloport::new("bench exchange"));
    let output = devices.command("").env(named.0, named.1).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let told =
        "missing: the search for MPI failed: HALOPORT_MPI=/nonexistent/libmpi.so: there is no such file";
    assert!(out.lines().any(|line| line.starts_with("  mpi ") && line.contains(told)), "{out}");
    // Without a launcher, ranks are threads.
    let output = bench.command("--local 4,4 --samples 1 --ranks 2").env(named.0, named.1).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let launched = [named, ("OMPI_COMM_WORLD_SIZE", "2")];
    let line = refusal(&bench.command("--local 4,4 --json").envs(launched).output().unwrap(), 1);
    assert!(line.contains("HALOPORT_MPI=/nonexistent/libmpi.so") && line.contains("or unset it"), "{line}");
}

#[test]
#[cfg_attr(feature = "mpi", ignore = "this build takes part in what such a launcher starts")]
fn a_launcher_of_mpi_processes_is_noticed() {
    let bench = Haloport::new("bench exchange");
    for (variable, value) in [("OMPI_COMM_WORLD_SIZE", "2"), ("PMI_SIZE", "2"), ("SLURM_STEP_NUM_TASKS", "2")]
    {
        let output = bench.command("--local 4,4 --json").env(variable, value).output().unwrap();
        let line = refusal(&output, 2);
        assert!(line.contains(variable) && line.contains("lacks the feature `mpi`"), "{line}");
    }
    // A shell within an allocation is no launcher.
    let output =
        bench.command("--local 4,4 --samples 1 --ranks 1").env("SLURM_STEP_NUM_TASKS", "1").output().unwrap();
    assert!(output.status.success());
}
