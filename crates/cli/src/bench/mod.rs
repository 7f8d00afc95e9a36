//! `haloport bench`: measurements.
//!
//! - `block`: the fields;
//! - `contestant`: what is timed and how, and `results`: what comes out;
//! - `exchange` and `unstructured`: the benchmarks, with their contestants;
//! - `handover`: how far apart the cores are, and so what an exchange cannot do without;
//! - `scaling`: what thousands of simulated ranks send and hold;
//! - `raw_send` and `persistent`: messages of the transport and of MPI, for both.

mod block;
mod contestant;
mod exchange;
mod handover;
mod library;
#[cfg(feature = "mpi")]
mod persistent;
mod raw_send;
mod results;
mod scaling;
mod unstructured;

use clap::Subcommand;

use crate::command::failure::Failure;

/// What can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Time the halo exchange beside plain copies of the same cells and raw sends of the same bytes, alternating.
    Exchange(exchange::ExchangeArgs),
    /// Time the exchange of an unstructured field beside messages packed by hand, and making its pattern.
    Unstructured(unstructured::UnstructuredArgs),
    /// Set up exchanges on thousands of simulated ranks, and count what each of them sends and holds.
    Scaling(scaling::ScalingArgs),
}

/// Measures.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(command: &BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Exchange(args) => exchange::run(args),
        BenchCommand::Unstructured(args) => unstructured::run(args),
        BenchCommand::Scaling(args) => scaling::run(args),
    }
}
