//! `haloport bench overlap`: how much of an exchange is hidden behind work between its start and its end.
//!
//! - `args`: the command line, `work`: a fixed amount of work, and `network`: one that is simulated;
//! - here: the contestants of one rank, checked and then measured: the exchange alone; the work alone; the exchange and then the
//!   work; and the work between start and end, where the caller makes progress at the end alone, or looks at the exchange between parts of its
//!   work, or the progress thread makes it; and
//!   under MPI persistent messages by hand, without work and with it;
//! - `report`: the printed results.

mod args;
mod network;
mod report;
mod work;

use std::sync::Arc;

use haloport::comm::Progress;
use haloport::device::Device;
use haloport::{Communicator, Exchange, Field, Grid, Halo, Pattern, Split};

pub(crate) use args::OverlapArgs;

use super::block::FieldMemory;
use super::boundary::Boundary;
use super::contestant::{Contestant, Entry, measure};
#[cfg(feature = "mpi")]
use super::exchange::packed::{Messages, Packed};
use super::exchange::{check, fill};
use crate::command::failure::Failure;
use crate::command::launch::{launched_by, on_ranks, ranks_here};
use crate::command::memory::{gib, room};
use crate::command::print::Report as _;
use report::Report;
use work::{STEPS, Work};

/// Checks and measures all contestants, and prints the results.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(args: &OverlapArgs) -> Result<(), Failure> {
    if let (Some(_), Some(variable)) = (args.network, launched_by()) {
        return Err(Failure::BadInput(format!(
            "--network: expected ranks that are threads, found processes of an MPI launcher ({variable} is set): start it without the \
             launcher and give --ranks"
        )));
    }
    let device = args.device.open()?;
    let under_way = Arc::default();
    let report = on_ranks(&args.ranks, |comm| match args.network {
        Some(network) => on_rank(&network.around(&comm, &under_way), &device, args),
        None => on_rank(&comm, &device, args),
    });
    report?.map_or(Ok(()), |report| report.print(args.json))
}

fn on_rank<D: Device>(comm: &Communicator, device: &D, args: &OverlapArgs) -> Result<Report, Failure> {
    if args.memory.memory == FieldMemory::Caller {
        return Err(Failure::BadInput("--memory: expected node-shared or private, found caller".into()));
    }
    let pattern = pattern(comm, args)?;
    check_memory(comm, device, args)?;
    let work = match args.network {
        // Other programs on the machine, which make work longer, would be taken for the network.
        Some(_) => Work::by_clock(args.work),
        None => Work::lasting(args.work, comm)?,
    };
    let alone = Together::new(&pattern, device, args, None)?;
    let (traffic, choice) = (alone.exchange.traffic(), *alone.exchange.choice());
    let mut entries =
        vec![Entry::new("exchange", Some(Box::new(alone))), Entry::new("work", Some(Box::new(work.clone())))];
    let ways =
        [("after", How::After), ("caller", How::Caller), ("polled", How::Polled), ("thread", How::Thread)];
    for (name, how) in ways {
        let may_be = how != How::Thread || comm.info().any_thread;
        let together = match may_be {
            true => Some(Together::new(&pattern, device, args, Some((how, work.clone())))?),
            false => None,
        };
        entries.push(Entry::new(name, together.map(|it| Box::new(it) as _)));
    }
    entries.extend(by_hand(&pattern, device, args, &work)?);
    for entry in &mut entries {
        entry.verify()?;
    }
    let results = measure(comm, &mut entries, args.samples, Boundary::Unchanged)?;
    Ok(Report::new(args, &pattern, device.info(), (traffic, choice), &results))
}

/// Collective: the pattern of equal blocks in a row along the first axis, periodic along every axis.
fn pattern(comm: &Communicator, args: &OverlapArgs) -> Result<Pattern, Failure> {
    let wrong = |what: String| Failure::BadInput(format!("--local: {what}"));
    let local = &args.local.0;
    let mut extents = local.clone();
    let first = local[0].checked_mul(comm.size());
    extents[0] = first.ok_or_else(|| wrong(format!("{local:?} cells on each rank are too many")))?;
    let mut parts = vec![1; local.len()];
    parts[0] = comm.size();
    let grid = Grid::new(extents).and_then(|grid| grid.periodic(vec![true; local.len()]));
    let grid = grid.map_err(|error| wrong(error.to_string()))?;
    let split = Split::even(&grid, &parts).map_err(|error| wrong(error.to_string()))?;
    let mine = split.part(comm.rank());
    Ok(Pattern::structured(comm, &grid, mine.as_slice(), &Halo::uniform(args.halo))?)
}

