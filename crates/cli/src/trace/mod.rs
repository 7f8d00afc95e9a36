//! `haloport trace`: reads a time line; and `--trace`, which writes one.
//!
//! - `option`: `--trace`, for commands that run on ranks;
//! - `time_line`: the file, checked, and `read`, which opens it;
//! - `intervals`: the time that several spans cover together;
//! - `steps`: the steps of a time line;
//! - `summary`: the exposed wait of each step, the times of phases and kernels, computed in `figures`.

mod figures;
mod intervals;
mod option;
mod read;
mod steps;
mod summary;
pub mod time_line;

use clap::Subcommand;

pub(crate) use option::TraceArgs;

use crate::command::failure::Failure;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Print the wait of each step for communication that no kernel hides, and the times of phases and kernels
    Summary(summary::SummaryArgs),
}

/// Runs a subcommand.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(command: &TraceCommand) -> Result<(), Failure> {
    match command {
        TraceCommand::Summary(args) => summary::run(args),
    }
}
