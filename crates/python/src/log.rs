//! Warnings of the library, for the logger `haloport` of Python's `logging`.
//!
//! They come on any thread, even while locks are held that a thread with Python may wait for. So a thread of their own
//! passes them on; it starts with the first one, and ends when Python exits.

use std::io::{self, Write as _};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use haloport::log::{Level, set_sink};
use pyo3::prelude::*;
use pyo3::types::PyCFunction;

type Line = (Level, String);

enum State {
    /// There was no line yet.
    Quiet,
    Running(Sender<Line>, JoinHandle<()>),
    /// Python exits.
    Ended,
}

static STATE: Mutex<State> = Mutex::new(State::Quiet);

/// The process that has the thread: a process that is forked from it has not.
static PROCESS: OnceLock<u32> = OnceLock::new();

/// Passes lines on to `logging` from now on. Called once, when the module is imported.
pub(crate) fn begin(py: Python<'_>) -> PyResult<()> {
    PROCESS.get_or_init(std::process::id);
    set_sink(Some(Arc::new(|level, text: &str| {
        if let Err((level, text)) = send((level, text.to_owned())) {
            to_stderr(level, &text);
        }
    })));
    let end = PyCFunction::new_closure(py, None, None, |arguments, _| end(arguments.py()))?;
    py.import("atexit")?.call_method1("register", (end,)).map(drop)
}

/// Hands a line to the thread; returns it if there is none.
fn send(line: Line) -> Result<(), Line> {
    let mut state = lock();
    if matches!(*state, State::Quiet) {
        let (sender, lines) = channel();
        match thread::Builder::new().name("haloport-log".into()).spawn(move || pass_on(&lines)) {
            Ok(thread) => *state = State::Running(sender, thread),
            Err(_) => return Err(line),
        }
    }
    match &*state {
        State::Running(sender, _) => sender.send(line).map_err(|unsent| unsent.0),
        State::Quiet | State::Ended => Err(line),
    }
}

fn pass_on(lines: &Receiver<Line>) {
    for (level, text) in lines {
        let number = match level {
            Level::Error => 40,
            Level::Warning => 30,
        };
        let logged = Python::try_attach(|py| {
            let logger = py.import("logging")?.call_method1("getLogger", ("haloport",))?;
            logger.call_method1("log", (number, &text)).map(drop)
        });
        if !matches!(logged, Some(Ok(()))) {
            to_stderr(level, &text);
        }
    }
}

/// Waits until all lines are passed on; later ones go to standard error.
fn end(py: Python<'_>) {
    if PROCESS.get() != Some(&std::process::id()) {
        return;
    }
    py.detach(|| {
        let before = std::mem::replace(&mut *lock(), State::Ended);
        if let State::Running(sender, thread) = before {
            drop(sender);
            let _ = thread.join();
        }
    });
}

/// Writes a line to standard error; does nothing if that is closed.
fn to_stderr(level: Level, text: &str) {
    let _ = writeln!(io::stderr(), "haloport: {level}: {text}");
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
