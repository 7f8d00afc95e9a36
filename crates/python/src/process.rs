//! The process: forks, and what is dropped when other threads of Python may wait for it.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::error::ExchangeError;
use crate::interrupt;

/// Whether a communicator or a device was made in this process.
static USED: AtomicBool = AtomicBool::new(false);

/// Whether this process was forked from one that had made communicators or devices, whose threads, MPI and device
/// contexts do not exist here.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Watches for forks. Called once, when the module is imported.
pub(crate) fn watch_forks() {
    extern "C" fn in_child() {
        if USED.load(Ordering::Relaxed) {
            FORKED.store(true, Ordering::Relaxed);
        }
    }
    // SAFETY: the handler only reads and writes atomics, which is allowed after a fork. Without memory for it (the only
    // error), forks go unnoticed.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Checks that this process may use Haloport, and notes that it does.
pub(crate) fn begin_use() -> PyResult<()> {
    check()?;
    USED.store(true, Ordering::Relaxed);
    Ok(())
}

/// Checks that this process was not forked from one that used Haloport.
#[inline]
pub(crate) fn check() -> PyResult<()> {
    if is_forked() { Err(forked()) } else { Ok(()) }
}

#[inline]
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

#[cold]
fn forked() -> PyErr {
    ExchangeError::new_err(
        "this process was forked from one that used Haloport, whose ranks, threads and devices it does not have; start \
         it with the method `spawn` of multiprocessing, or use Haloport in the parent only",
    )
}

/// A value that may wait for other ranks, or free memory of a device, when it is dropped: other threads of Python run
/// meanwhile, and a forked process leaves it to its parent.
#[derive(Debug)]
pub(crate) struct Held<T: Send>(Option<T>);

impl<T: Send> Held<T> {
    pub(crate) fn new(value: T) -> Held<T> {
        Held(Some(value))
    }

    pub(crate) fn get(&self) -> PyResult<&T> {
        check()?;
        self.0.as_ref().ok_or_else(forked)
    }

    pub(crate) fn get_mut(&mut self) -> PyResult<&mut T> {
        check()?;
        self.0.as_mut().ok_or_else(forked)
    }
}

impl<T: Send> Drop for Held<T> {
    fn drop(&mut self) {
        let Some(value) = self.0.take() else { return };
        if is_forked() || is_ending() {
            std::mem::forget(value);
            return;
        }
        let mut value = Some(value);
        let dropped = Python::try_attach(|py| {
            let value = value.take();
            py.detach(|| drop(value));
            // A wait that was interrupted cannot raise the exception here.
            if let Some(interrupt) = interrupt::take() {
                raise_soon(py, interrupt);
            }
        });
        if dropped.is_none() {
            std::mem::forget(value);
        }
    }
}

/// Whether Python ends, so that other threads run no more: nothing waits for ranks or devices then, and their memory is
/// left to the end of the process.
pub(crate) fn is_ending() -> bool {
    let is_ending = Python::try_attach(|py| {
        // What is dropped may be a part of an exception that is being raised.
        let raised = PyErr::take(py);
        // SAFETY: this thread is attached; the name ends with 0; the function is borrowed from the module, which is null
        // once the modules are gone.
        let function = unsafe {
            Bound::from_borrowed_ptr_or_opt(py, ffi::PySys_GetObject(c"is_finalizing".as_ptr().cast_mut()))
        };
        let answer = function.map(|function| function.call0().and_then(|answer| answer.extract::<bool>()));
        if let Some(raised) = raised {
            raised.restore(py);
        }
        !matches!(answer, Some(Ok(false)))
    });
    is_ending.unwrap_or(true)
}

/// Raises the exception of an interrupt at the next chance.
fn raise_soon(py: Python<'_>, interrupt: PyErr) {
    match interrupt.is_instance_of::<PyKeyboardInterrupt>(py) {
        // SAFETY: this thread is attached.
        true => unsafe { ffi::PyErr_SetInterrupt() },
        false => interrupt.write_unraisable(py, None),
    }
}
