//! `haloport trace`: what a time line says, and `--trace`, which writes one.
//!
//! - `record`: the option, for commands that run on ranks;
//! - `read`: the file, checked;
//! - `intervals`: what several spans cover together;
//! - `steps`: which parts of a time line are steps;
//! - `summary`: the exposed wait of each step, the time of each phase and of each kernel, as `figures` has them;
//! - `window`: which part of a time line is drawn, and `plot`: the picture.

mod figures;
mod intervals;
mod plot;
mod read;
mod record;
mod steps;
mod summary;
pub mod time_line;
mod window;

use clap::Subcommand;

pub(crate) use record::TraceArgs;

use crate::command::failure::Failure;

/// What can be done with a time line.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Print how long each step waits for communication that no kernel hides, and the times of phases and kernels
    Summary(summary::SummaryArgs),
    /// Draw some of it.
    Plot(plot::PlotArgs),
}

/// Looks at a time line.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(command: &TraceCommand) -> Result<(), Failure> {
    match command {
        TraceCommand::Summary(args) => summary::run(args),
        TraceCommand::Plot(args) => plot::run(args),
    }
}
