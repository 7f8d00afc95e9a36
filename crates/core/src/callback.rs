//! Functions of the caller that run inside calls of the library: what they may call, and what becomes of a panic.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// Called with the end of something that may fail by an `E`.
pub(crate) type Completion<E> = Box<dyn FnMut(Result<(), &E>) + Send>;

/// A completion callback, if there is one.
pub(crate) struct Callback<E> {
    /// Locked while it runs, so that calls come one after another.
    call: Mutex<Option<Completion<E>>>,
}

impl<E> Callback<E> {
    pub(crate) fn new(call: Option<Completion<E>>) -> Callback<E> {
        Callback { call: Mutex::new(call) }
    }

    pub(crate) fn set(&self, call: Option<Completion<E>>) {
        *self.call.lock().unwrap_or_else(PoisonError::into_inner) = call;
    }

    /// Runs the callback. If it panics, gives the message of the panic: the thread may have other exchanges to drive. The
    /// caller holds no lock that the callback may want.
    pub(crate) fn run(&self, end: Result<(), &E>) -> Result<(), String> {
        let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(call) = &mut *call else { return Ok(()) };
        let _inside = Inside::new();
        // What a callback leaves half changed is its own; the exchange that it belongs to is poisoned.
        catch_unwind(AssertUnwindSafe(|| call(end))).map_err(|panic| panic_text(&*panic))
    }
}

thread_local! {
    /// How many callbacks this thread is in, one within the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Counts a callback as long as it lives.
struct Inside;

impl Inside {
    fn new() -> Inside {
        DEPTH.set(DEPTH.get() + 1);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
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
