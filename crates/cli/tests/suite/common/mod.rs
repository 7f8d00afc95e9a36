//! Starts the command as users do.
#![allow(dead_code, reason = "each file of tests is a program of its own and uses a part of this")]

#[cfg(unix)]
pub(crate) mod terminal;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Variables by which launchers of MPI processes show themselves.
const LAUNCHERS: [&str; 5] =
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"];

/// A relief of 15 × 11 cells, on which a driver that computes on the host is fast enough.
pub(crate) const SMALL_RELIEF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/topobathy-small.npz");

/// A subcommand with arguments, which are split at blanks, in an empty folder.
pub(crate) struct Haloport {
    subcommand: &'static str,
    folder: TempDir,
}

impl Haloport {
    pub(crate) fn new(subcommand: &'static str) -> Haloport {
        Haloport { subcommand, folder: tempfile::tempdir().unwrap() }
    }

    /// A file or folder in its working folder.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command before its start, for tests that change its environment.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haloport"));
        command.args(self.subcommand.split_whitespace()).args(arguments.split_whitespace());
        command.current_dir(self.folder.path());
        // Not the warning that there may be more ranks than cores.
        command.env("RUST_LOG", "error");
        LAUNCHERS.iter().for_each(|variable| {
            command.env_remove(variable);
        });
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().expect("the command starts")
    }

    /// The text on stdout of a run that ends well and writes nothing on stderr.
    pub(crate) fn out(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && err.is_empty(), "{arguments}: {err}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The one object that such a run prints with `--json`.
    pub(crate) fn json(&self, arguments: &str) -> Value {
        let out = self.out(&format!("{arguments} --json"));
        let value: Value =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments}: {error}: {out}"));
        assert!(value.is_object(), "{out}");
        value
    }

    /// The one line on stderr of a run that is refused, and leaves no results behind. With `--json` it also stands on
    /// stdout.
    pub(crate) fn refusal(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        let line = refusal(&output, 2);
        assert_eq!(output.stdout.is_empty(), !arguments.contains("--json"), "{arguments}: {line}");
        assert!(!self.path("out").exists(), "{arguments}: a folder was made");
        line
    }
}

/// Runs a job on a device with all its checks, and compares its fields with those of the CPU backend bit by bit.
pub(crate) fn same_as_on_cpu(job: &Haloport, device: &str, arguments: &str) {
    let report = job.json(&format!("{arguments} --device {device} --verify"));
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["ok"] == true), "{arguments}: {checks:?}");
    let cpu = checks.iter().find(|check| check["name"] == "cpu").unwrap();
    assert_eq!(cpu["value"], 0.0, "{arguments}: {cpu}");
    let on_cpu = job.json(&format!("{arguments} --device cpu"));
    assert!(
        on_cpu["hash"].is_string() && report["hash"] == on_cpu["hash"],
        "{arguments}: {report}, {on_cpu}"
    );
}

/// The one line on stderr, without its `error: `, of a run that ended with `code` and printed no results: nothing, or
/// with `--json` the same error.
pub(crate) fn refusal(output: &Output, code: i32) -> String {
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    let line =
        err.trim_end().strip_prefix("error: ").unwrap_or_else(|| panic!("no error: {err}")).to_string();
    if !output.stdout.is_empty() {
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(object, serde_json::json!({ "error": line }));
    }
    line
}

/// Whether there is a picture that is not empty.
pub(crate) fn is_png(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.len() > 10_000)
}
