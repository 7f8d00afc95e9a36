//! The order of work: the argument `stream` of calls.

use haloport::device::{Device as _, Stream as _, any};
use haloport::interop::stream::{StreamObject, StreamOrder};
use haloport::{AnyDevice, Schedule};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use crate::arguments::type_name;
use crate::arguments::{number, pair, shown};
use crate::arrays::described::Place;
use crate::arrays::sycl_owner as sycl;
use crate::device::Device;
use crate::error::OrRaise;
use crate::stream::{Stream, current};

/// The type of ``DEFAULT`` and ``BLOCK``, the two orders of work that are no stream.
#[pyclass(frozen, module = "haloport", name = "_Order", eq, hash)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum NamedOrder {
    /// In order with the stream in which the package of the arrays works, where their protocol names it, else with the
    /// default stream of the device, whatever stream is current.
    #[pyo3(name = "DEFAULT")]
    Default,
    /// No stream: the caller has synchronised before, and the call blocks until the halos are in place.
    #[pyo3(name = "BLOCK")]
    Block,
}

#[pymethods]
impl NamedOrder {
    fn __repr__(&self) -> String {
        format!("haloport.{}", self.name())
    }

    /// Copies are the value itself: `copy` and `pickle` take it by its name in the module.
    fn __reduce__(&self) -> &'static str {
        self.name()
    }
}

impl NamedOrder {
    fn name(self) -> &'static str {
        match self {
            NamedOrder::Default => "DEFAULT",
            NamedOrder::Block => "BLOCK",
        }
    }
}

/// The order of the start or the end of an exchange.
pub(crate) enum Order {
    Default,
    Block,
    On(any::Stream),
}

impl Order {
    pub(crate) fn schedule(&self) -> Schedule<'_> {
        match self {
            Order::Default => Schedule::DefaultStream,
            Order::Block => Schedule::Blocking,
            Order::On(stream) => Schedule::On(stream),
        }
    }

    /// The stream of `device`: the default stream unless this order names another one of it.
    pub(crate) fn stream(&self, device: &AnyDevice) -> any::Stream {
        match self {
            Order::On(stream) if stream.device() == device.id() => stream.clone(),
            _ => device.default_stream(),
        }
    }

    /// This order, or `own`, that of the package of the arrays, if the caller names none.
    pub(crate) fn or(self, own: Option<Order>) -> Order {
        match (self, own) {
            (Order::Default, Some(own)) => own,
            (named, _) => named,
        }
    }

    /// The meaning of the argument `stream` for work on `devices`, of which a stream is one of the first. Without one, the
    /// current stream of any of them. On the CPU, which has no streams, any stream will do.
    pub(crate) fn of(
        py: Python<'_>,
        stream: Option<&Bound<'_, PyAny>>,
        devices: &[Device],
    ) -> PyResult<Order> {
        match (stream.filter(|stream| !stream.is_none()), devices.first()) {
            (None, _) => Order::current(py, devices),
            (Some(_), None) => Ok(Order::Default),
            (Some(stream), Some(device)) => Order::named(stream, device),
        }
    }

    /// In the stream of the innermost `with` block around this call that has one of these devices.
    fn current(py: Python<'_>, devices: &[Device]) -> PyResult<Order> {
        let on = |id| devices.iter().any(|device| !device.is_cpu() && device.id() == id);
        if devices.iter().all(Device::is_cpu) {
            return Ok(Order::Default);
        }
        let stream = current(py, |stream| on(stream.device_id()))?;
        Ok(stream.map_or(Order::Default, |stream| Order::On(stream.get().stream())))
    }

    fn named(stream: &Bound<'_, PyAny>, device: &Device) -> PyResult<Order> {
        if let Ok(named) = stream.cast::<NamedOrder>() {
            return Ok(match named.get() {
                NamedOrder::Default => Order::Default,
                NamedOrder::Block => Order::Block,
            });
        }
        if let Ok(own) = stream.cast::<Stream>() {
            let own = own.get();
            return match device.is_cpu() || own.device_id() == device.id() {
                true if device.is_cpu() => Ok(Order::Default),
                true => Ok(Order::On(own.stream())),
                false => Err(PyValueError::new_err(format!(
                    "stream: expected a stream of {}, found one of {}",
                    device.name(),
                    own.device_id()
                ))),
            };
        }
        if let Some(queue) = sycl::queue_of(stream)? {
            let order = Order::of_queue(&queue, device)?;
            if has_host_tasks(device) {
                // Streams of PyTorch have the other name.
                let wait = if stream.hasattr("synchronize")? { "synchronize" } else { "wait" };
                stream.call_method0(wait)?;
                return Ok(Order::Block);
            }
            return Ok(order);
        }
        let order = StreamOrder::from_object(&stream_object(stream)?).or_raise()?;
        match &device.any {
            AnyDevice::Cpu(_) => Ok(Order::Default),
            AnyDevice::Cuda(_) => Order::of_cuda(order, device),
            AnyDevice::Sycl(_) => Err(PyTypeError::new_err(format!(
                "stream: expected a SyclQueue, a haloport.Stream, DEFAULT or BLOCK for arrays of {}, found {}",
                device.name(),
                type_name(stream)
            ))),
        }
    }

    /// The order of work on an array if its caller names no stream.
    pub(crate) fn of_place(place: &Place, device: &Device) -> PyResult<Order> {
        match place {
            Place::Host | Place::Own(_) => Ok(Order::Default),
            Place::Cuda(stream) => Order::of_cuda(*stream, device),
            // Reading the interface has waited for earlier work.
            Place::Sycl(_) if has_host_tasks(device) => Ok(Order::Block),
            // Without a queue, the package's later work cannot be made to wait.
            Place::Sycl(owner) if !owner.has_queue() => Ok(Order::Block),
            Place::Sycl(owner) => Order::of_queue(owner, device),
        }
    }

    fn of_queue(queue: &sycl::Owner, device: &Device) -> PyResult<Order> {
        let (AnyDevice::Sycl(_), Some(stream)) = (&device.any, queue.stream()?) else {
            return Ok(Order::Default);
        };
        let found = stream.device();
        if found != device.id() {
            return Err(PyValueError::new_err(format!(
                "stream: expected a queue of the context and the device of the arrays, {}, found one of {found}",
                device.name()
            )));
        }
        Ok(Order::On(any::Stream::Sycl(stream)))
    }

    fn of_cuda(order: StreamOrder, device: &Device) -> PyResult<Order> {
        let (AnyDevice::Cuda(_), Some(handle)) = (&device.any, order.handle()) else {
            return Ok(Order::Default);
        };
        if handle == 0 {
            return Ok(Order::Default);
        }
        // SAFETY: the caller passes a stream that outlives the work, as the contract of `stream` says.
        Ok(Order::On(unsafe { device.any.borrow_stream(handle) }.or_raise()?))
    }
}

