//! Waits that the driver leaves out, so that a test shows whether it notices that the program lacks them.
//!
//! They are named by a place in the source of the program: the file and the line of any call in the stack of the wait. The
//! executable needs line tables (`debug = "line-tables-only"`).

use std::backtrace::Backtrace;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use crate::settings::settings;

/// The largest number of calls of a stack that distinguish it from others.
const DEPTH: usize = 64;

/// The stacks that were seen, by their return addresses, and whether they have the place. Looking up the lines of an address
/// takes long.
static SEEN: Mutex<BTreeMap<Vec<usize>, bool>> = Mutex::new(BTreeMap::new());

/// Whether the wait that the program is calling for is to be left out. The first of them is printed.
pub(crate) fn is_left_out() -> bool {
    let Some(place) = &settings().without_wait else { return false };
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let has_been_found = seen.values().any(|has_place| *has_place);
    *seen.entry(return_addresses()).or_insert_with(|| {
        let has_place = Backtrace::force_capture().to_string().contains(&format!("{place}:"));
        if has_place && !has_been_found {
            eprintln!("the driver for tests: the wait at {place} is left out");
        }
        has_place
    })
}

fn return_addresses() -> Vec<usize> {
    let mut addresses = [std::ptr::null_mut::<c_void>(); DEPTH];
    // SAFETY: the array has room for that many addresses.
    let found = unsafe { libc::backtrace(addresses.as_mut_ptr(), DEPTH as i32) };
    addresses[..usize::try_from(found).unwrap_or(0)].iter().map(|address| address.addr()).collect()
}
