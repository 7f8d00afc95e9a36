//! Time lines: the files that commands write with `--trace`, and the output of `haloport trace`.

use std::fs;

use crate::common::{Haloport, refusal};
use serde_json::{Value, json};

/// The command `trace`, with the file of a time line in its folder.
fn with_file(text: &str) -> Haloport {
    let trace = Haloport::new("trace");
    fs::write(trace.path("t.json"), text).unwrap();
    trace
}

/// A span as in a file: rank, row, phase, start, length, bytes.
fn span(rank: usize, row: usize, phase: &str, begin: f64, length: f64, bytes: u64) -> Value {
    json!({"ph": "X", "pid": rank, "tid": row, "ts": begin, "dur": length, "name": phase, "cat": phase,
        "args": {"bytes": bytes, "exchange": 0}})
}

/// A time line of two ranks, made by hand.
fn made_by_hand() -> String {
    let events = [
        json!({"ph": "M", "pid": 0, "tid": 0, "name": "thread_name", "args": {"name": "host"}}),
        json!({"ph": "M", "pid": 0, "tid": 0, "name": "thread_sort_index", "args": {"sort_index": 0}}),
        span(0, 1, "packing", 0.0, 10.0, 80),
        // Two messages at once: 30 µs together, of which 15 µs and 5 µs are behind kernels.
        span(0, 2, "wire", 10.0, 20.0, 40),
        span(0, 3, "wire", 15.0, 25.0, 40),
        span(0, 1, "kernel", 15.0, 15.0, 0),
        span(0, 1, "kernel", 35.0, 100.0, 0),
        span(0, 1, "unpacking", 140.0, 10.0, 80),
        span(0, 0, "waiting", 20.0, 5.0, 0),
        span(0, 0, "waiting", 22.0, 8.0, 0),
        span(1, 1, "kernel", 5.0, 195.0, 0),
        json!({"ph": "X", "pid": 1, "tid": 2, "ts": 50.0, "dur": 50.0, "name": "receive", "cat": "wire",
            "args": {"bytes": 7, "failed": true}}),
    ];
    let other = json!({"format": "haloport-trace-1", "ranks": 2, "dropped": [0, 3]});
    json!({"traceEvents": events, "otherData": other}).to_string()
}

#[test]
fn the_figures_of_a_time_line_made_by_hand() {
    let trace = with_file(&made_by_hand());
    let report = trace.json("summary t.json");
    assert_eq!(report["total_us"], 200.0);
    let first = &report["ranks"][0];
    assert_eq!(first["phases"]["wire"], json!({"count": 2, "time_us": 30.0, "bytes": 80}));
    assert_eq!(first["phases"]["kernel"], json!({"count": 2, "time_us": 115.0, "bytes": 0}));
    assert_eq!(first["phases"]["waiting"], json!({"count": 2, "time_us": 10.0, "bytes": 0}));
    assert_eq!(first["communication_us"], 50.0);
    assert_eq!(first["hidden_us"], 20.0);
    assert_eq!(first["hidden"], 0.4);
    assert_eq!(first["blocked_us"], 10.0);
    assert_eq!(first["blocked_in_us"], json!({"waiting": 10.0}));
    let second = &report["ranks"][1];
    assert_eq!(
        (&second["hidden"], &second["dropped"], &second["failed"]),
        (&json!(1.0), &json!(3), &json!(1))
    );
    // All ranks.
    assert_eq!(report["communication_us"], 100.0);
    assert_eq!(report["hidden"], 0.7);
    assert_eq!(report["blocked_us"], 10.0);
    assert_eq!(report["dropped"], 3);
    assert_eq!(report["phases"]["wire"], json!({"count": 3, "time_us": 80.0, "bytes": 87}));

    let out = trace.out("summary t.json");
    assert_eq!((&report["steps"], &first["steps"]), (&Value::Null, &Value::Null));
    assert_eq!(report["kernels"]["kernel"]["count"], 3);

    for text in [
        "2 ranks; no exchange was made twice, so there are no steps: figures are of all",
        "the time line has 200.0 µs",
        "communication 100.0 µs, of which 70.0 µs (70 %) hidden behind kernels; the host was blocked for 10.0 µs",
        "rank 1: communication 50.0 µs, of which 50.0 µs (100 %) hidden",
        "the host waited in: waiting 10.0 µs",
        "incomplete: spans dropped for lack of room: 3",
        "spans that ended with an error: 1",
    ] {
        assert!(out.contains(text), "{text} in {out}");
    }
}

/// A span of a kernel, of an exchange or of a wait, by its name.
fn named(
    rank: usize,
    [row, exchange]: [Option<usize>; 2],
    phase: &str,
    name: &str,
    times: [f64; 2],
) -> Value {
    let mut args = json!({"bytes": 8});
    if let Some(exchange) = exchange {
        args["exchange"] = exchange.into();
    }
    json!({"ph": "X", "pid": rank, "tid": row, "ts": times[0], "dur": times[1], "name": name, "cat": phase, "args": args})
}

