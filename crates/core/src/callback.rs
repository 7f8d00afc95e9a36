//! Callbacks of the program: no collective call within one, and a panic becomes an error.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};

/// Called with the result of an exchange, which may fail with an `E`.
pub(crate) type Completion<E> = Box<dyn FnMut(Result<(), &E>) + Send>;

/// A completion callback, or none.
pub(crate) struct Callback<E> {
    /// Locked while it runs, so that calls do not overlap.
    call: OnceLock<Mutex<Completion<E>>>,
}

impl<E> Callback<E> {
    pub(crate) fn new(call: Option<Completion<E>>) -> Callback<E> {
        Callback { call: call.map(Mutex::new).map(OnceLock::from).unwrap_or_default() }
    }

    /// Sets the callback, of a `Callback` that has none.
    pub(crate) fn set(&self, call: Completion<E>) {
        let unset = self.call.set(Mutex::new(call));
        debug_assert!(unset.is_ok(), "it is set once");
    }

    pub(crate) fn is_set(&self) -> bool {
        self.call.get().is_some()
    }

    /// Whether this thread is within a callback and this one is running, perhaps there: then the thread must not wait for its end.
    pub(crate) fn may_wait_for_itself(&self) -> bool {
        let is_called = |call: &Mutex<_>| matches!(call.try_lock(), Err(TryLockError::WouldBlock));
        is_running() && self.call.get().is_some_and(is_called)
    }

    /// Runs the callback. If it panics, returns the message of the panic, since the thread may have other exchanges to
    /// poll. The caller holds no lock that the callback may take.
    pub(crate) fn run(&self, end: Result<(), &E>) -> Result<(), String> {
        let Some(call) = self.call.get() else { return Ok(()) };
        let mut call = call.lock().unwrap_or_else(PoisonError::into_inner);
        let _inside = Inside::new();
        // Unwind safe: a callback changes data of its own, and its exchange is poisoned.
        catch_unwind(AssertUnwindSafe(|| call(end))).map_err(|panic| panic_text(&*panic))
    }
}

thread_local! {
    /// The number of callbacks that this thread is in, one within another.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Counts a callback while it exists.
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

/// Whether this thread runs a callback.
pub(crate) fn is_running() -> bool {
    DEPTH.get() > 0
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let known = panic.downcast_ref::<&str>().map(ToString::to_string);
    known.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
