//! Streams, and those that are current.

use haloport::device::{Device as _, DeviceId, Priority, Stream as _, any};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::arguments::number;
use crate::device::Device;
use crate::error::OrRaise;
use crate::process;

/// A queue of work on a device, in order. On the CPU, whose work is done when a call returns, a stream with handle 0.
///
/// As a context manager it is the current stream of its device within the block, as `current_stream` tells: plans, kernels,
/// copies and events that are given no stream use it, even for arrays whose package works in another one. Threads, and
/// tasks of `asyncio`, have current streams of their own. The end of the block waits for the work in the stream.
///
/// Parameters
/// ----------
/// device : str, Device or dpctl.SyclQueue
///     The device; by default the CPU.
/// priority : {"low", "normal", "high"}
///     The priority of its work, on devices that have priorities.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct Stream {
    device: Device,
    stream: any::Stream,
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (device=None, *, priority=None))]
    #[pyo3(text_signature = "(device='cpu', *, priority='normal')")]
    fn py_new(device: Option<&Bound<'_, PyAny>>, priority: Option<&Bound<'_, PyAny>>) -> PyResult<Stream> {
        const PRIORITIES: &str = "\"low\", \"normal\" or \"high\"";
        let priority = priority.map(|given| number::<String>(given, "priority", PRIORITIES)).transpose()?;
        let priority = match priority.as_deref().unwrap_or("normal") {
            "low" => Priority::Low,
            "normal" => Priority::Normal,
            "high" => Priority::High,
            other => {
                return Err(PyValueError::new_err(format!(
                    "priority: expected {PRIORITIES}, found {other:?}"
                )));
            }
        };
        let device = device.map_or_else(Device::plain_cpu, Device::of)?;
        let stream = device.any.create_stream(priority).or_raise()?;
        Ok(Stream { device, stream })
    }

    /// The device.
    #[getter]
    fn device(&self) -> Device {
        self.device.clone()
    }

    /// The native handle as an integer: a ``cudaStream_t``, a ``cl_command_queue``, 0 on the CPU.
    #[getter]
    fn handle(&self) -> usize {
        self.stream.handle()
    }

    /// Waits until all work in the stream is done.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        process::check()?;
        py.detach(|| self.device.any.synchronize(&self.stream)).or_raise()
    }

    /// The handle for packages of CUDA.
    fn __cuda_stream__(&self) -> PyResult<(i64, usize)> {
        match &self.stream {
            any::Stream::Cuda(stream) => Ok((0, stream.handle())),
            _ => Err(pyo3::exceptions::PyTypeError::new_err(format!(
                "expected a stream of CUDA, found one of {}",
                self.device.name()
            ))),
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let entered = entered(slf.py())?;
        let streams = entered.iter().chain([slf.clone().into_any()]);
        set_entered(PyTuple::new(slf.py(), streams.collect::<Vec<_>>())?)?;
        Ok(slf)
    }

    fn __exit__(
        slf: &Bound<'_, Self>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let py = slf.py();
        let mut streams: Vec<Bound<'_, PyAny>> = entered(py)?.iter().collect();
        if let Some(last) = streams.iter().rposition(|stream| stream.is(slf)) {
            streams.remove(last);
            set_entered(PyTuple::new(py, streams)?)?;
        }
        slf.get().synchronize(py)?;
        Ok(false)
    }

    fn __repr__(&self) -> String {
        format!("<haloport.Stream: {}, handle {:#x}>", self.device.name(), self.handle())
    }
}

/// The stream in which plans, kernels, copies and events work on a device if they are given no stream: that of the innermost
/// ``with`` block around the call that has a stream of the device, otherwise its default stream. Arrays of other
/// packages have streams of their own, which count instead of the default stream.
///
/// Parameters
/// ----------
/// device : str, Device or dpctl.SyclQueue
///     The device; by default the CPU.
#[pyfunction]
#[pyo3(signature = (device=None), text_signature = "(device='cpu')")]
pub(crate) fn current_stream<'py>(
    py: Python<'py>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, Stream>> {
    let device = device.map_or_else(Device::plain_cpu, Device::of)?;
    if let Some(stream) = current(py, |found| found.device_id() == device.id())? {
        return Ok(stream);
    }
    let stream = device.any.default_stream();
    Bound::new(py, Stream { device, stream })
}

/// The stream of the innermost block around this call that `fits`.
pub(crate) fn current<'py>(
    py: Python<'py>,
    fits: impl Fn(&Stream) -> bool,
) -> PyResult<Option<Bound<'py, Stream>>> {
    let streams = entered(py)?;
    let found = streams.iter().rev().filter_map(|stream| stream.cast_into::<Stream>().ok());
    Ok(found.into_iter().find(|stream| fits(stream.get())))
}

/// The streams of the blocks around this call, the innermost last.
fn entered(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    let streams = variable(py)?.call_method1("get", (PyTuple::empty(py),))?;
    Ok(streams.cast_into()?)
}

fn set_entered(streams: Bound<'_, PyTuple>) -> PyResult<()> {
    variable(streams.py())?.call_method1("set", (streams,)).map(drop)
}

/// The variable of the context, one for each thread and each task.
fn variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let variable = VARIABLE.get_or_try_init(py, || -> PyResult<_> {
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        Ok(class.call1(("haloport.streams",))?.unbind())
    })?;
    Ok(variable.bind(py))
}

impl Stream {
    pub(crate) fn device_id(&self) -> DeviceId {
        self.device.id()
    }

    /// Another handle to the stream.
    pub(crate) fn stream(&self) -> any::Stream {
        self.stream.clone()
    }
}