/// A time line of two ranks: set-up; steps of 100 µs, which wait 30, 31, 32 ... µs without a kernel; and after the
/// fifth of them a picture, which takes 10 ms.
fn with_steps() -> String {
    let mut events = Vec::new();
    for rank in [0, 1] {
        let mut add = |place: [Option<usize>; 2], phase: &str, name: &str, times: [f64; 2]| {
            events.push(named(rank, place, phase, name, times));
        };
        let (host, stream, wire) = ([Some(0), None], [Some(1), None], [Some(2), Some(7)]);
        add(host, "waiting", "all_gather", [0.0, 400.0]);
        add(stream, "kernel", "fill", [500.0, 300.0]);
        for step in 0..10 {
            let begin = 1000.0 + 100.0 * f64::from(step) + if step > 4 { 10_000.0 } else { 0.0 };
            let hidden = 40.0 - f64::from(step);
            add([Some(1), Some(7)], "packing", "pack", [begin, 10.0]);
            // 60 µs under way and waited for; a kernel hides a part.
            add(wire, "wire", "message", [begin + 10.0, 50.0]);
            add(stream, "kernel", "interior", [begin + 10.0, hidden]);
            add([Some(0), Some(7)], "waiting", "finish", [begin + 55.0, 15.0]);
            add(stream, "kernel", "boundary", [begin + 70.0, 5.0]);
            add(host, "waiting", "all_reduce", [begin + 80.0, 4.0]);
            if step == 4 {
                add(host, "waiting", "barrier", [begin + 100.0, 9_000.0]);
            }
        }
        add(host, "waiting", "barrier", [13_000.0, 2_000.0]);
    }
    let other = json!({"format": "haloport-trace-1", "ranks": 2, "dropped": [0, 0]});
    json!({"traceEvents": events, "otherData": other}).to_string()
}

#[test]
fn the_summary_leads_with_the_exposed_wait_of_each_step() {
    let trace = with_file(&with_steps());
    let report = trace.json("summary t.json");
    // Ten starts of steps: nine steps; the picture is in the fifth.
    assert_eq!(report["total_us"], 15_000.0);
    let steps = &report["ranks"][0]["steps"];
    assert_eq!((&steps["count"], &steps["left_out"]), (&json!(8), &json!(1)));
    assert_eq!(steps["length_us"], json!({"min": 100.0, "median": 100.0, "max": 100.0}));
    assert_eq!(steps["exposed_us"], json!({"min": 30.0, "median": 34.0, "max": 38.0}));
    assert_eq!((&report["steps"]["count"], &report["steps"]["left_out"]), (&json!(16), &json!(2)));
    assert_eq!(report["steps"]["exposed_us"], steps["exposed_us"]);

    // Nothing of the set-up and of the picture.
    let kernels = report["kernels"].as_object().unwrap();
    assert_eq!(kernels.keys().collect::<Vec<_>>(), ["boundary", "interior"]);
    let interior =
        json!({"count": 16, "total_us": 576.0, "time_us": {"min": 32.0, "median": 36.0, "max": 40.0}});
    assert_eq!(kernels["interior"], interior);
    assert_eq!(report["blocked_in_us"], json!({"all_reduce": 64.0, "finish": 240.0}));
    assert_eq!(report["phases"]["wire"], json!({"count": 16, "time_us": 800.0, "bytes": 128}));
    assert_eq!((&report["communication_us"], &report["hidden_us"]), (&json!(960.0), &json!(576.0)));

    let out = trace.out("summary t.json");
    let line = "exposed wait per step: 34.0 µs (median; 30.0 µs to 38.0 µs), 34 % of a step of 100.0 µs\n";
    assert!(out.starts_with(line), "{out}");
    let words: Vec<&str> =
        out.lines().find(|line| line.starts_with("interior")).unwrap().split_whitespace().collect();
    assert_eq!(words, ["interior", "16", "32.0", "µs", "36.0", "µs", "40.0", "µs", "576.0", "µs"]);
    assert!(!out.contains("fill") && !out.contains("barrier") && !out.contains("all_gather"), "{out}");
}

