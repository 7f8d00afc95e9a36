//! `haloport run rolling`: rolling means by time window over a sorted table.
//!
//! The computation is `haloport_demos`. Read in this order:
//! - this file: from the arguments to the report;
//! - `args`: the command line, and `problem`: the inputs, checked, before any rank is started;
//! - `job`: the run on one rank;
//! - `verify`: the checks of `--verify`;
//! - `report`: the printed results.

mod args;
mod job;
mod problem;
mod report;
mod verify;

use haloport::Communicator;

pub(crate) use args::RollingArgs;

use crate::command::failure::Failure;
use crate::command::launch::{launched_by, on_ranks, ranks_here};
use crate::command::print::Report as _;
use crate::jobs::common::checks::conclude;
use crate::jobs::common::folder::Folder;
use crate::jobs::common::inputs::{Inputs, shared};
use problem::Problem;
use report::Report;

/// Runs the job and prints its report.
///
/// # Errors
/// [`Failure::BadInput`] before anything is computed or written, [`Failure::Run`] if the run or a check fails.
pub(crate) fn run(args: &RollingArgs) -> Result<(), Failure> {
    let inputs = Inputs::new();
    let problem = || shared(&inputs, || Problem::new(args));
    // If ranks are threads, bad input is reported before any is started. Processes read the input later, when they
    // know that rank 0 reports for all.
    if launched_by().is_none() {
        problem()?;
    }
    let report = on_ranks(&args.ranks, |comm| on_rank(&comm, args, problem()?))?;
    // A process without rank 0 prints nothing.
    let Some(mut report) = report else { return Ok(()) };
    if let (Some(checks), true) = (&mut report.checks, report.in_process) {
        checks.extend(verify::on_any_ranks(problem()?)?);
    }
    report.print(args.json)?;
    report.checks.as_deref().map_or(Ok(()), conclude)
}

/// Runs the job on one rank. The report of rank 0 counts.
fn on_rank(comm: &Communicator, args: &RollingArgs, problem: &Problem) -> Result<Report, Failure> {
    let folder = Folder::agree(comm, &args.out)?;
    let title = format!("Rolling mean over {}", args.window);
    let done = job::run(comm, problem, &title, &folder)?;
    let in_process = ranks_here(comm) == comm.size();
    let checks = match (args.verify, in_process) {
        (false, _) => None,
        // After the ranks have ended.
        (true, true) => Some(Vec::new()),
        (true, false) => Some(verify::as_on_one_rank(comm, problem)?),
    };
    Ok(Report::new(args, problem, comm, done, in_process, checks))
}
