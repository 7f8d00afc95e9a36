//! `haloport bench exchange`: how long a halo exchange takes, beside what the machine could do.
//!
//! Read in this order:
//! - this file: the contestants of one rank, checked and then measured;
//! - `args`: the command line, and `problem`: the grid that follows from it;
//! - `cells`: what is in the fields, and whether it arrived;
//! - `contestant`: what is timed and how, then one module for each contestant;
//! - `report`: what is printed.

mod args;
mod cells;
mod contestant;
mod library;
mod one_pass;
mod problem;
mod raw_send;
mod report;

use haloport::device::Device;
use haloport::{BorrowedField, Communicator, Element, ElementType, Field, Pattern, with_device};

pub(crate) use args::ExchangeArgs;

use crate::failure::Failure;
use crate::launch::{on_ranks, ranks_here};
use contestant::{Entry, measure};
use library::Library;
use one_pass::{OnePassCopy, SharedFields};
use problem::Problem;
use raw_send::RawSend;
use report::Report;

/// Checks and measures all contestants, and prints the results.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(args: &ExchangeArgs) -> Result<(), Failure> {
    // One thread for each rank, unless the user says otherwise.
    let spec = args.device.clone().or_threads(1);
    let any = spec.open().map_err(|error| Failure::BadInput(error.to_string()))?;
    let shared = SharedFields::default();
    let report =
        with_device!(&any, |device| on_ranks(&args.ranks, |comm| on_rank(&comm, device, args, &shared)));
    report?.map_or(Ok(()), |report| report.print(args.json))
}

/// The whole benchmark on one rank, for the element type asked for.
fn on_rank<D: Device>(
    comm: &Communicator,
    device: &D,
    args: &ExchangeArgs,
    shared: &SharedFields,
) -> Result<Report, Failure> {
    macro_rules! for_elements {
        ($($name:ident => $rust:ty),* $(,)?) => {
            match args.dtype {
                $(ElementType::$name => on_elements::<$rust, D>(comm, device, args, shared),)*
                other => Err(Failure::BadInput(format!("--dtype: this benchmark does not serve {other}"))),
            }
        };
    }
    for_elements!(
        I8 => i8, I16 => i16, I32 => i32, I64 => i64, I128 => i128,
        U8 => u8, U16 => u16, U32 => u32, U64 => u64, U128 => u128,
        F16 => half::f16, Bf16 => half::bf16, F32 => f32, F64 => f64,
        Complex32 => num_complex::Complex<f32>, Complex64 => num_complex::Complex<f64>,
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
    let pattern = problem.pattern(comm)?;
    let fields = make_fields::<T, D>(device, &pattern, args.fields)?;
    if !args.borrowed {
        let library = Library::new(&pattern, fields)?;
        return compete::<T, D>(device, &problem, &pattern, args, shared, library.path(), Box::new(library));
    }
    // The same layouts, in memory that the library does not own.
    let layouts = fields.iter().map(|field| field.layout(0).cloned()).collect::<Result<Vec<_>, _>>()?;
    drop(fields);
    let mut memory: Vec<Vec<T>> =
        layouts.iter().map(|layout| vec![T::default(); layout.span().1.unsigned_abs()]).collect();
    let lent = memory.iter_mut().zip(layouts);
    let fields = lent
        .map(|(memory, layout)| BorrowedField::new(device, vec![(&mut memory[..], layout)]))
        .collect::<Result<Vec<BorrowedField<'_, T, D>>, _>>()?;
    let library = Library::new(&pattern, fields)?;
    compete::<T, D>(device, &problem, &pattern, args, shared, library.path(), Box::new(library))
}

/// Lets the library and the others take turns.
fn compete<'a, T: Element, D: Device>(
    device: &D,
    problem: &Problem,
    pattern: &Pattern,
    args: &ExchangeArgs,
    shared: &SharedFields,
    path: String,
    library: Box<dyn contestant::Contestant + 'a>,
) -> Result<Report, Failure> {
    let comm = pattern.comm();
    let one_pass = if device.info().host_accessible {
        let fields = make_fields::<T, D>(device, pattern, args.fields)?;
        Some(OnePassCopy::new(problem, pattern, fields, shared)?)
    } else {
        None
    };
    let raw_send = RawSend::new(pattern, args.fields * size_of::<T>())?;
    let mut entries = vec![
        Entry::new("haloport", Some(library)),
        Entry::new("one_pass_copy", one_pass.map(|it| Box::new(it) as _)),
        Entry::new("raw_send", raw_send.map(|it| Box::new(it) as _)),
        // Hand-packed persistent messages are MPI's, which this build has not.
        Entry::new("packed_persistent", None),
    ];
    for entry in &mut entries {
        entry.verify()?;
    }
    let results = measure(comm, &mut entries, args.samples)?;
    Ok(Report::new(args, problem, pattern, device.info(), path, results))
}

fn make_fields<T: Element, D: Device>(
    device: &D,
    pattern: &Pattern,
    count: usize,
) -> Result<Vec<Field<T, D>>, Failure> {
    Ok((0..count).map(|_| Field::new(device, pattern)).collect::<Result<_, _>>()?)
}
