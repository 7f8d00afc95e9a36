//! Signals, such as that of Ctrl-C, that end a wait.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::prelude::*;

thread_local! {
    /// The exception that a signal handler raised while this thread waited.
    static INTERRUPT: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// A check that ends the waits of a communicator once a signal handler of Python has raised an exception, such as
/// `KeyboardInterrupt`. Python runs signal handlers in the main thread only.
pub(crate) fn check() -> Arc<dyn Fn() -> bool + Send + Sync> {
    Arc::new(|| {
        // Other threads would wait for Python in vain.
        // SAFETY: neither call has a condition.
        if unsafe { libc::gettid() != libc::getpid() } {
            return false;
        }
        let raised = Python::try_attach(|py| py.check_signals().err()).flatten();
        let is_raised = raised.is_some();
        INTERRUPT.with(|interrupt| {
            if is_raised {
                *interrupt.borrow_mut() = raised;
            }
        });
        is_raised
    })
}

/// The exception that interrupted a wait of this thread.
pub(crate) fn take() -> Option<PyErr> {
    INTERRUPT.with(|interrupt| interrupt.borrow_mut().take())
}
