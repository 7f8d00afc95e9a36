//! Queues and contexts of SYCL, as objects of Python.

use std::ffi::CStr;

use haloport::interop::sycl_usm::{SyclObject, SyclOwner};
use haloport::sycl::{SyclDevice, SyclStream};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString, PyTuple};

use crate::arguments::type_name;
use crate::error::OrRaise;

/// The queue or the context that memory belongs to, and the object that keeps it alive.
#[derive(Debug)]
pub(crate) struct Owner {
    owner: SyclOwner,
    /// A capsule of it, or the array's own object.
    _object: Py<PyAny>,
}

/// The queue of a stream object; `None` if it is neither a `SyclQueue` nor a stream of PyTorch on `xpu`.
pub(crate) fn queue_of(object: &Bound<'_, PyAny>) -> PyResult<Option<Owner>> {
    if let Some(Ok(queue)) = object.getattr_opt("sycl_queue")?.map(|queue| queue.extract::<usize>()) {
        let owner = SyclOwner::Queue(queue);
        return Ok(Some(Owner { owner, _object: object.clone().unbind() }));
    }
    if !object.hasattr("_get_capsule")? {
        return Ok(None);
    }
    let (syclobj, object) = sycl_object(object)?;
    let owner = syclobj.resolve().or_raise()?;
    Ok(matches!(owner, SyclOwner::Queue(_)).then(|| Owner { owner, _object: object.unbind() }))
}

impl Owner {
    pub(super) fn new(owner: SyclOwner, object: Py<PyAny>) -> Owner {
        Owner { owner, _object: object }
    }

    /// Whether it is a queue.
    pub(crate) fn has_queue(&self) -> bool {
        matches!(self.owner, SyclOwner::Queue(_))
    }

    /// The device that the memory belongs to.
    pub(crate) fn device(&self) -> PyResult<SyclDevice> {
        match &self.owner {
            // SAFETY: the object that owns the queue is alive as long as `self`, and its library is loaded.
            SyclOwner::Queue(queue) => Ok(unsafe { SyclDevice::from_sycl_queue(*queue) }.or_raise()?.0),
            SyclOwner::Context(context) => {
                // SAFETY: as for a queue.
                unsafe { SyclDevice::from_sycl_context(*context, None) }.or_raise()
            }
            SyclOwner::Device(filter) => SyclDevice::from_sycl_filter(&filter.to_string()).or_raise(),
        }
    }

    /// The stream of the queue; `None` for a context.
    pub(crate) fn stream(&self) -> PyResult<Option<SyclStream>> {
        match &self.owner {
            // SAFETY: as in `device`.
            SyclOwner::Queue(queue) => Ok(Some(unsafe { SyclDevice::from_sycl_queue(*queue) }.or_raise()?.1)),
            _ => Ok(None),
        }
    }
}

/// The member `syclobj`, and the object that keeps what it names alive.
pub(super) fn sycl_object<'py>(object: &Bound<'py, PyAny>) -> PyResult<(SyclObject, Bound<'py, PyAny>)> {
    if let Ok(text) = object.cast::<PyString>() {
        return Ok((SyclObject::Filter(text.to_string()), object.clone()));
    }
    // The parts of a filter string: backend, type and number.
    if let Ok(parts) = object.cast::<PyTuple>() {
        let parts = parts.iter().map(|part| part.str().map(|part| part.to_string()));
        return Ok((SyclObject::Filter(parts.collect::<PyResult<Vec<_>>>()?.join(":")), object.clone()));
    }
    if let Some((name, address)) = capsule(object) {
        return Ok((SyclObject::Capsule(name, address), object.clone()));
    }
    if object.hasattr("_get_capsule")? {
        let made = object.call_method0("_get_capsule")?;
        if let Some((name, address)) = capsule(&made) {
            return Ok((SyclObject::WithCapsule(name, address), made));
        }
    }
    // A device of dpctl.
    if let Some(Ok(filter)) = object.getattr_opt("filter_string")?.map(|filter| filter.extract::<String>()) {
        return Ok((SyclObject::Filter(filter), object.clone()));
    }
    Ok((SyclObject::Other(type_name(object)), object.clone()))
}

/// The name and the address of a capsule.
fn capsule(object: &Bound<'_, PyAny>) -> Option<(String, u64)> {
    let capsule = object.cast::<PyCapsule>().ok()?;
    // SAFETY: the capsule is alive, and its name lives as long as it.
    unsafe {
        let name = ffi::PyCapsule_GetName(capsule.as_ptr());
        if name.is_null() {
            let _ = PyErr::take(object.py());
            return None;
        }
        let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name);
        Some((CStr::from_ptr(name).to_string_lossy().into_owned(), pointer.expose_provenance() as u64))
    }
}
