//! Reaching memory by the addresses of the program.

use std::sync::atomic::{AtomicU32, Ordering};

use haloport_cuda_races::{Race, Work as Accessor};

use crate::lane::Context;
use crate::memory::blocks::{Block, Blocks, Found, Kind, blocks};
use crate::order::first_message;
use crate::settings::{Fault, settings};
use crate::status::{ILLEGAL_ADDRESS, INVALID_VALUE, LAUNCH_FAILED, Status};

/// Why work has failed.
pub(crate) type Failure = (Status, String);

/// An error if there is a race, the first of its kind.
pub(crate) fn watched(race: Option<Race>) -> Result<(), Failure> {
    match race.and_then(first_message) {
        Some(race) => Err((LAUNCH_FAILED, race)),
        None => Ok(()),
    }
}

/// Whether work in a context may reach the memory of a block. That of `cuMemCreate` is reached by the devices that were given
/// access.
pub(crate) fn may_reach(block: &Block, context: &Context) -> bool {
    match (&block.mapped, block.kind) {
        (Some(mapped), _) => mapped.lets(context.device),
        (None, Kind::Pinned | Kind::Managed) => true,
        (None, _) => block.context == context.handle || context.reaches(block.context),
    }
}

/// Where the driver finds this many bytes at an address, which `work` of a context reads or writes: as long as the caller
/// keeps the allocations `known`. Addresses of unknown memory are those of the host.
pub(crate) fn place(
    known: &Blocks,
    address: u64,
    bytes: usize,
    writes: bool,
    (context, work): (&Context, &Accessor),
) -> Result<*mut u8, Failure> {
    match known.find(address, bytes) {
        Found::Inside(block, _) if block.mapped.is_some() && !may_reach(block, context) => {
            let what = format!("memory at {address:#x} that device {} has no access to", context.device);
            Err((ILLEGAL_ADDRESS, what))
        }
        Found::Inside(block, offset) => {
            let shadow = block.shadow.as_ref();
            watched(shadow.and_then(|shadow| shadow.access(offset..offset + bytes, writes, work)))?;
            Ok(block.mapping.at(offset))
        }
        Found::Outside => Ok(std::ptr::with_exposed_provenance_mut(address as usize)),
        Found::Past => {
            Err((INVALID_VALUE, format!("{bytes} bytes at {address:#x} end behind their allocation")))
        }
    }
}

pub(crate) fn copy(source: u64, target: u64, bytes: usize, by: (&Context, &Accessor)) -> Result<(), Failure> {
    let known = blocks();
    let (from, to) = (place(&known, source, bytes, false, by)?, place(&known, target, bytes, true, by)?);
    // SAFETY: both places are that long, and kept by `known`; memory of the host is valid by the promise of the program
    // that copies.
    unsafe { to.copy_from(from, bytes) };
    Ok(())
}

/// Whether the host reaches the memory at an address.
pub(crate) fn is_of_host(address: u64) -> bool {
    matches!(blocks().find(address, 1), Found::Inside(block, _) if block.kind.is_of_host())
}

/// Does something with the word at an address, which must be in memory that the driver has given out.
pub(crate) fn with_word<T>(address: u64, act: impl FnOnce(&AtomicU32) -> T) -> Result<T, Failure> {
    match blocks().find(address, size_of::<u32>()) {
        Found::Inside(block, offset) if address.is_multiple_of(4) => {
            // SAFETY: the word lies in the block, which is mapped as long as `blocks` holds it; others access it by atomic
            // operations.
            Ok(act(unsafe { AtomicU32::from_ptr(block.mapping.at(offset).cast()) }))
        }
        _ => Err((ILLEGAL_ADDRESS, format!("a number at {address:#x}, where no allocation is"))),
    }
}

/// The number at an address, if it compares with `number` as the flags `how` of the driver say.
pub(crate) fn reached(address: u64, number: u32, how: u32) -> Result<Option<u32>, Failure> {
    // A driver that only records lets the host set numbers after the call that waits for them.
    if settings().has(Fault::Gates) || settings().records {
        return Ok(Some(number));
    }
    let found = with_word(address, |word| word.load(Ordering::Acquire))?;
    let is_reached = match how & 3 {
        0 => found.wrapping_sub(number).cast_signed() >= 0,
        1 => found == number,
        2 => found & number != 0,
        _ => !(found | number) != 0,
    };
    Ok(is_reached.then_some(found))
}