/// Whether SYCL may do work on the device without its queue: on CPUs, packages put some of theirs into tasks of the host
/// (oneMKL does, for arithmetic of dpnp), which wait for events of SYCL alone. Commands in the queue do not order them.
fn has_host_tasks(device: &Device) -> bool {
    matches!(device.any, AnyDevice::Sycl(_)) && device.any.info().capabilities.immediate_streams
}

/// A stream of another package, by the first attribute that it has.
fn stream_object(stream: &Bound<'_, PyAny>) -> PyResult<StreamObject> {
    let handle = |value: Bound<'_, PyAny>| number(&value, "stream", "the handle of a stream, a number");
    if stream.is_instance_of::<PyInt>() && !stream.is_instance_of::<PyBool>() {
        return Ok(StreamObject::Ptr(handle(stream.clone())?));
    }
    if stream.hasattr("__cuda_stream__")? {
        const NAME: &str = "`__cuda_stream__` of the stream";
        let found = stream.call_method0("__cuda_stream__")?;
        let Some([version, handle]) = pair(&found)? else {
            return Err(PyTypeError::new_err(format!(
                "{NAME}: expected two numbers, the version and the handle, found {}",
                shown(&found)
            )));
        };
        let version = number(&version, NAME, "the version, a number")?;
        let handle = number(&handle, NAME, "the handle, a number")?;
        return Ok(StreamObject::CudaStream { version, handle });
    }
    // CuPy; PyTorch before 2.9; Numba, whose handle is a pointer of ctypes.
    for name in ["ptr", "cuda_stream"] {
        if let Some(value) = stream.getattr_opt(name)? {
            return Ok(StreamObject::Ptr(handle(value)?));
        }
    }
    if let Some(held) = stream.getattr_opt("handle")? {
        // Events of Haloport and Numba have handles, too.
        if stream.hasattr("elapsed")? || stream.hasattr("elapsed_time")? {
            return Err(PyTypeError::new_err(format!(
                "stream: expected a stream, found the event {}; let a stream wait for it: event.wait(stream)",
                type_name(stream)
            )));
        }
        let value = held.getattr_opt("value")?.unwrap_or(held);
        return Ok(StreamObject::Ptr(if value.is_none() { 0 } else { handle(value)? }));
    }
    Ok(StreamObject::Other(type_name(stream)))
}
