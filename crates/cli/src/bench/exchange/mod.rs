//! `haloport bench exchange`: the time of a halo exchange, beside what the machine could do.
//!
//! Read in this order:
//! - this file: the contestants of one rank, checked and then measured;
//! - `args`: the command line, and `problem`: the grid;
//! - `cells`: the values of the fields, and their check;
//! - one module for each contestant;
//! - `accumulation`: the other direction, from halos to their owners;
//! - `report`: the printed results.

mod accumulation;
mod args;
mod cells;
mod one_pass;
#[cfg(feature = "mpi")]
pub(super) mod packed;
mod problem;
mod report;
mod rows;

use haloport::device::Device;
use haloport::exchange::FieldSet;
use haloport::{Communicator, Element, ElementType, Field, Pattern};

pub(crate) use args::ExchangeArgs;
pub(super) use args::Extents;
pub(super) use cells::{check, fill};
pub(super) use one_pass::SharedFields;
pub(super) use rows::{RowCopies, StridedBox};

use super::block::{Block, CallerMemory, FieldMemory};
use super::boundary::{Boundary, BoundaryWrites, crowded};
use super::contestant::{Entry, measure};
use super::handover::handover;
use super::library::Library;
use super::raw_send::RawSend;
use super::uneven::Uneven;
use crate::command::failure::Failure;
#[cfg(feature = "mpi")]
use crate::command::launch::launched_by;
use crate::command::launch::{on_ranks, ranks_here};
use crate::command::print::Report as _;
use one_pass::OnePassCopy;
#[cfg(feature = "mpi")]
use packed::{Messages, Packed};
use problem::Problem;
use report::Report;

/// Checks and measures all contestants, and prints the results.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(args: &ExchangeArgs) -> Result<(), Failure> {
    let device = args.device.open()?;
    let shared = SharedFields::default();
    let report = on_ranks(&args.ranks, |comm| on_rank(&comm, &device, args, &shared));
    report?.map_or(Ok(()), |report| report.print(args.json))
}

/// Runs the benchmark on one rank. Elements of one size and alignment are moved by the same code, and only their bits
/// matter here (see `cells`), so one type stands for all of them.
fn on_rank<D: Device>(
    comm: &Communicator,
    device: &D,
    args: &ExchangeArgs,
    shared: &SharedFields,
) -> Result<Report, Failure> {
    if args.accumulate {
        return match args.dtype {
            ElementType::F32 => accumulation::on_floats::<f32, D>(comm, device, args, shared),
            ElementType::F64 => accumulation::on_floats::<f64, D>(comm, device, args, shared),
            other => {
                Err(Failure::BadInput(format!("--dtype: --accumulate expects f32 or f64, found {other}")))
            }
        };
    }
    macro_rules! for_elements {
        ($($($name:ident)|* => $rust:ty),* $(,)?) => {
            match args.dtype {
                $($(ElementType::$name)|* => on_elements::<$rust, D>(comm, device, args, shared),)*
                other => Err(Failure::BadInput(format!("--dtype: this benchmark does not support {other}"))),
            }
        };
    }
    for_elements!(
        I8 | U8 => u8,
        I16 | U16 | F16 | Bf16 => u16,
        I32 | U32 | F32 => u32,
        I64 | U64 | F64 => u64,
        I128 | U128 => u128,
        Complex32 => num_complex::Complex<f32>,
        Complex64 => num_complex::Complex<f64>,
    )
}

fn on_elements<T: Element, D: Device>(
    comm: &Communicator,
    device: &D,
    args: &ExchangeArgs,
    shared: &SharedFields,
) -> Result<Report, Failure> {
    let problem = Problem::new(args, comm.size())?;
    problem.check_memory(device.info(), ranks_here(comm))?;
    let obstacle = args.uneven.map(|_| "there is work between start and end (--uneven)").or(crowded(comm));
    let boundary = args.boundary.choose(device.info(), obstacle)?;
    args.trace.begin(comm)?;
    let pattern = problem.pattern(comm)?;
    // Fields of the library and of the plain copies are made alternately: the order of allocation changes times by
    // several percent.
    let (mut fields, mut memory, mut others) = (Vec::new(), Vec::new(), Vec::new());
    #[cfg(feature = "mpi")]
    let mut by_hand = (Vec::new(), Vec::new());
    // The other contestants have the memory that suits them best.
    let private = || Field::<T, D>::builder(&pattern).node_shared(false).build(device);
    for _ in 0..args.fields {
        let field = args.memory.build(Field::builder(&pattern), device)?;
        if args.memory.memory == FieldMemory::Caller {
            memory.push(CallerMemory::like(&field)?);
        } else {
            fields.push(field);
        }
        others.push(private()?);
        #[cfg(feature = "mpi")]
        if launched_by().is_some() && device.info().host_accessible {
            by_hand.0.push(private()?);
            by_hand.1.push(private()?);
        }
    }
    #[cfg(feature = "mpi")]
    let by_hand = by_hand_entries(&pattern, by_hand, args)?;
    #[cfg(not(feature = "mpi"))]
    let by_hand = vec![Entry::new("packed_persistent", None)];
    if memory.is_empty() {
        return compete(fields, others, by_hand, device, &problem, &pattern, args, shared, boundary);
    }
    let fields = memory.iter_mut().map(|memory| memory.lend(device)).collect::<Result<Vec<_>, _>>()?;
    compete(fields, others, by_hand, device, &problem, &pattern, args, shared, boundary)
}

