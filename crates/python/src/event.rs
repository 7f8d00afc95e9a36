//! Events.

use haloport::device::{Device as _, Event as _, any};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::device::Device;
use crate::error::OrRaise;
use crate::order::Order;
use crate::process;

/// A point in a stream. An event that was never recorded counts as reached. On the CPU its handle is 0.
///
/// Parameters
/// ----------
/// device : str, Device or dpctl.SyclQueue
///     The device; by default the CPU.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct Event {
    device: Device,
    event: any::Event,
}

#[pymethods]
impl Event {
    #[new]
    #[pyo3(signature = (device=None), text_signature = "(device='cpu')")]
    fn py_new(device: Option<&Bound<'_, PyAny>>) -> PyResult<Event> {
        Event::on(device.map_or_else(Device::plain_cpu, Device::of)?)
    }

    /// The device.
    #[getter]
    fn device(&self) -> Device {
        self.device.clone()
    }

    /// The native handle as an integer: a ``cudaEvent_t``, a ``cl_event``, 0 on the CPU.
    #[getter]
    fn handle(&self) -> usize {
        self.event.handle()
    }

    /// Records the event after all work that is in a stream now. Does not block.
    ///
    /// Parameters
    /// ----------
    /// stream : stream-like
    ///     A stream as for a plan; by default the current stream of the device.
    #[pyo3(signature = (stream=None))]
    fn record(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        process::check()?;
        let order = Order::of(py, stream, std::slice::from_ref(&self.device))?;
        self.device.any.record(&self.event, &order.stream(&self.device.any)).or_raise()
    }

    /// Whether the work before the event is done. Does not block.
    fn query(&self) -> PyResult<bool> {
        process::check()?;
        self.device.any.query(&self.event).or_raise()
    }

    /// Waits until the work before the event is done, or lets later work in a stream wait for that.
    ///
    /// Parameters
    /// ----------
    /// stream : stream-like, optional
    ///     The stream that waits, without blocking the caller; by default the caller waits.
    #[pyo3(signature = (stream=None))]
    fn wait(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        process::check()?;
        let Some(stream) = stream else {
            return py.detach(|| self.device.any.host_wait(&self.event)).or_raise();
        };
        let order = Order::of(py, Some(stream), std::slice::from_ref(&self.device))?;
        self.device.any.stream_wait(&order.stream(&self.device.any), &self.event).or_raise()
    }

    /// The time in seconds from another event to this one. Both must have been reached.
    fn elapsed(&self, since: &Bound<'_, Event>) -> PyResult<f64> {
        process::check()?;
        let since = since.get();
        if since.device.id() != self.device.id() {
            return Err(PyValueError::new_err(format!(
                "since: expected an event of {}, found one of {}",
                self.device.name(),
                since.device.name()
            )));
        }
        Ok(self.device.any.elapsed(&since.event, &self.event).or_raise()?.as_secs_f64())
    }

    fn __repr__(&self) -> String {
        format!("<haloport.Event: {}, handle {:#x}>", self.device.name(), self.handle())
    }
}

impl Event {
    fn on(device: Device) -> PyResult<Event> {
        let event = device.any.create_event(true).or_raise()?;
        Ok(Event { device, event })
    }
}
