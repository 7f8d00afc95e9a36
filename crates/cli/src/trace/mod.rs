//! `haloport trace`: what a time line says, and `--trace`, which writes one.
//!
//! - `record`: the option, for commands that run on ranks;
//! - `read`: the file, checked;
//! - `intervals`: what several spans cover together;
//! - `summary`: the time of each phase, and how much of the communication was hidden;
//! - `window`: which part of a time line is drawn, and `plot`: the picture.

mod intervals;
mod plot;
mod read;
mod record;
mod summary;
mod window;

use clap::Subcommand;

pub(crate) use record::TraceArgs;

use crate::failure::Failure;

/// What can be done with a time line.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Print the time, the number and the bytes of each phase, and how much of the communication was hidden behind kernels.
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
