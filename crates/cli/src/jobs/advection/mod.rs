//! `haloport run advection`: a tracer carried round the sphere.
//!
//! The model is `haloport_demos`. Read in this order:
//! - this file: from the arguments to the report;
//! - `args`: the command line, and `problem`: the inputs, checked, before any rank is started;
//! - `carry`: a run from the first day to the last, measured;
//! - `order`: the errors over two refinements;
//! - `verify`: the checks of `--verify`;
//! - `report`: the printed results.

mod args;
mod carry;
mod order;
mod problem;
mod report;
mod verify;

use std::time::Instant;

use haloport::Communicator;
use haloport::device::Device;

pub(crate) use args::AdvectionArgs;

use crate::command::failure::Failure;
use crate::command::launch::{launched_by, on_ranks, ranks_here};
use crate::command::print::Report as _;
use crate::jobs::common::checks::conclude;
use crate::jobs::common::folder::Folder;
use crate::jobs::common::inputs::{Inputs, shared};
use crate::jobs::common::progress::Progress;
use carry::{Files, Measured, carry_and_measure};
use haloport_demos::advection::model::norms::Level;
use haloport_demos::advection::picture::{Snapshot, globes};
use problem::{DAY, Problem};
use report::Report;

/// The quarters of the run that the picture shows.
const SHOWN: [usize; 4] = [0, 1, 2, 4];

/// Runs the job and prints its report.
///
/// # Errors
/// [`Failure::BadInput`] before anything is computed or written, [`Failure::Run`] if the run or a check fails.
pub(crate) fn run(args: &AdvectionArgs) -> Result<(), Failure> {
    let device = args.device.open()?;
    let inputs = Inputs::new();
    let problem = || shared(&inputs, || Problem::new(args, &device));
    // If ranks are threads, bad input is reported before any is started.
    if launched_by().is_none() {
        let ranks = args.ranks.asked();
        problem().and_then(|problem| ranks.map_or(Ok(()), |ranks| problem.partition(ranks).map(|_| ())))?;
    }
    let ended = on_ranks(&args.ranks, |comm| on_rank(&comm, &device, args, problem()?))?;
    // A process without rank 0 prints nothing.
    let Some((mut report, measured)) = ended else { return Ok(()) };
    if let (Some(checks), true) = (&mut report.checks, report.in_process) {
        let (case, progress) = (&problem()?.case, Progress::steps(!args.json));
        checks.push(verify::same_fields_on_any_ranks(&device, case, &measured.field, &progress)?);
    }
    report.print(args.json)?;
    report.checks.as_deref().map_or(Ok(()), conclude)
}

/// Runs the job on one rank. The results of rank 0 count.
fn on_rank<D: Device>(
    comm: &Communicator,
    device: &D,
    args: &AdvectionArgs,
    problem: &Problem,
) -> Result<(Report, Measured), Failure> {
    let partition = problem.partition(comm.size())?;
    let folder = Folder::agree(comm, &args.out)?;
    args.trace.begin(comm)?;
    let case = &problem.case;
    let began = Instant::now();
    let shown = problem.show_progress && comm.rank() == 0;
    let progress = Progress::simulated(case.days * DAY, "advection", shown);
    let mut snapshots = Vec::new();
    let files = Files {
        restart: problem.restart.as_ref(),
        save: problem.files.save.as_deref().map(|folder| (folder, &problem.run)),
        writers: problem.files.writers,
    };
    let (carried, measured) =
        carry_and_measure(comm, device, case, partition, &files, &progress, |quarter, days, field| {
            if SHOWN.contains(&quarter) {
                let first = Level { field, levels: case.tracer.levels, level: 0 };
                snapshots.push(Snapshot { days, values: first.values().collect() });
            }
        })?;
    drop(progress);
    args.trace.write(comm)?;
    let picture = if comm.rank() == 0 {
        let note = report::note(args, case, comm.size(), &measured);
        let picture = globes(&case.mesh, partition, &case.tracer, &snapshots, &note)?;
        folder.write("globe.png", &picture.png()?)?
    } else {
        args.out.clone()
    };
    let ladder = order::ladder(comm, device, problem, measured.first_norms)?;
    let in_process = ranks_here(comm) == comm.size();
    let checks = if args.verify {
        let mut checks = verify::of_the_run(case, &measured, &ladder);
        if !device.info().runs_on_host() {
            checks.push(verify::same_field_as_on_cpu(comm, device, case, partition)?);
        }
        if !in_process {
            checks.push(verify::same_field_as_one_rank(comm, device, case, &measured.field)?);
        }
        Some(checks)
    } else {
        None
    };
    let mut report = Report::new(args, problem, partition, device.info(), comm, &carried, &measured);
    report.ladder = ladder;
    report.picture = picture;
    report.checks = checks;
    report.in_process = in_process;
    report.performance.wall_s = began.elapsed().as_secs_f64();
    Ok((report, measured))
}
