//! `haloport run`: jobs, and what they share: files, checks, the progress bar and numbers as text.

mod check;
mod files;
mod progress;
mod text;
mod tsunami;

use clap::Subcommand;

use crate::failure::Failure;

/// What can be run.
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Simulate a tsunami in the Salish Sea: shallow water on real relief.
    Tsunami(tsunami::TsunamiArgs),
}

/// Runs a job.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(command: &RunCommand) -> Result<(), Failure> {
    match command {
        RunCommand::Tsunami(args) => tsunami::run(args),
    }
}
