//! The steps of `await`.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::PyIterator;

/// The steps that follow each other at once: most messages come soon.
const AT_ONCE: u32 = 100;
/// The pause between later ones, in seconds. Loops of asyncio round it up to a millisecond.
const PAUSE: f64 = 0.0005;

/// An object that can be awaited.
pub(crate) trait Awaited: Send + Sync {
    /// Makes progress, and returns whether `finish` would return without waiting.
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool>;
    /// Ends the wait, and returns what `await` gives.
    fn finish(&self, py: Python<'_>) -> PyResult<Py<PyAny>>;
}

/// The iterator of an `await`. Each step makes progress and lets other tasks of the event loop run. Under asyncio, a long
/// wait leaves the core to others.
#[pyclass(frozen, module = "haloport", name = "_Steps")]
pub(crate) struct Steps {
    awaited: Box<dyn Awaited>,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    steps: u32,
    /// The steps of a pause under way.
    pause: Option<Py<PyIterator>>,
}

#[pymethods]
impl Steps {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // Not locked while code of Python runs.
        let taken = || self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let under_way = taken().pause.take();
        if let Some(pause) = under_way
            && let Some(step) = self.step_of(pause.into_bound(py))?
        {
            return Ok(step);
        }
        if self.awaited.is_ready(py)? {
            return Err(PyStopIteration::new_err((self.awaited.finish(py)?,)));
        }
        let steps = taken().steps;
        taken().steps = steps.saturating_add(1);
        if steps >= AT_ONCE
            && let Some(pause) = pause(py)?
            && let Some(step) = self.step_of(pause)?
        {
            return Ok(step);
        }
        Ok(py.None())
    }
}

impl Steps {
    pub(crate) fn new(awaited: impl Awaited + 'static) -> Steps {
        Steps { awaited: Box::new(awaited), taken: Mutex::default() }
    }

    /// The next step of a pause; `None` if it is over.
    fn step_of(&self, mut pause: Bound<'_, PyIterator>) -> PyResult<Option<Py<PyAny>>> {
        let Some(step) = pause.next() else { return Ok(None) };
        let step = step?.unbind();
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).pause = Some(pause.unbind());
        Ok(Some(step))
    }
}

/// A pause of asyncio; `None` if another package runs the loop.
fn pause(py: Python<'_>) -> PyResult<Option<Bound<'_, PyIterator>>> {
    let Ok(asyncio) = py.import("sys")?.getattr("modules")?.get_item("asyncio") else { return Ok(None) };
    match asyncio.call_method0("get_running_loop") {
        Ok(_) => {}
        Err(error) if error.is_instance_of::<PyRuntimeError>(py) => return Ok(None),
        Err(error) => return Err(error),
    }
    let sleep = asyncio.call_method1("sleep", (PAUSE,))?;
    sleep.call_method0("__await__")?.try_iter().map(Some)
}
