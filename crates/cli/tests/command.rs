//! The command as its users see it: output, exit codes and messages.

use std::process::{Command, Output};

use serde_json::Value;

/// Variables by which launchers of MPI processes show themselves.
const LAUNCHERS: [&str; 5] =
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"];

fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haloport"));
    command.args(arguments.split_whitespace()).env_remove("RUST_LOG");
    LAUNCHERS.iter().for_each(|variable| {
        command.env_remove(variable);
    });
    command
}

fn run(arguments: &str) -> Output {
    command(arguments).output().expect("the command starts")
}

/// The one JSON object on stdout of a command that ends well.
fn json(arguments: &str) -> Value {
    let output = run(arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments}: {err}");
    let value: Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments}: {error}: {out}"));
    assert!(value.is_object(), "{out}");
    value
}

/// The one line on stderr of a command that ends with `code` and prints nothing.
fn refusal(output: &Output, code: i32) -> String {
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{err}");
    assert!(output.stdout.is_empty());
    assert_eq!(err.lines().count(), 1, "{err}");
    err.trim_end().to_string()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

#[test]
fn devices_are_listed_with_what_is_missing_and_why() {
    let listed = run("devices");
    let out = text(&listed.stdout);
    assert!(listed.status.success());
    assert!(out.contains("cpu:0"), "{out}");
    assert!(out.contains("this version of Haloport has no backend cuda"), "{out}");

    let report = json("devices --json");
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
    if cfg!(not(feature = "sycl")) {
        assert_eq!(backend("sycl")["missing"], "it needs the feature `sycl`, which this build lacks");
    }
    assert_eq!(backend("in-process")["role"], "transport");
}

#[test]
fn the_exchange_is_measured_and_its_results_are_complete() {
    let report = json("bench exchange --local 12,10,8 --halo 2 --fields 2 --ranks 2 --samples 5 --json");
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
fn every_split_element_type_and_number_of_axes_is_served() {
    for (arguments, grid, path) in [
        ("--local 9 --ranks 3 --dtype u8", vec![27], "direct copies from neighbours' fields"),
        ("--local 6,5 --ranks 1 --dtype bf16", vec![6, 5], "copies within the rank"),
        ("--local 6,5 --ranks 2 --split fastest --dtype f32 --memory caller", vec![6, 10], "messages"),
        (
            "--local 4,4,4,4 --ranks 4 --split balanced --dtype complex64",
            vec![8, 8, 4, 4],
            "direct copies from neighbours' fields",
        ),
        // A halo wider than the grid.
        ("--local 3,2 --ranks 2 --halo 7", vec![6, 2], "direct copies from neighbours' fields"),
    ] {
        let report = json(&format!("bench exchange {arguments} --samples 2 --json"));
        assert_eq!(report["grid"], serde_json::json!(grid), "{arguments}");
        assert_eq!(report["path"], path, "{arguments}");
    }
}

#[test]
fn the_table_names_every_contestant() {
    let output = run("bench exchange --local 8,8 --ranks 1 --samples 2");
    let out = text(&output.stdout);
    assert!(output.status.success());
    for name in ["haloport", "one_pass_copy", "raw_send", "packed_persistent"] {
        assert!(out.lines().any(|line| line.starts_with(name)), "{out}");
    }
}

#[test]
fn bad_input_gives_one_line_and_the_exit_code_2() {
    for (arguments, parts) in [
        ("--local 0,3", &["--local", "at least 1", "an axis of 0 cells"][..]),
        ("--local 1,2,3,4,5", &["--local", "1 to 4", "5 axes"]),
        ("--local 4,x", &["--local", "`4,x`"]),
        ("--local 1000000000000000", &["--local", "expected 1 to 2^48"]),
        ("--local 60000,60000,60000", &["GiB", "choose a smaller --local"]),
        ("--local 18446744073709551615,2,2 --ranks 2", &["--local", "too many"]),
        ("--halo 0", &["--halo", "expected a number from 1", "`0`"]),
        ("--fields -1", &["-1"]),
        ("--samples many", &["--samples", "`many`"]),
        ("--dtype foo", &["--dtype", "f64, f32", "`foo`"]),
        ("--split sideways", &["--split", "sideways", "slowest, fastest, balanced"]),
        ("--device gpu", &["--device", "there is no device `gpu`", "cpu"]),
        ("--device cuda:1", &["`cuda:1`", "has no backend cuda"]),
        ("--ranks 0", &["--ranks", "expected 1 to", "found 0"]),
        ("--ranks 1000000", &["--ranks", "found 1000000"]),
        ("--rnks 2", &["--rnks", "'--ranks'"]),
    ] {
        let line = refusal(&run(&format!("bench exchange --json {arguments}")), 2);
        for part in parts {
            assert!(line.contains(part), "{arguments}: `{part}` in `{line}`");
        }
    }
    assert!(refusal(&run("devises"), 2).contains("devises"));
}

#[test]
fn a_launcher_of_mpi_processes_is_noticed() {
    for (variable, value) in [("OMPI_COMM_WORLD_SIZE", "2"), ("PMI_SIZE", "2"), ("SLURM_STEP_NUM_TASKS", "2")]
    {
        let output = command("bench exchange --local 4,4 --json").env(variable, value).output().unwrap();
        let line = refusal(&output, 2);
        assert!(line.contains(variable) && line.contains("lacks the feature `mpi`"), "{line}");
    }
    // A shell within an allocation is no launcher.
    let output = command("bench exchange --local 4,4 --samples 1 --ranks 1")
        .env("SLURM_STEP_NUM_TASKS", "1")
        .output()
        .unwrap();
    assert!(output.status.success());
}
