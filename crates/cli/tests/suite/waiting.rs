//! The options and variables that limit how long ranks wait for each other.

use crate::common::{Haloport, refusal};

#[test]
fn limits_of_waiting_are_options_and_those_that_mean_nothing_are_refused() {
    let bench = Haloport::new("bench exchange");
    for option in ["--time-limit", "--warn-after"] {
        for value in ["soon", "0", "-1"] {
            let line = bench.refusal(&format!("{option}={value}"));
            assert!(line.contains(option) && line.contains("expected a number of seconds above 0"), "{line}");
        }
    }
    bench.out("--local 4,4 --samples 1 --ranks 2 --time-limit 90 --warn-after none");
}

#[test]
fn variables_that_mean_nothing_are_errors_that_name_them() {
    let bench = Haloport::new("bench exchange");
    for variable in ["HALOPORT_TIME_LIMIT", "HALOPORT_WARN_AFTER"] {
        let output =
            bench.command("--local 4,4 --samples 1 --ranks 2").env(variable, "soon").output().unwrap();
        let line = refusal(&output, output.status.code().unwrap());
        assert!(!output.status.success() && line.contains(variable) && line.contains("`soon`"), "{line}");
    }
}