/// Fields for two contestants.
#[cfg(feature = "mpi")]
type TwoSets<T, D> = (Vec<Field<T, D>>, Vec<Field<T, D>>);

/// The hand-packed messages; without MPI they do not take part.
#[cfg(feature = "mpi")]
fn by_hand_entries<'e, T: Element, D: Device>(
    pattern: &Pattern,
    (first, second): TwoSets<T, D>,
    args: &ExchangeArgs,
) -> Result<Vec<Entry<'e>>, Failure> {
    if first.is_empty() {
        return Ok(vec![Entry::new("packed_persistent", None)]);
    }
    let uneven = || -> Box<dyn FnMut()> {
        let mut uneven = args.uneven.map(|time| Uneven::new(time, pattern.comm().rank()));
        Box::new(move || uneven.iter_mut().for_each(Uneven::work))
    };
    let per_neighbour = Packed::new(pattern, first, Messages::PerNeighbour, uneven())?;
    let per_rank = Packed::new(pattern, second, Messages::PerRank, uneven())?;
    Ok(vec![
        Entry::new("packed_persistent", Some(Box::new(per_neighbour))),
        Entry::new("packed_fused", Some(Box::new(per_rank))),
    ])
}

/// Measures the library on `fields` and the other contestants, in turns; `plain` is for the plain copies.
#[allow(clippy::too_many_arguments, reason = "each is one thing that a rank has")]
fn compete<T: Element, F: FieldSet + Block<T>, D: Device>(
    mut fields: Vec<F>,
    plain: Vec<Field<T, D>>,
    by_hand: Vec<Entry<'_>>,
    device: &D,
    problem: &Problem,
    pattern: &Pattern,
    args: &ExchangeArgs,
    shared: &SharedFields,
    boundary: Boundary,
) -> Result<Report, Failure> {
    cells::fill(&mut fields, pattern)?;
    let check = |fields: &[F]| cells::check(fields, pattern, "haloport");
    let uneven = args.uneven.map(|time| Uneven::new(time, pattern.comm().rank()));
    let step = match boundary {
        Boundary::Written => Some(BoundaryWrites::of(&mut fields, pattern)?),
        Boundary::Unchanged => None,
    };
    let mut library = Library::new(pattern, fields, &args.memory, check)?.with_work(uneven.clone());
    if let Some(step) = step {
        library = library.with_writes(Box::new(move |fields| step.write(fields)));
    }
    let (traffic, choice) = (library.traffic(), library.choice());
    // What has no start and no end takes no part beside work in between.
    let one_pass = if device.info().host_accessible && uneven.is_none() {
        // Without synchronisation, a rank may not write what others copy: then each copies from its own fields.
        let shared = (boundary == Boundary::Unchanged).then_some(shared);
        Some(OnePassCopy::new(problem, pattern, plain, shared)?)
    } else {
        None
    };
    let raw_send = if uneven.is_none() { RawSend::new(pattern, args.fields * size_of::<T>())? } else { None };
    let mut entries = vec![
        Entry::new("haloport", Some(Box::new(library))),
        Entry::new("one_pass_copy", one_pass.map(|it| Box::new(it) as _)),
        Entry::new("raw_send", raw_send.map(|it| Box::new(it) as _)),
    ];
    entries.extend(by_hand);
    entries.extend(uneven.map(|work| Entry::new("work_alone", Some(Box::new(work)))));
    for entry in &mut entries {
        entry.verify()?;
    }
    let comm = pattern.comm();
    let before = handover(comm)?;
    let results = measure(comm, &mut entries, args.samples, boundary)?;
    args.trace.write(comm)?;
    let handover = before.zip(handover(comm)?).map(<[f64; 2]>::from);
    Ok(Report::new(args, problem, pattern, device.info(), traffic, choice, results, handover, boundary))
}
