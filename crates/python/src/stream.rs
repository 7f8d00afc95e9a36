//! Streams and events.

use haloport::device::{AnyStream, Device as _, DeviceId, Event as _, Priority, Stream as _};
use haloport::{AnyDevice, cpu, cuda, sycl};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::device::Device;
use crate::error::OrRaise;
use crate::order::Order;
use crate::process;

/// A queue of work on a device, in order. On the CPU, whose work is done when a call returns, a stream with handle 0.
///
/// As a context manager it waits at the end for its work.
///
/// Parameters
/// ----------
/// device : str, Device or dpctl.SyclQueue
///     The device; by default the CPU.
#[pyclass(frozen, module = "haloport")]
pub(crate) struct Stream {
    device: Device,
    stream: OwnStream,
}

/// A stream of any backend.
#[derive(Debug, Clone)]
enum OwnStream {
    Cpu(cpu::CpuStream),
    Cuda(cuda::CudaStream),
    Sycl(sycl::SyclStream),
}

/// A point in a stream. An event that was never recorded counts as reached. On the CPU its handle is 0.
///
/// As a context manager it is recorded at the begin, and waited for at the end.
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

/// Evaluates an expression with the device, and with the stream or the event of the same backend.
macro_rules! with {
    ($device:expr, $kind:ident $own:expr, |$of:ident, $inner:ident| $body:expr) => {
        match (&$device.any, &$own) {
            (AnyDevice::Cpu($of), $kind::Cpu($inner)) => $body,
            (AnyDevice::Cuda($of), $kind::Cuda($inner)) => $body,
            (AnyDevice::Sycl($of), $kind::Sycl($inner)) => $body,
            _ => Err(other_backend(&$device)),
        }
    };
}

fn other_backend(device: &Device) -> PyErr {
    PyValueError::new_err(format!(
        "expected a stream or an event of {}, found one of another device",
        device.name()
    ))
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (device=None))]
    fn py_new(device: Option<&Bound<'_, PyAny>>) -> PyResult<Stream> {
        let device = device_or_cpu(device)?;
        let stream = match &device.any {
            AnyDevice::Cpu(device) => OwnStream::Cpu(device.create_stream(Priority::Normal).or_raise()?),
            AnyDevice::Cuda(device) => OwnStream::Cuda(device.create_stream(Priority::Normal).or_raise()?),
            AnyDevice::Sycl(device) => OwnStream::Sycl(device.create_stream(Priority::Normal).or_raise()?),
        };
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
        match &self.stream {
            OwnStream::Cpu(stream) => stream.handle(),
            OwnStream::Cuda(stream) => stream.handle(),
            OwnStream::Sycl(stream) => stream.handle(),
        }
    }

    /// Waits until all work in the stream is done.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        process::check()?;
        with!(self.device, OwnStream self.stream, |device, stream| {
            py.detach(|| device.synchronize(stream)).or_raise()
        })
    }

    /// A new event, recorded in this stream.
    fn record(&self) -> PyResult<Event> {
        let event = Event::on(self.device.clone())?;
        event.record_in(self)?;
        Ok(event)
    }

    /// Lets later work in this stream wait for an event, without blocking.
    fn wait(&self, event: &Bound<'_, Event>) -> PyResult<()> {
        process::check()?;
        let event = event.get();
        match (&self.device.any, &self.stream, &event.event) {
            (AnyDevice::Cpu(device), OwnStream::Cpu(stream), OwnEvent::Cpu(event)) => {
                device.stream_wait(stream, event)
            }
            (AnyDevice::Cuda(device), OwnStream::Cuda(stream), OwnEvent::Cuda(event)) => {
                device.stream_wait(stream, event)
            }
            (AnyDevice::Sycl(device), OwnStream::Sycl(stream), OwnEvent::Sycl(event)) => {
                device.stream_wait(stream, event)
            }
            _ => return Err(other_backend(&self.device)),
        }
        .or_raise()
    }

    /// The handle for packages of CUDA.
    fn __cuda_stream__(&self) -> PyResult<(i64, usize)> {
        match &self.stream {
            OwnStream::Cuda(stream) => Ok((0, stream.handle())),
            _ => Err(pyo3::exceptions::PyTypeError::new_err(format!(
                "expected a stream of CUDA, found one of {}",
                self.device.name()
            ))),
        }
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
        self.synchronize(py)?;
        Ok(false)
    }

    fn __repr__(&self) -> String {
        format!("<haloport.Stream: {}, handle {:#x}>", self.device.name(), self.handle())
    }
}

