//! `haloport bench transpose`: the time to move a grid from parts along its first axis to parts along its second, as
//! spectral methods do, beside one pass of plain copies.
//!
//! - `args`: the command line, and `problem`: the grid, the fields and their values;
//! - here: the contestants of one rank, checked and then measured;
//! - `one_pass`: the lower bound;
//! - `report`: the printed results.

mod args;
mod one_pass;
mod problem;
mod report;

use haloport::device::Device;
use haloport::exchange::SourceTarget;
use haloport::{BindOptions, Communicator, Exchange, Field};

pub(crate) use args::TransposeArgs;

use super::block::FieldMemory;
use super::boundary::Boundary;
use super::contestant::{Contestant, Entry, measure};
use super::exchange::SharedFields;
use crate::command::failure::Failure;
use crate::command::launch::{on_ranks, ranks_here};
use crate::command::memory::{gib, room};
use crate::command::print::Report as _;
use one_pass::OnePassCopy;
use problem::{Pairs, Problem, check, fill};
use report::Report;

/// Checks and measures all contestants, and prints the results.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(args: &TransposeArgs) -> Result<(), Failure> {
    let device = args.device.open()?;
    let shared = SharedFields::default();
    let report = on_ranks(&args.ranks, |comm| on_rank(&comm, &device, args, &shared));
    report?.map_or(Ok(()), |report| report.print(args.json))
}

fn on_rank<D: Device>(
    comm: &Communicator,
    device: &D,
    args: &TransposeArgs,
    shared: &SharedFields,
) -> Result<Report, Failure> {
    if args.memory.memory == FieldMemory::Caller {
        return Err(Failure::BadInput("--memory: expected node-shared or private, found caller".into()));
    }
    let cells = args.cells.0.iter().try_fold(1_usize, |all, &cells| all.checked_mul(cells));
    let bytes = cells.and_then(|cells| cells.checked_mul(args.fields * size_of::<f64>()));
    let bytes = bytes.ok_or_else(|| Failure::BadInput("--cells: the grid is too large".into()))?;
    // Two contestants, each with a source and a target.
    let needed = 4 * bytes as u128 * ranks_here(comm) as u128 / comm.size() as u128;
    if let Some(room) = room(device.info()).filter(|room| room.is_below(needed)) {
        return Err(Failure::BadInput(format!(
            "the fields need {:.1} GiB, and there are {room}: choose smaller --cells or --fields",
            gib(needed)
        )));
    }
    let problem = Problem::new(comm, args)?;
    let field = |end: usize| args.memory.build(Field::builder(&problem.patterns[end]), device);
    let (mut pairs, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..args.fields {
        pairs.push(SourceTarget { source: field(0)?, target: field(1)? });
        plain.push(SourceTarget { source: field(0)?, target: field(1)? });
    }
    fill(&mut pairs)?;
    fill(&mut plain)?;
    let redistribution = problem.patterns[0].redistribute(&problem.patterns[1])?;
    let exchange = redistribution.bind_with(pairs, BindOptions::default().path(args.memory.path))?;
    let (traffic, choice) = (exchange.traffic(), *exchange.choice());
    let one_pass = match device.info().host_accessible {
        true => Some(OnePassCopy::new(&problem, comm, plain, shared)?),
        false => None,
    };
    let mut entries = vec![
        Entry::new("haloport", Some(Box::new(Transpose(exchange)))),
        Entry::new("one_pass_copy", one_pass.map(|it| Box::new(it) as _)),
    ];
    for entry in &mut entries {
        entry.verify()?;
    }
    let results = measure(comm, &mut entries, args.samples, Boundary::Unchanged)?;
    let moved = bytes / comm.size();
    Ok(Report::new(args, &problem.patterns[1], device.info(), (traffic, choice), &results, moved))
}

/// The contestant under test.
struct Transpose<D: Device>(Exchange<Pairs<D>>);

impl<D: Device> Contestant for Transpose<D> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        Ok((0..batch).try_for_each(|_| self.0.run_blocking())?)
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)?;
        check(self.0.fields(), "haloport")
    }
}
