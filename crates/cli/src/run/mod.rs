//! `haloport run`: jobs, and what they share: files, checks, the progress bar and numbers as text.

mod advection;
mod check;
pub(crate) mod files;
mod progress;
mod rolling;
pub(crate) mod text;
mod tsunami;

use clap::Subcommand;

use crate::failure::Failure;

/// What can be run.
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Take rolling means by time window over a sorted table, on ranks that own consecutive rows.
    Rolling(rolling::RollingArgs),
    /// Carry a tracer once round the sphere on an icosahedral mesh, and compare it with the exact solution.
    Advection(advection::AdvectionArgs),
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
        RunCommand::Advection(args) => advection::run(args),
        RunCommand::Tsunami(args) => tsunami::run(args),
    }
}
