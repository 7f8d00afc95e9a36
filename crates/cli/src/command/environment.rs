//! The environment variables that the command reads: their texts in `--help`, and checks of their values.

use std::env;
use std::ffi::OsStr;
use std::path::Path;

use crate::command::failure::Failure;
use crate::command::time_limits::{LIMITS, Limit};

/// A variable.
struct Variable {
    name: &'static str,
    /// Its text in `--help`.
    help: &'static str,
    /// Returns the expected values if a value is wrong.
    check: fn(&OsStr) -> Result<(), String>,
}

/// All variables. `logs`, which reads `RUST_LOG`, checks it.
const VARIABLES: [Variable; 12] = [
    Variable {
        name: "HALOPORT_CACHE_DIR",
        help: "Folder for compiled kernels [default: $XDG_CACHE_HOME/haloport/kernels, or \
               ~/.cache/haloport/kernels]; empty for none",
        check: |value| {
            let path = Path::new(value);
            let is_other = path.symlink_metadata().is_ok_and(|found| !found.is_dir());
            refuse_if(is_other, "a folder, or nothing to keep no kernels on disk")
        },
    },
    Variable {
        name: "HALOPORT_CUDA_SHARE",
        help: "Handles by which processes share memory of CUDA devices: fabric, fd or ipc [default: the first that the \
               driver offers]",
        check: |value| {
            let known = ["", "fabric", "fd", "ipc"].map(OsStr::new);
            refuse_if(!known.contains(&value), "fabric, fd or ipc")
        },
    },
    Variable {
        name: "HALOPORT_MPI",
        help: "File or name of the MPI library [default: the one that is found, that of the launcher first]",
        // Only commands that need MPI look for it, and say what they found.
        check: |_| Ok(()),
    },
    Variable {
        name: "HALOPORT_MPI_CUDA",
        help: "Whether the MPI library takes memory of CUDA devices, 1 or 0 [default: the answer of the library]",
        check: |value| refuse_if(!["", "0", "1"].map(OsStr::new).contains(&value), "0 or 1"),
    },
    Variable {
        name: "HALOPORT_NCCL",
        help: "Files of NCCL to try first, separated by `:`",
        check: check_files,
    },
    Variable {
        name: "HALOPORT_NVRTC",
        help: "Files of NVRTC to try first, separated by `:`",
        check: check_files,
    },
    Variable {
        name: "HALOPORT_SYCL_SHIM",
        help: "Folder of Haloport's library for libsycl, or its file [default: beside this program]",
        // Only devices of Level Zero need it, and say what was looked for.
        check: |_| Ok(()),
    },
    Variable {
        name: "HALOPORT_TIME_LIMIT",
        help: "Seconds that a rank waits for others before it ends with an error, or none [default: 1800]",
        check: check_limit,
    },
    Variable {
        name: "HALOPORT_WARN_AFTER",
        help: "Seconds that a rank waits for others before it warns, or none [default: 60]",
        check: check_limit,
    },
    Variable { name: "NO_COLOR", help: "If set, write nothing in colour", check: |_| Ok(()) },
    Variable {
        name: "RAYON_NUM_THREADS",
        help: "Threads of the CPU device that `devices` lists [default: one for each core; one for each of several \
               processes of a node]; jobs and benchmarks take one for each rank, or `--device cpu:threads=N`",
        check: |_| Ok(()),
    },
    Variable {
        name: "RUST_LOG",
        help: "Log lines on standard error: off, error, warn, info, debug or trace [default: warn], or such \
               levels of parts of the program (warn,haloport_core=debug)",
        check: |_| Ok(()),
    },
];

/// Refuses wrong values.
///
/// # Errors
/// [`Failure::BadInput`], which names the variable, its value and the expected values.
pub(crate) fn check() -> Result<(), Failure> {
    for Variable { name, check, .. } in &VARIABLES {
        let Some(value) = env::var_os(name).filter(|value| !value.is_empty()) else { continue };
        check(&value).map_err(|expected| {
            Failure::BadInput(format!("{name}: expected {expected}, found `{}`", value.display()))
        })?;
    }
    Ok(())
}

/// Returns the section of `--help`.
pub(crate) fn help() -> String {
    let lines = VARIABLES.iter().map(|Variable { name, help, .. }| format!("\n  {name}\n          {help}"));
    lines.fold("Environment:".into(), |text, line| text + &line)
}

fn check_files(value: &OsStr) -> Result<(), String> {
    // The system's loader looks for a name without a folder.
    let value = value.to_string_lossy();
    let missing = value.split(':').any(|name| name.contains('/') && !Path::new(name).is_file());
    refuse_if(missing, "files that exist, separated by `:`")
}

fn check_limit(value: &OsStr) -> Result<(), String> {
    let limit = value.to_str().and_then(|value| value.parse::<Limit>().ok());
    refuse_if(limit.is_none(), LIMITS)
}

fn refuse_if(is_wrong: bool, expected: &str) -> Result<(), String> {
    if is_wrong { Err(expected.into()) } else { Ok(()) }
}
