//! Reaching memory by the addresses of the program.

use std::sync::atomic::{AtomicU32, Ordering};

use haloport_cuda_races::{Race, Work as Accessor};

use crate::memory::blocks::{Found, blocks};
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

/// Where the driver finds this many bytes at an address, which `work` reads or writes. Addresses of unknown memory are
/// those of the host.
pub(crate) fn place(address: u64, bytes: usize, writes: bool, work: &Accessor) -> Result<*mut u8, Failure> {
    match blocks().find(address, bytes) {
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

pub(crate) fn copy(source: u64, target: u64, bytes: usize, work: &Accessor) -> Result<(), Failure> {
    let (from, to) = (place(source, bytes, false, work)?, place(target, bytes, true, work)?);
    // SAFETY: both places are that long; memory of the host is valid by the promise of the program that copies.
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

/// Whether the number at an address compares with `number` as the flags `how` of the driver say.
pub(crate) fn is_reached(address: u64, number: u32, how: u32) -> Result<bool, Failure> {
    // A driver that only records lets the host set numbers after the call that waits for them.
    if settings().has(Fault::Gates) || settings().records {
        return Ok(true);
    }
    let found = with_word(address, |word| word.load(Ordering::Acquire))?;
    Ok(match how & 3 {
        0 => found.wrapping_sub(number).cast_signed() >= 0,
        1 => found == number,
        2 => found & number != 0,
        _ => !(found | number) != 0,
    })
}
