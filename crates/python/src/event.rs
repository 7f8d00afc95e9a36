//! Events.

use haloport::device::{Device as _, Event as _};
use haloport::{AnyDevice, cpu, cuda, sycl};
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
    event: OwnEvent,
}

#[derive(Debug)]
enum OwnEvent {
    Cpu(cpu::CpuEvent),
    Cuda(cuda::CudaEvent),
    Sycl(sycl::SyclEvent),
}

/// Evaluates an expression with the device and the event of the same backend.
macro_rules! with {
    ($own:expr, |$device:ident, $event:ident| $body:expr) => {
        match (&$own.device.any, &$own.event) {
            (AnyDevice::Cpu($device), OwnEvent::Cpu($event)) => $body,
            (AnyDevice::Cuda($device), OwnEvent::Cuda($event)) => $body,
            (AnyDevice::Sycl($device), OwnEvent::Sycl($event)) => $body,
            _ => Err(other_backend(&$own.device)),
        }
    };
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
        match &self.event {
            OwnEvent::Cpu(event) => event.handle(),
            OwnEvent::Cuda(event) => event.handle(),
            OwnEvent::Sycl(event) => event.handle(),
        }
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
        with!(self, |device, event| device.record(event, &order.stream(device)).or_raise())
    }

    /// Whether the work before the event is done. Does not block.
    fn query(&self) -> PyResult<bool> {
        process::check()?;
        with!(self, |device, event| device.query(event).or_raise())
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
            return with!(self, |device, event| py.detach(|| device.host_wait(event)).or_raise());
        };
        let order = Order::of(py, Some(stream), std::slice::from_ref(&self.device))?;
        with!(self, |device, event| device.stream_wait(&order.stream(device), event).or_raise())
    }

    /// The time in seconds from another event to this one. Both must have been reached.
    fn elapsed(&self, since: &Bound<'_, Event>) -> PyResult<f64> {
        process::check()?;
        let time = match (&self.device.any, &since.get().event, &self.event) {
            (AnyDevice::Cpu(device), OwnEvent::Cpu(since), OwnEvent::Cpu(event)) => {
                device.elapsed(since, event)
            }
            (AnyDevice::Cuda(device), OwnEvent::Cuda(since), OwnEvent::Cuda(event)) => {
                device.elapsed(since, event)
            }
            (AnyDevice::Sycl(device), OwnEvent::Sycl(since), OwnEvent::Sycl(event)) => {
                device.elapsed(since, event)
            }
            _ => return Err(other_backend(&self.device)),
        };
        Ok(time.or_raise()?.as_secs_f64())
    }

    fn __repr__(&self) -> String {
        format!("<haloport.Event: {}, handle {:#x}>", self.device.name(), self.handle())
    }
}

impl Event {
    fn on(device: Device) -> PyResult<Event> {
        let event = match &device.any {
            AnyDevice::Cpu(device) => OwnEvent::Cpu(device.create_event(true).or_raise()?),
            AnyDevice::Cuda(device) => OwnEvent::Cuda(device.create_event(true).or_raise()?),
            AnyDevice::Sycl(device) => OwnEvent::Sycl(device.create_event(true).or_raise()?),
        };
        Ok(Event { device, event })
    }
}

fn other_backend(device: &Device) -> PyErr {
    PyValueError::new_err(format!("expected an event of {}, found one of another device", device.name()))
}
