//! Collective calls of a communicator: all ranks make them, in the same order.

use std::borrow::Cow;
use std::ffi::c_void;

use haloport::comm::{ExactSum, ExactTerm, Reducible, TransportError};
use haloport::{Communicator, Element, ElementType, Reduction};

use crate::arguments::{count, slice, slice_mut};
use crate::comm::{agree, communicator, rank};
use crate::element::element_type;
use crate::handle::Handle;
use crate::payload::{Reader, room};
use crate::status::{Failure, Status, call};

/// `HP_SUM` and the like of the header.
pub(crate) const REDUCTIONS: [(i32, Reduction); 3] =
    [(1, Reduction::Sum), (2, Reduction::Min), (3, Reduction::Max)];

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn hp_comm_barrier(comm: Handle<Communicator>) -> Status {
    call("hp_comm_barrier", || Ok(communicator(comm)?.barrier()?))
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
        let reduced = unsafe { all_reduce(&comm, reduction, kind, number, values) };
        // Other failures are those of the communication.
        if let Err(failure @ Failure { status: Status::Argument, .. }) = &reduced {
            tell(&comm, failure);
        }
        reduced
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
    masks: *const *const u8,
    sums: *mut f64,
) -> Status {
    call("hp_comm_sum_exact", || {
        // SAFETY: by the contract of the header, here and below. The values, which may be there, too, are not read meanwhile.
        let room = || unsafe { slice_mut(sums, count(number, "number")?, "sums") };
        let summed = communicator(comm).and_then(|comm| {
            let own = || {
                let number = room()?.len();
                // SAFETY: as above.
                unsafe { exact_sums(kind, number, counts, values, weights, masks) }
            };
            // It has not communicated: the other ranks learn of any failure.
            let mut own = own().inspect_err(|failure| tell(&comm, failure))?;
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
unsafe extern "C" fn hp_comm_broadcast(
    comm: Handle<Communicator>,
    root: i32,
    bytes: i64,
    data: *mut c_void,
) -> Status {
    call("hp_comm_broadcast", || {
        let comm = communicator(comm)?;
        let own = || {
            let root = rank(root, comm.size(), format_args!("root"))?;
            let (data, bytes) = (data.cast::<u8>(), count(bytes, "bytes")?);
            if root != comm.rank() {
                // SAFETY: by the contract of the header there are that many bytes, and no other thread uses them.
                return Ok((root, bytes, Vec::new(), unsafe { slice_mut(data, bytes, "data")? }));
            }
            // SAFETY: as above; the root's are only read.
            Ok((root, bytes, copied(unsafe { slice(data, bytes, "data")? }, "data")?, &mut [][..]))
        };
        let (root, bytes, sent, data) = agree(&comm, own())?;
        let found = comm.broadcast(root, &sent)?;
        agree_on_sizes(&comm, other_size(bytes, &found, root))?;
        if root != comm.rank() {
            data.copy_from_slice(&found);
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn hp_comm_gather(
    comm: Handle<Communicator>,
    root: i32,
    bytes: i64,
    data: *const c_void,
    all: *mut c_void,
) -> Status {
    call("hp_comm_gather", || {
        let comm = communicator(comm)?;
        let own = || {
            let root = rank(root, comm.size(), format_args!("root"))?;
            let bytes = count(bytes, "bytes")?;
            // SAFETY: by the contract of the header there are that many bytes, which nothing writes meanwhile.
            let data = copied(unsafe { slice(data.cast::<u8>(), bytes, "data")? }, "data")?;
            let room = if root == comm.rank() { bytes.saturating_mul(comm.size()) } else { 0 };
            // SAFETY: by the contract of the header the root has room for that many, and no other thread uses it.
            Ok((root, data, unsafe { slice_mut(all.cast::<u8>(), room, "all")? }))
        };
        let (root, data, all) = agree(&comm, own())?;
        let found = comm.gather(root, &data)?.unwrap_or_default();
        let mut others = found.iter().enumerate();
        agree_on_sizes(&comm, others.find_map(|(rank, found)| other_size(data.len(), found, rank)))?;
        found.iter().zip(all.chunks_mut(data.len().max(1))).for_each(|(found, to)| to.copy_from_slice(found));
        Ok(())
    })
}

/// Describes in words that a rank has passed another number of bytes than this one.
fn other_size(bytes: usize, found: &[u8], rank: usize) -> Option<String> {
    let other = found.len();
    let text = "bytes: expected the same number on all ranks";
    (other != bytes).then(|| format!("{text}, found {bytes} here and {other} on rank {rank}"))
}

/// Collective: refuses numbers of bytes that differ, with one text on all ranks.
fn agree_on_sizes(comm: &Communicator, complaint: Option<String>) -> Result<(), Failure> {
    comm.agree(complaint)?.map_err(|text| Failure { status: Status::Refused, text })
}

fn copied(bytes: &[u8], name: &str) -> Result<Vec<u8>, Failure> {
    let mut copy = room(bytes.len(), name)?;
    copy.extend_from_slice(bytes);
    Ok(copy)
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

/// The sums of this rank: of the values, or of their products with the weights; of those that the masks leave in.
///
/// # Safety
/// `counts` has `number` numbers, and so have `values` and, unless they are null, `weights` and `masks` addresses of as many floats
/// of the type `kind`, and bytes, as those say; nothing writes them meanwhile.
unsafe fn exact_sums(
    kind: i32,
    number: usize,
    counts: *const i64,
    values: *const *const c_void,
    weights: *const *const c_void,
    masks: *const *const u8,
) -> Result<Vec<ExactSum>, Failure> {
    // SAFETY: the caller's promise, here and below.
    let (counts, values) = unsafe { (slice(counts, number, "counts")?, slice(values, number, "values")?) };
    // SAFETY: as above.
    let weights = if weights.is_null() { &[] } else { unsafe { slice(weights, number, "weights")? } };
    // SAFETY: as above.
    let masks = if masks.is_null() { &[] } else { unsafe { slice(masks, number, "masks")? } };
    let add = match element_type(kind) {
        Some(ElementType::F32) => add_exactly::<f32>,
        Some(ElementType::F64) => add_exactly::<f64>,
        _ => return Err(Failure::argument(format!("type: expected HP_F32 or HP_F64, found {kind}"))),
    };
    let (mut sums, mut reader) = (vec![ExactSum::new(); number], Reader::default());
    for (place, sum) in sums.iter_mut().enumerate() {
        let terms = Terms {
            place,
            number: count(counts[place], &format!("counts[{place}]"))?,
            values: values[place],
            weights: weights.get(place).copied().unwrap_or(std::ptr::null()),
            mask: masks.get(place).copied().unwrap_or(std::ptr::null()),
        };
        // SAFETY: as above.
        unsafe { add(sum, &mut reader, &terms)? };
    }
    Ok(sums)
}

/// The terms of sum `place`. Weights and mask may be null.
struct Terms {
    place: usize,
    number: usize,
    values: *const c_void,
    weights: *const c_void,
    mask: *const u8,
}

/// Adds the values, or their products with the weights; those that the mask leaves in.
///
/// # Safety
/// `values`, `weights` and `mask` have `number` elements, which nothing writes meanwhile.
unsafe fn add_exactly<T: ExactTerm + Element>(
    sum: &mut ExactSum,
    reader: &mut Reader,
    terms: &Terms,
) -> Result<(), Failure> {
    let Terms { place, number, values, weights, mask } = *terms;
    let mask = match mask.is_null() {
        true => None,
        // SAFETY: the caller's promise, here and below.
        false => Some(unsafe { reader.values(number, mask, &format!("masks[{place}]"))? }),
    };
    let mut left_in = |first: *const c_void, name: &str| {
        let name = format!("{name}[{place}]");
        // SAFETY: as above.
        let all = unsafe { reader.values::<T>(number, first.cast(), &name)? };
        masked(all, mask.as_deref(), &name)
    };
    let values = left_in(values, "values")?;
    if weights.is_null() {
        sum.add(&values);
    } else {
        sum.add_products(&values, &left_in(weights, "weights")?);
    }
    Ok(())
}

/// The values where the mask is not 0; all without a mask.
fn masked<'a, T: Element>(
    values: Cow<'a, [T]>,
    mask: Option<&[u8]>,
    name: &str,
) -> Result<Cow<'a, [T]>, Failure> {
    let Some(mask) = mask else { return Ok(values) };
    let mut left = room(mask.iter().filter(|byte| **byte != 0).count(), name)?;
    left.extend(values.iter().zip(mask).filter(|(_, byte)| **byte != 0).map(|(value, _)| *value));
    Ok(Cow::Owned(left))
}

/// Tells the other ranks, which reduce, why this one does not.
fn tell(comm: &Communicator, failure: &Failure) {
    let _ = comm.agree(Some(failure.text.clone()));
}

fn reduce<V: Reducible>(comm: &Communicator, reduction: Reduction, values: V) -> Result<(), TransportError> {
    comm.all_reduce(values, reduction).map(drop)
}
