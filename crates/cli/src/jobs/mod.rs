//! `haloport run`: for each job its arguments, inputs, checks and report. What the jobs compute and draw is in
//! `haloport_demos`.

mod advection;
mod common;
mod poisson;
mod rolling;
mod tsunami;

use clap::Subcommand;

use crate::command::failure::{Failure, run_failures};

/// The jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Compute rolling means by time window over a sorted table, on ranks that own consecutive rows.
    Rolling(rolling::RollingArgs),
    /// Carry a tracer round the sphere on an icosahedral mesh, and compare it with the exact solution.
    Advection(advection::AdvectionArgs),
    /// Solve Poisson's equation on the sphere by finite elements, and compare it with the exact solution.
    Poisson(poisson::PoissonArgs),
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
        RunCommand::Poisson(args) => poisson::run(args),
        RunCommand::Tsunami(args) => tsunami::run(args),
    }
}

run_failures!(
    haloport_demos::advection::picture::PictureError,
    haloport_demos::tsunami::model::gauges::GaugeError,
    haloport_demos::tsunami::picture::PictureError,
    haloport_mesh::PartitionError,
    png::EncodingError,
);
