//! Functions of the caller that run inside calls of the library: what they may call, and what becomes of a panic.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// How many callbacks this thread is in, one within the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Counts a callback as long as it lives.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Runs a callback. If it panics, gives the message of the panic: the thread may have other exchanges to drive.
pub(crate) fn run(callback: impl FnOnce()) -> Result<(), String> {
    DEPTH.set(DEPTH.get() + 1);
    let inside = Inside;
    // What a callback leaves half changed is its own; the exchange that it belongs to is poisoned.
    let ran = catch_unwind(AssertUnwindSafe(callback));
    drop(inside);
    ran.map_err(|panic| panic_text(&*panic))
}

/// Whether this thread is in a callback.
pub(crate) fn is_running() -> bool {
    DEPTH.get() > 0
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let known = panic.downcast_ref::<&str>().map(ToString::to_string);
    known.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
