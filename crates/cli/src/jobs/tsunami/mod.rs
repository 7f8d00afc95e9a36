//! `haloport run tsunami`: the shallow-water equations on real relief.
//!
//! The model is `haloport_demos`. Read in this order:
//! - this file: from the arguments to the report;
//! - `args`: the command line, and `problem`: the inputs, checked, before any rank is started;
//! - `job`: the run on one rank, its pictures and its tide gauges;
//! - `tides`: the records of the gauges;
//! - `verify`: the checks of `--verify`;
//! - `report`: the printed results.

mod args;
mod job;
mod problem;
mod report;
mod tides;
mod verify;

use haloport::device::Device;
use haloport::{AnyDevice, Communicator};

pub(crate) use args::TsunamiArgs;

use crate::command::failure::Failure;
use crate::command::launch::{launched_by, on_ranks, ranks_here};
use crate::command::print::Report as _;
use crate::jobs::common::checks::{Check, conclude};
use crate::jobs::common::folder::Folder;
use crate::jobs::common::inputs::{Inputs, shared};
use crate::jobs::common::progress::Progress;
use problem::Problem;
use report::Report;

/// Runs the job and prints its report.
///
/// # Errors
/// [`Failure::BadInput`] before anything is computed or written, [`Failure::Run`] if the run or a check fails.
pub(crate) fn run(args: &TsunamiArgs) -> Result<(), Failure> {
    let device = args.device.open()?;
    let inputs = Inputs::new();
    let problem = || shared(&inputs, || Problem::new(args, &device));
    // If ranks are threads, bad input is reported before any is started. Processes read the input later, when they
    // know that rank 0 reports for all.
    if launched_by().is_none() {
        let ranks = args.ranks.asked();
        problem().and_then(|problem| ranks.map_or(Ok(()), |ranks| problem.check_ranks(ranks)))?;
    }
    let report = on_ranks(&args.ranks, |comm| on_rank(&comm, &device, args, problem()?))?;
    // A process without rank 0 prints nothing.
    let Some(mut report) = report else { return Ok(()) };
    if let (Some(checks), true) = (&mut report.checks, report.in_process) {
        checks.push(with_same_fields_here(&device, problem()?, args)?);
    }
    report.print(args.json)?;
    report.checks.as_deref().map_or(Ok(()), conclude)
}

/// Runs the job on one rank. The report of rank 0 counts.
fn on_rank<D: Device>(
    comm: &Communicator,
    device: &D,
    args: &TsunamiArgs,
    problem: &Problem,
) -> Result<Report, Failure> {
    problem.check_ranks(comm.size())?;
    let folder = Folder::agree(comm, &args.out)?;
    args.trace.begin(comm)?;
    let done = job::run(comm, device, problem, &folder)?;
    args.trace.write(comm)?;
    let in_process = ranks_here(comm) == comm.size();
    let checks = if args.verify {
        let mut checks = done.checks();
        checks.push(verify::lake_at_rest(comm, device, problem)?);
        if !device.info().runs_on_host() {
            checks.push(verify::same_fields_as_on_cpu(comm, device, problem)?);
        }
        if !in_process {
            checks.push(verify::same_fields_as_one_rank(comm, device, problem)?);
        }
        Some(checks)
    } else {
        None
    };
    Ok(Report::new(args, problem, device.info(), comm, done, in_process, checks))
}

/// The check on several numbers of ranks, as threads, after the job's ranks have ended.
fn with_same_fields_here(
    device: &AnyDevice,
    problem: &Problem,
    args: &TsunamiArgs,
) -> Result<Check, Failure> {
    let progress = Progress::steps(!args.json);
    verify::same_fields_on_any_ranks(device, problem, &progress)
}
