//! The `haloport` command.
//!
//! It ends with 0 where all went well, 1 where a check or a run failed, and 2 for bad input. With `--json`, stdout is
//! exactly one JSON object; logs go to stderr and are chosen by `RUST_LOG`.

mod bench;
mod devices;
mod failure;
mod launch;
mod mesh;
mod print;
mod run;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use failure::Failure;

/// Halo exchange for distributed fields: what is here, and how fast it is.
#[derive(Debug, Parser)]
#[command(name = "haloport", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the backends, their devices, the transports and how their ranks exchange, and say why any of it is missing.
    Devices(devices::DevicesArgs),
    /// Measure.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Look at an unstructured mesh, and cut it into parts.
    #[command(subcommand)]
    Mesh(mesh::MeshCommand),
    /// Run a job.
    #[command(subcommand)]
    Run(run::RunCommand),
    /// Look at the time line that a command has written with --trace.
    #[command(subcommand)]
    Trace(trace::TraceCommand),
}

fn main() -> ExitCode {
    let logs = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(logs).with_writer(std::io::stderr).init();
    let ended = Cli::try_parse().map_err(Failure::from).and_then(|cli| match cli.command {
        Command::Devices(args) => devices::run(&args),
        Command::Bench(command) => bench::run(&command),
        Command::Mesh(command) => mesh::run(&command),
        Command::Run(command) => run::run(&command),
        Command::Trace(command) => trace::run(&command),
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
