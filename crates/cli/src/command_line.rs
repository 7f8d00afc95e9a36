//! The command line of `haloport`: its subcommands.
//!
//! The command ends with 0 if all went well, 1 if a check or a run failed, and 2 for bad input. With `--json`, stdout
//! is exactly one JSON object, `{"error": "…"}` if there are no results; logs go to stderr, chosen by `RUST_LOG`.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::command::failure::Failure;
use crate::command::{environment, logs};
use crate::{bench, completions, devices, jobs, mesh, trace};

/// Halo exchange for distributed fields: devices, jobs and benchmarks.
#[derive(Debug, Parser)]
#[command(name = "haloport", version, max_term_width = 100, after_help = after_help())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the backends, devices and transports, how ranks exchange halos, and why any of it is missing.
    Devices(devices::DevicesArgs),
    /// Run a benchmark.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Measure an unstructured mesh, and cut it into parts.
    #[command(subcommand)]
    Mesh(mesh::MeshCommand),
    /// Run a job.
    #[command(subcommand)]
    Run(jobs::RunCommand),
    /// Read the time line that a command has written with --trace.
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Print the completion script of a shell.
    Completions(completions::CompletionsArgs),
}

const EXAMPLES: &str = "\
Examples:
  haloport devices
  haloport run tsunami --hours 1 --out here
  haloport bench exchange --local 64,64,64 --ranks 2 --json
  haloport mesh partition icon:R2B4 --parts 8";

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{}", environment::help())
}

/// Runs the command with the arguments of this process, and returns its exit code.
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run() -> Result<(), Failure> {
    let Cli { command } = Cli::try_parse()?;
    environment::check()?;
    logs::start()?;
    match command {
        Command::Devices(args) => devices::run(&args),
        Command::Bench(command) => bench::run(&command),
        Command::Mesh(command) => mesh::run(&command),
        Command::Run(command) => jobs::run(&command),
        Command::Trace(command) => trace::run(&command),
        Command::Completions(args) => completions::run(&args, &mut Cli::command()),
    }
}
