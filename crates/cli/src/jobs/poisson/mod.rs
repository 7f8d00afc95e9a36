//! `haloport run poisson`: Poisson's equation on the sphere, by finite elements on meshes that are each finer than the one before.
//!
//! The equations are `haloport_demos`. Read in this order:
//! - this file: from the arguments to the report;
//! - `args`: the command line, and `problem`: the meshes;
//! - `ladder`: the solutions on all meshes;
//! - `verify`: the checks of `--verify`;
//! - `report`: the printed results.

mod args;
mod ladder;
mod problem;
mod report;
mod verify;

use haloport::Communicator;

pub(crate) use args::PoissonArgs;

use crate::command::failure::Failure;
use crate::command::launch::{launched_by, on_ranks};
use crate::command::print::Report as _;
use crate::jobs::common::checks::conclude;
use crate::jobs::common::inputs::{Inputs, shared};
use problem::Problem;
use report::Report;

/// Runs the job and prints its report.
///
/// # Errors
/// [`Failure::BadInput`] before anything is computed, [`Failure::Run`] if the run or a check fails.
pub(crate) fn run(args: &PoissonArgs) -> Result<(), Failure> {
    let inputs = Inputs::new();
    let problem = || shared(&inputs, || Problem::new(args));
    // If ranks are threads, bad input is reported before any is started.
    if launched_by().is_none() {
        problem()?;
    }
    let report = on_ranks(&args.ranks, |comm| on_rank(&comm, args, problem()?))?;
    // A process without rank 0 prints nothing.
    let Some(report) = report else { return Ok(()) };
    report.print(args.json)?;
    report.checks.as_deref().map_or(Ok(()), conclude)
}

/// Runs the job on one rank. The report of rank 0 counts.
fn on_rank(comm: &Communicator, args: &PoissonArgs, problem: &Problem) -> Result<Report, Failure> {
    let (rungs, values) = ladder::climb(comm, problem)?;
    let checks = args.verify.then(|| verify::checks(comm, problem, &rungs, values)).transpose()?;
    Ok(Report::new(args, comm, rungs, checks))
}
