//! `haloport bench unstructured`: the time of the exchange of an unstructured field, and of making its pattern.
//!
//! Read in this order:
//! - this file: the contestants of one rank, checked and then measured;
//! - `args`: the command line, and `domains`: the mesh;
//! - `values`: the values of the fields, and their check;
//! - one module for each contestant, and `setup` for making the pattern;
//! - `report`: the printed results.

mod args;
#[cfg(feature = "mpi")]
mod by_hand;
mod domains;
mod gather;
mod report;
mod setup;
mod values;

use haloport::device::{Device, DeviceInfo};
use haloport::exchange::FieldSet;
use haloport::{Communicator, Field, HaloCells, IndexSet, Pattern};

pub(crate) use args::UnstructuredArgs;

use super::block::{Block, CallerMemory, FieldMemory};
use super::boundary::{Boundary, BoundaryWrites, crowded};
use super::contestant::{Contestant, Entry, measure};
use super::handover::handover;
use super::library::Library;
use super::raw_send::RawSend;
use crate::command::failure::Failure;
use crate::command::launch::{on_ranks, ranks_here};
use crate::command::memory::{gib, room};
use crate::command::print::Report as _;
use gather::Gather;
use report::Report;

/// Checks and measures all contestants, and prints the results.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(args: &UnstructuredArgs) -> Result<(), Failure> {
    let device = args.device.open()?;
    let ranks = if args.domains.is_none() { args.ranks.or(domains::RANKS) } else { args.ranks };
    let report = on_ranks(&ranks, |comm| on_rank(&comm, &device, args));
    report?.map_or(Ok(()), |report| report.print(args.json))
}

fn on_rank<D: Device>(comm: &Communicator, device: &D, args: &UnstructuredArgs) -> Result<Report, Failure> {
    let domain = domains::read(args.domains.as_deref(), comm.rank(), comm.size())?;
    check_memory(&domain, device.info(), ranks_here(comm), args)?;
    let obstacle = args.nproma.map(|_| "cells lie in blocks (--nproma)").or(crowded(comm));
    let boundary = args.boundary.choose(device.info(), obstacle)?;
    let pattern = Pattern::unstructured(comm, std::slice::from_ref(&domain), &HaloCells::All)?;
    let build = || args.memory.build(values::builder(&pattern, args), device);
    let fields = (0..args.fields).map(|_| build()).collect::<Result<Vec<_>, _>>()?;
    if args.memory.memory != FieldMemory::Caller {
        return compete(fields, device, &pattern, &domain, args, boundary);
    }
    let mut memory = fields.iter().map(CallerMemory::like).collect::<Result<Vec<_>, _>>()?;
    let lent = memory.iter_mut().map(|memory| memory.lend(device)).collect::<Result<Vec<_>, _>>()?;
    compete(lent, device, &pattern, &domain, args, boundary)
}

/// Checks that the fields of `ranks` ranks, if all have as many cells as this one, fit into memory.
///
/// # Errors
/// [`Failure::BadInput`] if they do not.
fn check_memory(
    domain: &IndexSet,
    device: &DeviceInfo,
    ranks: usize,
    args: &UnstructuredArgs,
) -> Result<(), Failure> {
    // The library's fields, those of another contestant, and their values while they are checked.
    let of_cell = 3 * u128::from(args.levels) * u128::from(args.fields) * size_of::<f64>() as u128;
    let needed = of_cell.saturating_mul((ranks * domain.len()) as u128);
    match room(device).filter(|room| room.is_below(needed)) {
        Some(room) => Err(Failure::BadInput(format!(
            "the fields of {ranks} ranks need about {:.1} GiB, and there are {room}: choose smaller --levels or --fields",
            gib(needed)
        ))),
        None => Ok(()),
    }
}

/// Measures the library on `fields` and the other contestants, in turns.
fn compete<F: FieldSet + Block<f64>, D: Device>(
    mut fields: Vec<F>,
    device: &D,
    pattern: &Pattern,
    domain: &IndexSet,
    args: &UnstructuredArgs,
    boundary: Boundary,
) -> Result<Report, Failure> {
    let comm = pattern.comm();
    let levels_slowest = match args.nproma {
        Some(_) => Some(levels_slowest(device, pattern, args)?),
        None => None,
    };
    values::fill(&mut fields, pattern, args)?;
    let check = |fields: &[F]| values::check(fields, pattern, args, "haloport");
    let step = match boundary {
        Boundary::Written => Some(BoundaryWrites::of(&mut fields, pattern)?),
        Boundary::Unchanged => None,
    };
    let mut library = Library::new(pattern, fields, &args.memory, check)?;
    if let Some(step) = step {
        library = library.with_writes(Box::new(move |fields| step.write(fields)));
    }
    let path = (library.traffic().path(), library.choice());
    let cell_bytes = args.fields as usize * args.levels as usize * size_of::<f64>();
    let raw_send = RawSend::new(pattern, cell_bytes)?;
    let host = device.info().host_accessible;
    let gather = if host { Gather::new(device, pattern, args)? } else { None };
    let mut entries = vec![Entry::new("haloport", Some(Box::new(library)))];
    if levels_slowest.is_some() {
        entries.push(Entry::new("levels_slowest", levels_slowest));
    }
    entries.extend([
        Entry::new("gather_pass", gather.map(|it| Box::new(it) as _)),
        Entry::new("packed_persistent", by_hand(device, pattern, args)?),
        Entry::new("raw_send", raw_send.map(|it| Box::new(it) as _)),
    ]);
    for entry in &mut entries {
        entry.verify()?;
    }
    let before = handover(comm)?;
    let exchange = measure(comm, &mut entries, args.samples as usize, boundary)?;
    let apart = before.zip(handover(comm)?).map(<[f64; 2]>::from);
    let setup = measure(comm, &mut setup::entries(comm, domain), args.samples as usize, Boundary::Unchanged)?;
    Ok(Report::new(args, pattern, device.info(), path, (boundary, apart), &exchange, &setup))
}

/// The same exchange of fields with each level as a block of its own.
fn levels_slowest<'a, D: Device>(
    device: &D,
    pattern: &'a Pattern,
    args: &'a UnstructuredArgs,
) -> Result<Box<dyn Contestant + 'a>, Failure> {
    let build = || args.memory.build(values::levels_slowest(pattern, args), device);
    let mut fields = (0..args.fields).map(|_| build()).collect::<Result<Vec<_>, _>>()?;
    values::fill(&mut fields, pattern, args)?;
    let check = |fields: &[Field<f64, D>]| values::check(fields, pattern, args, "levels_slowest");
    Ok(Box::new(Library::new(pattern, fields, &args.memory, check)?))
}

/// The hand-packed messages; without MPI, and for blocks of cells, they do not take part.
#[cfg(feature = "mpi")]
fn by_hand<'a, D: Device>(
    device: &D,
    pattern: &Pattern,
    args: &'a UnstructuredArgs,
) -> Result<Option<Box<dyn Contestant + 'a>>, Failure> {
    if crate::command::launch::launched_by().is_none()
        || !device.info().host_accessible
        || args.nproma.is_some()
    {
        return Ok(None);
    }
    Ok(Some(Box::new(by_hand::ByHand::new(device, pattern, args)?)))
}

#[cfg(not(feature = "mpi"))]
fn by_hand<'a, D: Device>(
    _device: &D,
    _pattern: &Pattern,
    _args: &'a UnstructuredArgs,
) -> Result<Option<Box<dyn Contestant + 'a>>, Failure> {
    Ok(None)
}
