//! The functions of Level Zero, as `ze_api.h` declares them.
//!
//! Functions that are not here are missing in the library, which DPC++ takes for features that the driver lacks.

#![allow(
    clippy::missing_safety_doc,
    non_snake_case,
    reason = "the names and the contracts are those of Level Zero"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::settings::settings;
use crate::status::{INVALID_NULL_POINTER, SUCCESS, Status, UNKNOWN};

mod command;
mod compiler;
mod device;
mod event;
mod list;
mod loader;
mod memory;
mod program;

/// Does the work of a function. No panic leaves it.
fn call(name: &str, arguments: impl FnOnce() -> String, act: impl FnOnce() -> Result<(), Status>) -> Status {
    if settings().traces {
        eprintln!("{name}({})", arguments());
    }
    let done = catch_unwind(AssertUnwindSafe(act));
    let status = match done {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(status)) => status,
        Err(_) => UNKNOWN,
    };
    if settings().traces && status != SUCCESS {
        eprintln!("{name}: {status:#x}");
    }
    status
}

/// Declares functions of the driver.
macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) $work:block)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> $crate::status::Status {
                #[allow(unused_unsafe, reason = "some follow no address")]
                $crate::api::call(
                    stringify!($name),
                    || {
                        let arguments: &[String] = &[$(format!("{:x?}", $argument)),*];
                        arguments.join(", ")
                    },
                    // SAFETY: the block follows only addresses that the caller of the function vouches for.
                    || unsafe { $work },
                )
            }
        )*
    };
}
use functions;

/// Writes to where the caller wants a result.
///
/// # Safety
/// `place` is null or points to a variable.
unsafe fn give<T>(place: *mut T, value: T) -> Result<(), Status> {
    if place.is_null() {
        return Err(INVALID_NULL_POINTER);
    }
    // SAFETY: the caller's promise.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Reads a description.
///
/// # Safety
/// `place` is null or points to a value.
unsafe fn taken<T: Copy>(place: *const T) -> Result<T, Status> {
    if place.is_null() {
        return Err(INVALID_NULL_POINTER);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { place.read_unaligned() })
}

/// Gives a list in the manner of Level Zero: its length if `count` is 0 or there is no place, else at most `count` items,
/// each by `put`.
///
/// # Safety
/// `count` points to a number, and `place` is null or points to that many items.
unsafe fn give_list<T, I: Copy>(
    count: *mut u32,
    place: *mut T,
    items: &[I],
    put: impl Fn(*mut T, I),
) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    let wanted = unsafe { taken(count)? } as usize;
    if place.is_null() || wanted == 0 {
        // SAFETY: the same.
        return unsafe { give(count, items.len() as u32) };
    }
    let given = wanted.min(items.len());
    for (number, item) in items.iter().take(given).enumerate() {
        // SAFETY: the same.
        put(unsafe { place.add(number) }, *item);
    }
    // SAFETY: the same.
    unsafe { give(count, given as u32) }
}

/// The objects of an array of handles.
///
/// # Safety
/// `handles` points to `count` handles, or `count` is 0.
unsafe fn all_of<T>(
    table: &crate::objects::Table<T>,
    count: u32,
    handles: *const crate::objects::Handle,
) -> Result<Vec<std::sync::Arc<T>>, Status> {
    if count > 0 && handles.is_null() {
        return Err(INVALID_NULL_POINTER);
    }
    // SAFETY: the caller's promise.
    (0..count as usize).map(|number| table.get(unsafe { *handles.add(number) })).collect()
}
