//! `haloport bench`: measurements.
//!
//! - `block`: the fields, and `boundary`: what is written in them between exchanges;
//! - `contestant`: the measurement, and `results`: the figures of all contestants;
//! - `exchange` and `unstructured`: the benchmarks, with their contestants; `library`: the one of Haloport, for both;
//! - `transpose`: a grid that goes from one split to another;
//! - `overlap`: what work between the start of an exchange and its end hides;
//! - `handover`: the distance of the cores, which limits every exchange;
//! - `scaling`: the messages and memory of thousands of simulated ranks;
//! - `uneven`: work of ranks between the start of an exchange and its end;
//! - `raw_send` and `persistent`: messages of the transport and of MPI, for both benchmarks.

mod block;
mod boundary;
mod contestant;
mod exchange;
mod handover;
mod library;
mod overlap;
#[cfg(feature = "mpi")]
mod persistent;
mod raw_send;
mod results;
mod scaling;
mod transpose;
mod uneven;
mod unstructured;

use clap::Subcommand;

use crate::command::failure::Failure;

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Time the halo exchange, in turns with plain copies of the same cells and raw sends of the same bytes.
    Exchange(exchange::ExchangeArgs),
    /// Time the exchange of an unstructured field, in turns with messages packed by hand; and time making its pattern.
    Unstructured(unstructured::UnstructuredArgs),
    /// Time moving a grid from parts along its first axis to parts along its second, in turns with plain copies.
    Transpose(transpose::TransposeArgs),
    /// Time an exchange, work, and both at once: how much of the exchange the work hides.
    Overlap(overlap::OverlapArgs),
    /// Set up exchanges on thousands of simulated ranks, and count the messages and memory of each.
    Scaling(scaling::ScalingArgs),
}

/// Runs a benchmark.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(command: &BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Exchange(args) => exchange::run(args),
        BenchCommand::Unstructured(args) => unstructured::run(args),
        BenchCommand::Transpose(args) => transpose::run(args),
        BenchCommand::Overlap(args) => overlap::run(args),
        BenchCommand::Scaling(args) => scaling::run(args),
    }
}
