//! Exchanges that were started.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

use crate::arrays::torch::mark_changed;
use crate::exchanges::Exchanges;
use crate::steps::{Awaited, Steps};

/// An exchange that was started. It makes progress in the calls of Haloport, and by itself on devices with streams or if
/// `Communicator.progress` is ``"thread"``.
///
/// As a context manager it is finished at the end. ``await`` finishes it, too, and lets other tasks of the event loop run
/// meanwhile. If it is dropped instead, the next call of its plan finishes it.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct Pending {
    exchanges: Arc<Exchanges>,
    number: u64,
    abandoned: Arc<AtomicBool>,
    /// The tensors of PyTorch that change until it is finished.
    tensors: Mutex<Vec<Py<PyAny>>>,
}

#[pymethods]
impl Pending {
    /// Ends the exchange: blocks until the halos are in place; on asynchronous devices, until the end is in the stream.
    /// Waits for the start of each neighbour, and for nothing later: a neighbour may compute, or wait for this rank by
    /// other means, before it ends its own exchange. Does nothing if the exchange has ended.
    ///
    /// Parameters
    /// ----------
    /// stream : stream-like, optional
    ///     The stream whose later work sees the halos; by default that of the start. With `BLOCK` the call returns when
    ///     the halos are in place.
    #[pyo3(signature = (stream=None))]
    fn finish(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let tensors = std::mem::take(&mut *self.tensors.lock().unwrap_or_else(PoisonError::into_inner));
        mark_changed(py, &tensors)?;
        self.exchanges.finish(py, self.number, stream)
    }

    /// Makes progress, and returns whether `finish` would return without waiting for a neighbour. Does not block. Raises
    /// `ExchangeError` on a thread that may not call MPI.
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        self.exchanges.is_ready(py, self.number)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        self.finish(py, None)?;
        Ok(false)
    }

    fn __await__(slf: Bound<'_, Self>) -> Steps {
        Steps::new(slf.unbind())
    }
}

impl Pending {
    /// The exchange with this number; `tensors` are those of PyTorch among its arrays.
    pub(crate) fn new(
        exchanges: Arc<Exchanges>,
        number: u64,
        abandoned: Arc<AtomicBool>,
        tensors: Vec<Py<PyAny>>,
    ) -> Pending {
        Pending { exchanges, number, abandoned, tensors: Mutex::new(tensors) }
    }
}

impl Awaited for Py<Pending> {
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        self.get().is_ready(py)
    }

    fn finish(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.get().finish(py, None)?;
        Ok(py.None())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }
}
