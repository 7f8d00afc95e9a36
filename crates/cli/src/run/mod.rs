//! `haloport run`: jobs.

mod rolling;
mod tsunami;

use clap::Subcommand;

use crate::failure::Failure;

/// What can be run.
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Take rolling means by time window over a sorted table, on ranks that own consecutive rows.
    Rolling(rolling::RollingArgs),
    /// Simulate a tsunami in the Salish Sea: shallow water on real relief.
    Tsunami(tsunami::TsunamiArgs),
}

/// Runs a job.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(command: &RunCommand) -> Result<(), Failure> {
    match command {
        RunCommand::Rolling(args) => rolling::run(args),
        RunCommand::Tsunami(args) => tsunami::run(args),
    }
}
