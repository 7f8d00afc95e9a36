//! `haloport bench`: measurements.
//!
//! - `block`: the fields;
//! - `contestant`: what is timed and how, and `results`: what comes out;
//! - `exchange` and `unstructured`: the benchmarks, with their contestants;
//! - `raw_send` and `persistent`: messages of the transport and of MPI, for both.

mod block;
mod contestant;
mod exchange;
#[cfg(feature = "mpi")]
mod persistent;
mod raw_send;
mod results;
mod unstructured;

use clap::Subcommand;

use crate::failure::Failure;

/// What can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Time the halo exchange beside plain copies of the same cells and raw sends of the same bytes, alternating.
    Exchange(exchange::ExchangeArgs),
    /// Time the exchange of an unstructured field beside messages packed by hand, and making its pattern.
    Unstructured(unstructured::UnstructuredArgs),
}

/// Measures.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(command: &BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Exchange(args) => exchange::run(args),
        BenchCommand::Unstructured(args) => unstructured::run(args),
    }
}
