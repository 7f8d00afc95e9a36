//! `haloport bench`: measurements.

mod exchange;

use clap::Subcommand;

use crate::failure::Failure;

/// What can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Time the halo exchange beside plain copies of the same cells and raw sends of the same bytes, alternating.
    Exchange(exchange::ExchangeArgs),
}

/// Measures.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(command: &BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Exchange(args) => exchange::run(args),
    }
}