#[test]
fn what_is_no_time_line_is_refused() {
    let trace = Haloport::new("trace");
    let good = made_by_hand();
    let replaced = |from: &str, to: &str| {
        assert!(good.contains(from));
        good.replace(from, to)
    };
    for (text, expected) in [
        (None, "no file that can be read"),
        (Some("{".to_owned()), "a file that is no such JSON"),
        (Some("[1, 2]".to_owned()), "a file that is no such JSON"),
        (Some(r#"{"traceEvents": []}"#.to_owned()), "JSON of another program"),
        (Some(replaced("haloport-trace-1", "haloport-trace-9")), "the format \"haloport-trace-9\""),
        (Some(replaced(r#""cat":"packing""#, r#""cat":"cooking""#)), "a damaged time line"),
        (Some(replaced(r#""dropped":[0,3]"#, r#""dropped":[0]"#)), "an event of rank 1, and 1 ranks"),
        (Some(replaced(r#""ts":140.0"#, r#""ts":-140.0"#)), "an event at -140 µs"),
    ] {
        match text {
            Some(text) => fs::write(trace.path("t.json"), text).unwrap(),
            None => assert!(!trace.path("t.json").exists()),
        }
        let line = trace.refusal("summary t.json --json");
        assert!(line.starts_with("t.json: expected a time line") && line.contains(expected), "{line}");
    }
}

#[cfg(unix)]
#[test]
fn lines_on_a_terminal_end_between_words() {
    use crate::common::terminal::lines;
    const COLUMNS: u16 = 60;
    let trace = with_file(&with_steps());
    let piped = trace.out("summary t.json");
    assert!(piped.lines().any(|line| line.chars().count() > COLUMNS.into()), "{piped}");
    let refused = String::from_utf8(trace.run("summary none.json").stderr).unwrap();
    for (arguments, text) in [("summary t.json", piped), ("summary none.json", refused)] {
        let lines = lines(&mut trace.command(arguments), COLUMNS, "no such text");
        for line in &lines {
            assert!(line.chars().count() <= COLUMNS.into(), "{line:?} in {lines:#?}");
        }
        let words: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
        assert_eq!(words, text.split_whitespace().collect::<Vec<_>>(), "{arguments}");
    }
    let lines = lines(&mut trace.command("summary t.json"), 200, "no such text");
    let piped = trace.out("summary t.json");
    assert_eq!(lines, piped.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>());
}

#[test]
fn a_time_line_without_spans_has_a_summary() {
    let empty =
        with_file(r#"{"traceEvents": [], "otherData": {"format": "haloport-trace-1", "dropped": [0]}}"#);
    assert!(empty.out("summary t.json").contains("no communication"));
}

#[test]
fn a_benchmark_writes_its_time_line() {
    let (bench, trace) = (Haloport::new("bench exchange"), Haloport::new("trace"));
    let small = "--local 16,16 --ranks 2 --samples 3 --path messages";
    bench.json(&format!("{small} --trace t.json"));
    let written = bench.path("t.json");
    let file: Value = serde_json::from_slice(&fs::read(&written).unwrap()).unwrap();
    assert_eq!(file["otherData"]["format"], "haloport-trace-1");
    assert!(file["traceEvents"].as_array().unwrap().len() > 100);
    let report = trace.json(&format!("summary {}", written.display()));
    let phases = &report["phases"];
    for phase in ["wire", "unpacking", "waiting"] {
        assert!(phases[phase]["count"].as_u64().unwrap() > 10, "{phase} in {report}");
        assert!(phases[phase]["time_us"].as_f64().unwrap() > 0.0, "{phase} in {report}");
    }
    // The rows that both ranks send and receive: of 16 cells of 8 bytes, and the corners.
    assert!(phases["wire"]["bytes"].as_u64().unwrap() > 10 * 16 * 8, "{report}");
    assert_eq!((&report["hidden"], &report["failed"]), (&json!(0.0), &json!(0)), "{report}");

    for (file, found) in [("no/such/folder/t.json", "No such file"), (".", "it is a folder")] {
        let line = bench.refusal(&format!("{small} --trace {file}"));
        assert!(line.starts_with("--trace: expected a file that can be written"), "{line}");
        assert!(line.contains(found), "{line}");
    }
}

#[test]
fn jobs_write_their_time_lines() {
    for (job, options) in [
        ("run tsunami", "--refine 1 --hours 0.02 --device cpu"),
        ("run advection", "--mesh icon:R2B2 --days 0.5 --device cpu"),
    ] {
        let (run, trace) = (Haloport::new(job), Haloport::new("trace"));
        run.json(&format!("{options} --ranks 2 --trace t.json"));
        let report = trace.json(&format!("summary {}", run.path("t.json").display()));
        assert_eq!(report["ranks"].as_array().unwrap().len(), 2, "{report}");
        for phase in ["kernel", "wire", "unpacking", "waiting"] {
            assert!(report["phases"][phase]["count"].as_u64().unwrap() > 0, "{job}: {phase} in {report}");
        }
        assert!(report["hidden"].is_number() && report["dropped"] == 0, "{report}");
        let line = refusal(&run.run(&format!("{options} --ranks 2 --trace no/such/folder/t.json")), 2);
        assert!(line.starts_with("--trace: expected a file that can be written"), "{line}");
    }
}