impl Stream {
    pub(crate) fn device_id(&self) -> DeviceId {
        self.device.id()
    }

    /// Another handle to the stream.
    pub(crate) fn any(&self) -> Box<dyn AnyStream> {
        match &self.stream {
            OwnStream::Cpu(stream) => Box::new(*stream),
            OwnStream::Cuda(stream) => Box::new(stream.clone()),
            OwnStream::Sycl(stream) => Box::new(stream.clone()),
        }
    }
}

#[pymethods]
impl Event {
    #[new]
    #[pyo3(signature = (device=None))]
    fn py_new(device: Option<&Bound<'_, PyAny>>) -> PyResult<Event> {
        Event::on(device_or_cpu(device)?)
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
    ///     A stream as for a plan; by default the default stream of the device.
    #[pyo3(signature = (stream=None))]
    fn record(&self, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        process::check()?;
        let order = Order::of(stream, &self.device)?;
        macro_rules! record {
            ($device:expr, $event:expr, $stream:ty) => {{
                let stream = match &order {
                    Order::On(stream) => stream.as_any().downcast_ref::<$stream>().cloned(),
                    _ => None,
                };
                $device.record($event, &stream.unwrap_or_else(|| $device.default_stream())).or_raise()
            }};
        }
        match (&self.device.any, &self.event) {
            (AnyDevice::Cpu(device), OwnEvent::Cpu(event)) => record!(device, event, cpu::CpuStream),
            (AnyDevice::Cuda(device), OwnEvent::Cuda(event)) => record!(device, event, cuda::CudaStream),
            (AnyDevice::Sycl(device), OwnEvent::Sycl(event)) => record!(device, event, sycl::SyclStream),
            _ => Err(other_backend(&self.device)),
        }
    }

    /// Whether the work before the event is done. Does not block.
    fn query(&self) -> PyResult<bool> {
        process::check()?;
        with!(self.device, OwnEvent self.event, |device, event| device.query(event).or_raise())
    }

    /// Waits until the work before the event is done.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        process::check()?;
        with!(self.device, OwnEvent self.event, |device, event| py.detach(|| device.host_wait(event)).or_raise())
    }

    /// The time in seconds from another event to this one. Both are reached.
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

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().record(None)?;
        Ok(slf)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        self.wait(py)?;
        Ok(false)
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

    fn record_in(&self, stream: &Stream) -> PyResult<()> {
        process::check()?;
        match (&self.device.any, &self.event, &stream.stream) {
            (AnyDevice::Cpu(device), OwnEvent::Cpu(event), OwnStream::Cpu(stream)) => {
                device.record(event, stream)
            }
            (AnyDevice::Cuda(device), OwnEvent::Cuda(event), OwnStream::Cuda(stream)) => {
                device.record(event, stream)
            }
            (AnyDevice::Sycl(device), OwnEvent::Sycl(event), OwnStream::Sycl(stream)) => {
                device.record(event, stream)
            }
            _ => return Err(other_backend(&self.device)),
        }
        .or_raise()
    }
}

fn device_or_cpu(device: Option<&Bound<'_, PyAny>>) -> PyResult<Device> {
    device.map_or_else(Device::plain_cpu, Device::of)
}