fn check_memory<D: Device>(comm: &Communicator, device: &D, args: &OverlapArgs) -> Result<(), Failure> {
    let with_halo = |bytes: u128, &cells: &usize| bytes.saturating_mul((cells + 2 * args.halo) as u128);
    let set = args.local.0.iter().fold((args.fields * size_of::<f64>()) as u128, with_halo);
    // Five contestants of the library, and two by hand.
    let needed = set.saturating_mul(7 * ranks_here(comm) as u128);
    match room(device.info()).filter(|room| room.is_below(needed)) {
        Some(room) => Err(Failure::BadInput(format!(
            "the fields need {:.1} GiB, and there are {room}: choose a smaller --local, --fields or --halo",
            gib(needed)
        ))),
        None => Ok(()),
    }
}

/// When the work is done, and what makes progress meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// The work comes after the exchange.
    After,
    /// Nothing makes progress before `finish`.
    Caller,
    /// The caller, between parts of its work.
    Polled,
    /// The progress thread.
    Thread,
}

/// An exchange with work between its start and its end, or without.
struct Together<D: Device> {
    exchange: Exchange<Vec<Field<f64, D>>>,
    work: Option<(How, Work)>,
}

impl<D: Device> Together<D> {
    fn new(
        pattern: &Pattern,
        device: &D,
        args: &OverlapArgs,
        work: Option<(How, Work)>,
    ) -> Result<Together<D>, Failure> {
        let field = || args.memory.build(Field::builder(pattern), device);
        let mut fields = (0..args.fields).map(|_| field()).collect::<Result<Vec<_>, _>>()?;
        fill::<f64>(&mut fields, pattern)?;
        Ok(Together { exchange: args.memory.bind(pattern, fields)?, work })
    }
}

impl<D: Device> Contestant for Together<D> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        let comm = self.exchange.pattern().comm().clone();
        if matches!(self.work, Some((How::Thread, _))) {
            comm.set_progress(Progress::Thread)?;
        }
        for _ in 0..batch * STEPS {
            let pending = self.exchange.start()?;
            match &mut self.work {
                None | Some((How::After, _)) => {}
                Some((How::Polled, work)) => work.in_parts(|| {
                    pending.is_ready();
                }),
                Some((How::Caller | How::Thread, work)) => work.all(),
            }
            pending.finish_blocking()?;
            if let Some((How::After, work)) = &mut self.work {
                work.all();
            }
        }
        Ok(comm.set_progress(Progress::Auto)?)
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)?;
        check::<f64>(self.exchange.fields(), self.exchange.pattern(), "haloport")
    }
}

/// Persistent messages of MPI, packed by hand, without work and with it; none without MPI.
#[cfg(feature = "mpi")]
fn by_hand<'e, D: Device>(
    pattern: &Pattern,
    device: &D,
    args: &OverlapArgs,
    work: &Work,
) -> Result<Vec<Entry<'e>>, Failure> {
    if launched_by().is_none() || !device.info().host_accessible {
        return Ok(Vec::new());
    }
    let packed = |between: Box<dyn FnMut()>| -> Result<Steps<_>, Failure> {
        let field = || Field::<f64, D>::builder(pattern).node_shared(false).build(device);
        let fields = (0..args.fields).map(|_| field()).collect::<Result<Vec<_>, _>>()?;
        Ok(Steps(Packed::new(pattern, fields, Messages::PerRank, between)?))
    };
    let mut work = work.clone();
    Ok(vec![
        Entry::new("by_hand_exchange", Some(Box::new(packed(Box::new(|| {}))?))),
        Entry::new("by_hand", Some(Box::new(packed(Box::new(move || work.all()))?))),
    ])
}

/// As many exchanges as the others make.
#[cfg(feature = "mpi")]
struct Steps<C>(C);

#[cfg(feature = "mpi")]
impl<C: Contestant> Contestant for Steps<C> {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        self.0.run(batch * STEPS)
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.0.verify()
    }
}

#[cfg(not(feature = "mpi"))]
fn by_hand<'e, D: Device>(
    _pattern: &Pattern,
    _device: &D,
    _args: &OverlapArgs,
    _work: &Work,
) -> Result<Vec<Entry<'e>>, Failure> {
    Ok(Vec::new())
}
