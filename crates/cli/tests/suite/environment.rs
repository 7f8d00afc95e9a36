//! The environment of the command: variables, limits of memory, pipes that close, terminals.

use std::process::{Command, Stdio};

use crate::common::{Haloport, refusal};

#[test]
fn broken_values_of_variables_are_refused() {
    let devices = Haloport::new("devices");
    std::fs::write(devices.path("file"), "").unwrap();
    for (name, value, expected) in [
        ("RUST_LOG", "warning", "expected off, error, warn, info, debug or trace, or such levels of parts"),
        (
            "RUST_LOG",
            "haloport=loud",
            "expected off, error, warn, info, debug or trace, or such levels of parts",
        ),
        ("HALOPORT_CACHE_DIR", "file", "expected a folder, or nothing to keep no kernels on disk"),
        ("HALOPORT_CUDA_SHARE", "shm", "expected fabric, fd or ipc"),
        ("HALOPORT_MPI_CUDA", "yes", "expected 0 or 1"),
        ("HALOPORT_NCCL", "no/libnccl.so.2", "expected files that exist, separated by `:`"),
        ("HALOPORT_NVRTC", "no/libnvrtc.so", "expected files that exist, separated by `:`"),
    ] {
        let line = refusal(&devices.command("--json").env(name, value).output().unwrap(), 2);
        assert!(line.starts_with(&format!("{name}: {expected}")), "{line}");
        assert!(line.contains(&format!("found `{value}`")), "{line}");
        let empty = devices.command("").env(name, "").output().unwrap();
        assert!(empty.status.success(), "{name}= is the default");
    }
}

/// With one process on the node, the number is that of the cores.
#[test]
fn processes_that_share_a_node_have_one_thread_each() {
    let devices = Haloport::new("devices");
    let threads = |variables: &[(&str, &str)]| {
        let mut command = devices.command("--json");
        command.env_remove("RAYON_NUM_THREADS").envs(variables.iter().copied());
        let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let (_, threads) = out.split_once("rayon, ").unwrap();
        threads.split_once(" threads").unwrap().0.parse::<usize>().unwrap()
    };
    assert_eq!(threads(&[("MPI_LOCALNRANKS", "2")]), 1);
    assert_eq!(threads(&[("MPI_LOCALNRANKS", "1")]), std::thread::available_parallelism().unwrap().get());
    assert_eq!(threads(&[("MPI_LOCALNRANKS", "2"), ("RAYON_NUM_THREADS", "3")]), 3);
}

/// A number of ranks, and the arguments of a run that makes the command warn.
fn more_ranks_than_cores() -> (usize, String) {
    let ranks = 1 + std::thread::available_parallelism().unwrap().get();
    (ranks, format!("--local 4 --samples 1 --ranks {ranks}"))
}

#[test]
fn warnings_are_sentences_without_escapes() {
    let bench = Haloport::new("bench exchange");
    let (many, arguments) = more_ranks_than_cores();
    let output = bench.command(&arguments).env_remove("RUST_LOG").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let expected = "warning: there are more ranks than cores: they take turns, and times say little";
    assert_eq!(err, format!("{expected}; ranks: {many}; cores: {}\n", many - 1));
}

#[cfg(unix)]
#[test]
fn a_terminal_is_sent_escapes_unless_it_cannot_show_them() {
    use crate::common::terminal::shown;
    let bench = Haloport::new("bench exchange");
    let warned = |variables: &[(&str, &str)]| {
        let mut command = bench.command(&more_ranks_than_cores().1);
        command.env_remove("RUST_LOG").env_remove("NO_COLOR").envs(variables.iter().copied());
        shown(command.stdout(Stdio::null()), "cores: ")
    };
    let in_colour = warned(&[("TERM", "xterm")]);
    assert!(in_colour.contains("\u{1b}[33m") && in_colour.contains("warning"), "{in_colour:?}");
    for plain in [[("TERM", "dumb"), ("LANG", "C")], [("TERM", "xterm"), ("NO_COLOR", "1")]] {
        let text = warned(&plain);
        assert!(text.starts_with("warning: ") && !text.contains('\u{1b}'), "{text:?}");
    }
}

/// A shell that sets limits before it becomes the command.
#[cfg(target_os = "linux")]
fn under_limit(haloport: &Haloport, limit: &str, arguments: &str) -> std::process::Output {
    let direct = haloport.command(arguments);
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(format!("{limit}; exec \"$0\" \"$@\""))
        .arg(direct.get_program())
        .args(direct.get_args());
    for (name, value) in direct.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(direct.get_current_dir().unwrap()).output().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn limits_of_the_process_count_as_memory() {
    for (limit, told) in [
        ("ulimit -v 2000000", "of address space that its limit (ulimit -v) leaves this process"),
        ("ulimit -d 1000000", "of data that its limit (ulimit -d) leaves this process"),
    ] {
        for (subcommand, arguments) in [
            ("bench exchange", "--local 700,700,700 --ranks 1"),
            ("run tsunami", "--refine 60 --ranks 1"),
            ("bench unstructured", "--levels 4000 --ranks 2"),
            ("run advection", "--mesh icon:R2B9 --ranks 1"),
            ("mesh info", "icosahedral:2000"),
        ] {
            let haloport = Haloport::new(subcommand);
            let line = refusal(&under_limit(&haloport, limit, arguments), 2);
            assert!(line.contains(told), "{subcommand}: {line}");
        }
        let small = under_limit(&Haloport::new("bench exchange"), limit, "--local 8 --ranks 1 --samples 1");
        assert!(small.status.success(), "{}", String::from_utf8_lossy(&small.stderr));
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_that_closes_ends_the_command_quietly() {
    for (subcommand, arguments) in [
        ("devices", ""),
        ("devices", "--json"),
        ("", "--help"),
        ("completions", "bash"),
        ("run tsunami", "--help"),
    ] {
        let mut child = Haloport::new(subcommand)
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{subcommand} {arguments}: {:?}", output.status);
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{subcommand} {arguments}");
    }
    // An error is still an error if its reader has gone.
    let mut child = Haloport::new("bench exchange")
        .command("--ranks 0 --json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Haloport::new("devices").command("").stdout(full).output().unwrap();
    let line = refusal(&output, 1);
    assert!(line.starts_with("cannot write to standard output: No space left on device"), "{line}");
}

#[test]
fn the_mesh_that_comes_with_the_command_needs_no_number_of_ranks() {
    let bench = Haloport::new("bench unstructured");
    assert_eq!(bench.json("--levels 1 --samples 1")["ranks"], 2);
    let line = bench.refusal("--ranks 1");
    assert!(line.ends_with("run it on 2, or give --domains for 1"), "{line}");
}
