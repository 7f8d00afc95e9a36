//! Communicators: the ranks that a program exchanges with.

use std::ffi::c_void;
use std::fmt;
use std::time::Duration;

use haloport::comm::{ExactSum, ExactTerm, Reducible, TransportError};
use haloport::{Communicator, Element, ElementType, Reduction, mpi};

use crate::arguments::{count, make, slice, slice_mut, write};
use crate::element::element_type;
use crate::handle::{Handle, kind};
use crate::payload::Reader;
use crate::status::{Failure, Status, call};

kind!(Communicator, "hp_comm", 0x4863);

/// `HP_SUM` and the like of the header.
pub(crate) const REDUCTIONS: [(i32, Reduction); 3] =
    [(1, Reduction::Sum), (2, Reduction::Min), (3, Reduction::Max)];

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_comm_mpi(
    comm: *const c_void,
    bytes: usize,
    made: *mut Handle<Communicator>,
) -> Status {
    call("hp_comm_mpi", || {
        // SAFETY: by the contract of the header, `made` may be written, and `comm` is an MPI_Comm of that size, of an MPI
        // that runs.
        unsafe {
            make(made, || {
                let handle = match bytes {
                    4 => i64::from(slice(comm.cast::<i32>(), 1, "mpi_comm")?[0]),
                    8 => slice(comm.cast::<i64>(), 1, "mpi_comm")?[0],
                    _ => {
                        return Err(Failure::argument(format!(
                            "bytes: expected the size of an MPI_Comm, 4 or 8, found {bytes}; pass `&comm, sizeof comm`"
                        )));
                    }
                };
                Ok(mpi::from_raw(handle)?)
            })
        }
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_comm_fortran(comm: i32, made: *mut Handle<Communicator>) -> Status {
    // SAFETY: by the contract of the header, `made` may be written, and `comm` is the handle of a communicator.
    call("hp_comm_fortran", || unsafe { make(made, || Ok(mpi::from_fortran(comm)?)) })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_comm_threads(ranks: i32, comms: *mut Handle<Communicator>) -> Status {
    call("hp_comm_threads", || {
        let ranks = count(ranks, "ranks")?;
        if comms.is_null() {
            return Err(Failure::argument("comms: expected a place for each rank, found null"));
        }
        for (rank, comm) in haloport::comm::threads(ranks)?.into_iter().enumerate() {
            // SAFETY: by the contract of the header there is room for that many.
            unsafe { comms.add(rank).write(Handle::new(comm)) };
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_comm_rank(comm: Handle<Communicator>, rank: *mut i32) -> Status {
    call("hp_comm_rank", || {
        // SAFETY: by the contract of the header, here and below. After a failure there is no rank.
        unsafe { write(rank, -1) };
        let comm = communicator(comm)?;
        // SAFETY: as above. Ranks are fewer than 2^31.
        unsafe { write(rank, comm.rank() as i32) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_comm_size(comm: Handle<Communicator>, ranks: *mut i32) -> Status {
    call("hp_comm_size", || {
        // SAFETY: by the contract of the header, here and below. After a failure there are no ranks.
        unsafe { write(ranks, 0) };
        let comm = communicator(comm)?;
        // SAFETY: as above. Ranks are fewer than 2^31.
        unsafe { write(ranks, comm.size() as i32) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_comm_set_time_limit(comm: Handle<Communicator>, seconds: f64) -> Status {
    call("hp_comm_set_time_limit", || {
        let limit = duration(seconds)?;
        communicator(comm)?.set_time_limit(limit);
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_comm_set_warn_after(comm: Handle<Communicator>, seconds: f64) -> Status {
    call("hp_comm_set_warn_after", || {
        let time = duration(seconds)?;
        communicator(comm)?.set_warn_after(time);
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_comm_all_reduce(
    comm: Handle<Communicator>,
    reduction: i32,
    kind: i32,
    number: i64,
    values: *mut c_void,
) -> Status {
    call("hp_comm_all_reduce", || {
        let comm = communicator(comm)?;
        // SAFETY: by the contract of the header, `values` has that many values.
        told(&comm, unsafe { all_reduce(&comm, reduction, kind, number, values) })
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_comm_sum_exact(
    comm: Handle<Communicator>,
    kind: i32,
    number: i32,
    counts: *const i64,
    values: *const *const c_void,
    weights: *const *const c_void,
    sums: *mut f64,
) -> Status {
    call("hp_comm_sum_exact", || {
        // SAFETY: by the contract of the header, here and below. The values, which may be there, too, are not read meanwhile.
        let room = || unsafe { slice_mut(sums, count(number, "number")?, "sums") };
        let summed = communicator(comm).and_then(|comm| {
            let own = || {
                let number = room()?.len();
                // SAFETY: as above.
                unsafe { exact_sums(kind, number, counts, values, weights) }
            };
            let mut own = told(&comm, own())?;
            comm.all_reduce_exact(&mut own)?;
            Ok(own)
        });
        match summed {
            Ok(own) => room()?.iter_mut().zip(&own).for_each(|(sum, own)| *sum = own.to_f64()),
            Err(failure) => {
                if let Ok(sums) = room() {
                    sums.fill(f64::NAN);
                }
                return Err(failure);
            }
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_comm_barrier(comm: Handle<Communicator>) -> Status {
    call("hp_comm_barrier", || Ok(communicator(comm)?.barrier()?))
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_comm_free(comm: Handle<Communicator>) -> Status {
    call("hp_comm_free", || comm.take().map(drop))
}

/// # Safety
/// `values` has `number` values of that type, which nobody else uses.
unsafe fn all_reduce(
    comm: &Communicator,
    reduction: i32,
    kind: i32,
    number: i64,
    values: *mut c_void,
) -> Result<(), Failure> {
    let found = REDUCTIONS.iter().find(|(known, _)| *known == reduction);
    let (_, reduction) = found.ok_or_else(|| {
        Failure::argument(format!("reduction: expected HP_SUM, HP_MIN or HP_MAX, found {reduction}"))
    })?;
    let number = count(number, "count")?;
    // SAFETY: the caller's promise, here and below.
    let reduced: Result<(), TransportError> = unsafe {
        match element_type(kind) {
            Some(ElementType::I64) => {
                reduce(comm, *reduction, slice_mut::<i64>(values.cast(), number, "values")?)
            }
            Some(ElementType::U64) => {
                reduce(comm, *reduction, slice_mut::<u64>(values.cast(), number, "values")?)
            }
            Some(ElementType::F32) => {
                reduce(comm, *reduction, slice_mut::<f32>(values.cast(), number, "values")?)
            }
            Some(ElementType::F64) => {
                reduce(comm, *reduction, slice_mut::<f64>(values.cast(), number, "values")?)
            }
            _ => {
                return Err(Failure::argument(format!(
                    "type: expected HP_I64, HP_U64, HP_F32 or HP_F64, found {kind}"
                )));
            }
        }
    };
    Ok(reduced?)
}

/// The sums of this rank: of the values, or of their products with the weights.
///
/// # Safety
/// `counts` has `number` numbers, and so have `values` and, unless it is null, `weights` addresses of as many floats of the
/// type `kind` as those say; nothing writes them meanwhile.
unsafe fn exact_sums(
    kind: i32,
    number: usize,
    counts: *const i64,
    values: *const *const c_void,
    weights: *const *const c_void,
) -> Result<Vec<ExactSum>, Failure> {
    // SAFETY: the caller's promise, here and below.
    let (counts, values) = unsafe { (slice(counts, number, "counts")?, slice(values, number, "values")?) };
    // SAFETY: as above.
    let weights = if weights.is_null() { &[] } else { unsafe { slice(weights, number, "weights")? } };
    let add = match element_type(kind) {
        Some(ElementType::F32) => add_exactly::<f32>,
        Some(ElementType::F64) => add_exactly::<f64>,
        _ => return Err(Failure::argument(format!("type: expected HP_F32 or HP_F64, found {kind}"))),
    };
    let (mut sums, mut reader) = (vec![ExactSum::new(); number], Reader::default());
    for (place, sum) in sums.iter_mut().enumerate() {
        let weights = weights.get(place).copied().unwrap_or(std::ptr::null());
        // SAFETY: as above.
        unsafe { add(sum, &mut reader, place, counts[place], values[place], weights)? };
    }
    Ok(sums)
}

/// Adds the values, or their products with the weights, unless `weights` is null.
///
/// # Safety
/// `values` and `weights` have `number` elements, which nothing writes meanwhile.
unsafe fn add_exactly<T: ExactTerm + Element>(
    sum: &mut ExactSum,
    reader: &mut Reader,
    place: usize,
    number: i64,
    values: *const c_void,
    weights: *const c_void,
) -> Result<(), Failure> {
    let number = count(number, &format!("counts[{place}]"))?;
    // SAFETY: the caller's promise, here and below.
    let values = unsafe { reader.values::<T>(number, values.cast(), &format!("values[{place}]"))? };
    if weights.is_null() {
        sum.add(&values);
    } else {
        // SAFETY: as above.
        let weights = unsafe { reader.values::<T>(number, weights.cast(), &format!("weights[{place}]"))? };
        sum.add_products(&values, &weights);
    }
    Ok(())
}

/// Tells the other ranks, which reduce, of a wrong argument of this one.
fn told<T>(comm: &Communicator, mine: Result<T, Failure>) -> Result<T, Failure> {
    if let Err(Failure { status: Status::Argument, text }) = &mine {
        let _ = comm.agree(Some(text.clone()));
    }
    mine
}

fn reduce<V: Reducible>(comm: &Communicator, reduction: Reduction, values: V) -> Result<(), TransportError> {
    comm.all_reduce(values, reduction).map(drop)
}

/// `None` for 0 seconds.
fn duration(seconds: f64) -> Result<Option<Duration>, Failure> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) => Ok((!time.is_zero()).then_some(time)),
        Err(_) => Err(Failure::argument(format!(
            "seconds: expected a number above 0, or 0 for none, found {seconds}"
        ))),
    }
}

/// A rank that the caller names.
pub(crate) fn rank(found: i32, ranks: usize, name: fmt::Arguments<'_>) -> Result<usize, Failure> {
    usize::try_from(found).ok().filter(|&rank| rank < ranks).ok_or_else(|| {
        Failure::argument(format!("{name}: expected one of the {ranks} ranks, counted from 0, found {found}"))
    })
}

/// The communicator of a handle, which other threads may use meanwhile.
pub(crate) fn communicator(comm: Handle<Communicator>) -> Result<Communicator, Failure> {
    comm.get()?.with(|comm| Ok(comm.clone()))
}

/// Collective: the value of `mine` on every rank, or a failure on every rank if it is one on some.
pub(crate) fn agree<T>(comm: &Communicator, mine: Result<T, Failure>) -> Result<T, Failure> {
    let complaint = mine.as_ref().err().map(|failure| failure.text.clone());
    let agreed = comm.agree(complaint);
    let value = mine?;
    agreed?.map_err(|text| Failure { status: Status::Refused, text })?;
    Ok(value)
}
