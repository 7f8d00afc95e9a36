//! `--help`, completions, and the names of options.

use std::process::Command;

use crate::common::Haloport;

/// Every command that is not a group.
const COMMANDS: [&str; 13] = [
    "devices",
    "bench exchange",
    "bench unstructured",
    "bench transpose",
    "bench overlap",
    "bench scaling",
    "mesh info",
    "mesh partition",
    "run rolling",
    "run advection",
    "run poisson",
    "run tsunami",
    "trace summary",
];

fn help(command: &'static str, columns: &str) -> String {
    let output = Haloport::new(command).command("--help").env("COLUMNS", columns).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{command}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_is_as_wide_as_the_terminal_and_has_examples() {
    for command in COMMANDS {
        for (columns, widest) in [("60", 60), ("70", 70), ("300", 100)] {
            let text = help(command, columns);
            let (options, examples) =
                text.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{command}: {text}"));
            let long = options.lines().find(|line| line.chars().count() > widest);
            // A name with its value is never broken.
            assert!(
                long.is_none_or(|line| line.trim().starts_with('-')),
                "{command}, {columns} columns: {long:?}"
            );
            assert!(examples.trim().starts_with(&format!("haloport {command}")), "{command}: {examples}");
        }
    }
}

#[test]
fn examples_are_understood() {
    for command in COMMANDS {
        let text = help(command, "300");
        let (_, examples) = text.split_once("\nExamples:\n").unwrap();
        for example in examples.lines().map(str::trim).filter(|line| line.starts_with("haloport ")) {
            // An unknown word after known arguments, since clap reads from the left.
            let arguments = example.trim_start_matches("haloport ").replace(" --help", "");
            let line = Haloport::new("").refusal(&format!("{arguments} --no-such-option"));
            assert!(line.contains("unexpected argument '--no-such-option'"), "{example}: {line}");
        }
    }
}

#[test]
fn variables_are_in_the_help_of_the_command() {
    let text = help("", "100");
    let (_, environment) = text.split_once("\nEnvironment:\n").unwrap();
    for variable in [
        "HALOPORT_CACHE_DIR",
        "HALOPORT_CUDA_SHARE",
        "HALOPORT_MPI\n",
        "HALOPORT_MPI_CUDA",
        "HALOPORT_NCCL",
        "HALOPORT_NVRTC",
        "HALOPORT_TIME_LIMIT",
        "HALOPORT_WARN_AFTER",
        "NO_COLOR",
        "RAYON_NUM_THREADS",
        "RUST_LOG",
    ] {
        assert!(environment.contains(variable), "{variable} in {environment}");
    }
    assert!(text.contains("\nExamples:\n"), "{text}");
}

#[test]
fn one_thing_has_one_name() {
    for command in COMMANDS {
        let text = help(command, "300");
        for other in ["--output", "--plot ", "--method"] {
            assert!(!text.contains(other), "{command} has {other}");
        }
        if text.contains("--ranks <R>") {
            assert!(text.contains("at most 65536"), "{command}");
        }
    }
    for arguments in
        ["bench exchange --ranks 65537", "bench scaling --ranks 4,65537", "run rolling --ranks 0"]
    {
        let line = Haloport::new("").refusal(arguments);
        assert!(line.contains("expected 1 to 65536 ranks; found `"), "{arguments}: {line}");
    }
}

#[test]
fn shells_complete_commands_and_options() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = Haloport::new("completions").out(shell);
        assert!(script.contains("tsunami") && script.contains("bathymetry"), "{shell}: {script}");
    }
    assert!(Haloport::new("completions").refusal("csh").contains("bash, elvish, fish, powershell, zsh"));

    let script = Haloport::new("completions").out("bash");
    let asked =
        "COMP_WORDS=(haloport run ts); COMP_CWORD=2; _haloport haloport ts run; echo \"${COMPREPLY[@]}\"";
    match Command::new("bash").arg("-c").arg(format!("{script}\n{asked}")).output() {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "tsunami\n"),
        Err(error) => eprintln!("skipped: bash cannot be asked: {error}"),
    }
}
