//! Payloads of messages: bytes of the host, and those of arrays on devices.

use haloport::device::{Device as _, any};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyTuple};

use crate::arguments::type_name;
use crate::arrays::describe::describe;
use crate::arrays::described::Described;
use crate::arrays::expected::named;
use crate::arrays::meaning::dtype_of_array;
use crate::comm::Communicator;
use crate::device::Device;
use crate::error::OrRaise;
use crate::memory::Array;
use crate::order::Order;

/// Where the payloads of a round go: the arguments `into` and `stream` of its start.
#[derive(Default)]
pub(crate) struct Receiver {
    into: Option<Py<PyAny>>,
    stream: Option<Py<PyAny>>,
}

impl Receiver {
    pub(crate) fn new(
        into: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Receiver> {
        let into = into.filter(|into| !into.is_none());
        match into.filter(|into| !into.is_callable()) {
            Some(wrong) => Err(PyTypeError::new_err(format!(
                "into: expected a function of a source and a number of bytes, found {}",
                type_name(wrong)
            ))),
            None => Ok(Receiver {
                into: into.map(|into| into.clone().unbind()),
                stream: stream.map(|stream| stream.clone().unbind()),
            }),
        }
    }

    /// The payload from `source` as the caller gets it: bytes, or what `into` returns for it, with the payload in it.
    pub(crate) fn receive<'py>(
        &self,
        py: Python<'py>,
        comm: &Communicator,
        source: usize,
        payload: &[u8],
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(into) = &self.into else { return Ok(PyBytes::new(py, payload).into_any()) };
        let target = into.bind(py).call1((source, payload.len()))?;
        let stream = self.stream.as_ref().map(|stream| stream.bind(py));
        write(&target, payload, stream, comm).map_err(|error| named(py, error, "into"))?;
        Ok(target)
    }
}

/// The bytes of a payload: an object with the buffer protocol, or an array. One on a device is read in stream order, and the
/// call blocks until that is done.
pub(crate) fn bytes_of(
    payload: &Bound<'_, PyAny>,
    stream: Option<&Bound<'_, PyAny>>,
    comm: &Communicator,
) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = payload.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    if let Ok(view) = PyMemoryView::from(payload) {
        return view.call_method0("tobytes")?.extract();
    }
    if let Ok(array) = payload.cast::<Array>() {
        return array.get().to_bytes(payload.py(), stream);
    }
    // Reading changes no array, so that immutable ones will do.
    let described =
        describe(payload, true).map_err(|error| match error.is_instance_of::<PyTypeError>(payload.py()) {
            true => {
                PyTypeError::new_err(format!("expected a message of bytes, found {}", type_name(payload)))
            }
            false => error,
        })?;
    let mut bytes = vec![0; checked_bytes(&described)?];
    let device = Device::of_array(&described, comm)?;
    let stream = stream_of(payload.py(), stream, &described, &device)?;
    let first = described.array.first();
    // SAFETY: the array has these bytes, and its owner and the caller's reference keep them while it is read.
    payload.py().detach(|| unsafe { device.any.read(first, &mut bytes, &stream) }).or_raise()?;
    Ok(bytes)
}

/// A copy of a contiguous array on a device, as an array of NumPy, in the order of the stream in which its package works; blocks
/// until that is done.
pub(crate) fn copied<'py>(
    array: &Bound<'py, PyAny>,
    described: &Described,
    comm: &Communicator,
) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let dtype = dtype_of_array(array, described.array.element())?;
    let shape = PyTuple::new(py, described.array.shape())?;
    let bytes = PyBytes::new(py, &bytes_of(array, None, comm)?);
    py.import("numpy")?.call_method1("frombuffer", (bytes, dtype))?.call_method1("reshape", (shape,))
}

/// Writes a payload to an array, in stream order, and blocks until that is done.
fn write(
    target: &Bound<'_, PyAny>,
    payload: &[u8],
    stream: Option<&Bound<'_, PyAny>>,
    comm: &Communicator,
) -> PyResult<()> {
    let (py, array) = (target.py(), target.cast::<Array>().ok());
    let described = describe(target, false)?;
    described.check_writable()?;
    let bytes = checked_bytes(&described)?;
    if bytes != payload.len() {
        return Err(PyValueError::new_err(format!(
            "expected an array of {} bytes, found one of {bytes}",
            payload.len()
        )));
    }
    if let Some(array) = array {
        return array.get().set_bytes(py, payload, stream);
    }
    let device = Device::of_array(&described, comm)?;
    let stream = stream_of(py, stream, &described, &device)?;
    let first = described.array.first();
    // SAFETY: the array has these bytes and may be written, and the caller's reference keeps them meanwhile.
    py.detach(|| unsafe { device.any.write(payload, first, &stream) }).or_raise()
}

/// The bytes of an array, which must be contiguous.
fn checked_bytes(described: &Described) -> PyResult<usize> {
    let array = &described.array;
    if !array.is_contiguous() {
        return Err(PyValueError::new_err(format!(
            "expected a contiguous array, found strides {:?} of elements for the shape {:?}; pass a copy",
            array.strides(),
            array.shape()
        )));
    }
    Ok(array.elements() * array.element().bytes())
}

/// The stream that `stream` means for an array. If it is one of Haloport that is current, the host waits for the stream of the
/// array's package first.
fn stream_of(
    py: Python<'_>,
    stream: Option<&Bound<'_, PyAny>>,
    described: &Described,
    device: &Device,
) -> PyResult<any::Stream> {
    let is_named = stream.is_some_and(|stream| !stream.is_none());
    let named = Order::of(py, stream, std::slice::from_ref(device))?;
    let own = Order::of_place(&described.place, device)?;
    if let (Order::On(_), false) = (&named, is_named) {
        py.detach(|| device.any.synchronize(&own.stream(&device.any))).or_raise()?;
    }
    Ok(named.or(Some(own)).stream(&device.any))
}
