//! `haloport run`: one folder for each job, and what they share.
//!
//! In the folder of a job, `model` computes, `picture` or `chart` draws, and `run` holds the command: arguments,
//! inputs, checks and the report.

pub mod advection;
pub mod common;
pub mod rolling;
pub mod tsunami;

use clap::Subcommand;

use crate::command::failure::{Failure, run_failures};

/// The jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Compute rolling means by time window over a sorted table, on ranks that own consecutive rows.
    Rolling(rolling::RollingArgs),
    /// Carry a tracer round the sphere on an icosahedral mesh, and compare it with the exact solution.
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

run_failures!(
    advection::model::solver::SolverError,
    advection::picture::PictureError,
    tsunami::model::gauges::GaugeError,
    tsunami::model::solver::SolverError,
    tsunami::picture::PictureError,
    haloport_mesh::PartitionError,
    png::EncodingError,
);
