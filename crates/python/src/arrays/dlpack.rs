//! DLPack: the exchange interface in C where a type has it; otherwise the method `__dlpack__`.

use std::ffi::{CStr, c_int, c_void};

use haloport::interop::dlpack::{DLDataType, DLDevice, DLManagedTensorVersioned, DLTensor, ManagedTensor};
use haloport::interop::stream::StreamOrder;
use haloport::interop::sycl_usm::{SyclFilter, SyclOwner};
use haloport::interop::{ArrayDescription, ArrayDeviceKind};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use pyo3::{ffi, intern};

use super::described::{Described, Keep, Place};
use super::sycl_owner::Owner;
use crate::arguments::type_name;
use crate::error::OrRaise;

/// The first members of `DLPackExchangeAPI`, version 1, up to the functions that are called here.
/// <https://github.com/dmlc/dlpack/blob/main/include/dlpack/dlpack.h>
#[repr(C)]
struct ExchangeApi {
    version: [u32; 2],
    previous: *mut c_void,
    allocate: *const c_void,
    managed_tensor_of: Option<unsafe extern "C" fn(*mut c_void, *mut *mut DLManagedTensorVersioned) -> c_int>,
    object_of: *const c_void,
    /// Writes a tensor that is valid while the object is unchanged. May be null.
    tensor_of: Option<unsafe extern "C" fn(*mut c_void, *mut DLTensor) -> c_int>,
    /// Writes the stream in which the package works on a device.
    current_stream: Option<unsafe extern "C" fn(c_int, i32, *mut *mut c_void) -> c_int>,
}

const API: &CStr = c"dlpack_exchange_api";

/// Describes an array whose type has DLPack's exchange interface in C, without synchronisation; `None` if it lacks that.
pub(crate) fn by_exchange_api(object: &Bound<'_, PyAny>) -> PyResult<Option<Described>> {
    let py = object.py();
    let Some(capsule) = object.get_type().getattr_opt(intern!(py, "__dlpack_c_exchange_api__"))? else {
        return Ok(None);
    };
    let Ok(capsule) = capsule.cast_into::<PyCapsule>() else { return Ok(None) };
    // SAFETY: the name says what the capsule holds; the interface lives as long as the process.
    let api = unsafe {
        match ffi::PyCapsule_GetPointer(capsule.as_ptr(), API.as_ptr()) {
            pointer if pointer.is_null() => {
                let _ = PyErr::take(py);
                return Ok(None);
            }
            pointer => &*pointer.cast::<ExchangeApi>(),
        }
    };
    let (1, Some(managed_tensor_of)) = (api.version[0], api.managed_tensor_of) else { return Ok(None) };
    let mut tensor = std::ptr::null_mut();
    // SAFETY: the object is of the type that the interface belongs to, and this thread is attached to Python.
    let failed = unsafe { managed_tensor_of(object.as_ptr().cast(), &raw mut tensor) } != 0;
    if failed || tensor.is_null() {
        return Err(PyErr::take(py).unwrap_or_else(|| {
            PyValueError::new_err(format!("DLPack of {}: it gave no tensor", type_name(object)))
        }));
    }
    let tensor = ManagedTensor::from_capsule(c"dltensor_versioned", tensor.cast()).or_raise()?;
    // SAFETY: the tensor was made for this call, and its deleter may be called on any thread, as DLPack demands.
    let taken = unsafe { tensor.take() };
    if taken.is_err() {
        // SAFETY: the tensor stays with its owner if it was not taken: this call.
        unsafe { tensor.delete() };
    }
    let tensor = taken.or_raise()?;
    let array = tensor.array().clone();
    let place = place_of(object, &array, || {
        let mut stream = std::ptr::null_mut();
        let (kind, number) =
            (DLDevice::of(array.device()).or_raise()?.device_type, array.device().index.unwrap_or(0));
        // SAFETY: the device is one of the package's.
        let failed =
            api.current_stream.is_none_or(|call| unsafe { call(kind, number as i32, &raw mut stream) } != 0);
        if failed {
            let _ = PyErr::take(py);
        }
        Ok(stream.addr())
    })?;
    Ok(Some(Described { array, place, keep: Some(Keep::Tensor { _tensor: tensor }) }))
}

/// Describes an array by its method `__dlpack__`. On CUDA, the producer makes the legacy default stream wait.
pub(crate) fn describe(object: &Bound<'_, PyAny>) -> PyResult<Described> {
    let capsule = call(object)?;
    let Ok(capsule) = capsule.cast::<PyCapsule>() else {
        return Err(PyTypeError::new_err(format!(
            "DLPack: expected a capsule from `__dlpack__`, found {}",
            type_name(&capsule)
        )));
    };
    // SAFETY: the capsule is alive; a capsule without a name has a null one, and the name lives as long as the capsule.
    let (name, pointer) = unsafe {
        let name = ffi::PyCapsule_GetName(capsule.as_ptr());
        if name.is_null() {
            let _ = PyErr::take(object.py());
            return Err(PyTypeError::new_err("DLPack: expected a capsule with a name, found one without"));
        }
        (CStr::from_ptr(name), ffi::PyCapsule_GetPointer(capsule.as_ptr(), name))
    };
    let tensor = ManagedTensor::from_capsule(name, pointer).or_raise()?;
    // SAFETY: a capsule of this name holds a live tensor, which belongs to its consumer once it is renamed. Any thread
    // may call its deleter, as DLPack demands.
    let owned = unsafe { tensor.take() }.or_raise()?;
    // SAFETY: the capsule is alive, and the name is static.
    unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), tensor.used_capsule_name().as_ptr()) };
    let array = owned.array().clone();
    let place = place_of(object, &array, || Ok(0))?;
    Ok(Described { array, place, keep: Some(Keep::Tensor { _tensor: owned }) })
}

/// The kind of device that the method `__dlpack_device__` names; `None` if the object lacks it.
pub(crate) fn device_kind(object: &Bound<'_, PyAny>) -> PyResult<Option<ArrayDeviceKind>> {
    let Some(method) = object.getattr_opt(intern!(object.py(), "__dlpack_device__"))? else {
        return Ok(None);
    };
    let Ok((device_type, device_id)) = method.call0()?.extract::<(i32, i32)>() else { return Ok(None) };
    Ok(Some(DLDevice { device_type, device_id }.array_device().or_raise()?.kind))
}

/// Calls `__dlpack__` with the keywords that the producer knows.
fn call<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let versioned = PyDict::new(py);
    versioned.set_item("max_version", (1, 0))?;
    versioned.set_item("copy", false)?;
    let method = object.getattr(intern!(py, "__dlpack__"))?;
    match method.call((), Some(&versioned)) {
        // A producer from before version 1.0.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => method.call0(),
        result => result,
    }
}

/// Where the array of `object` lies. `stream` gives the stream in which its package works there: on CUDA that stream, for unified
/// shared memory the address of a `sycl::queue`, and 0 where the package does not say.
fn place_of(
    object: &Bound<'_, PyAny>,
    array: &ArrayDescription,
    stream: impl FnOnce() -> PyResult<usize>,
) -> PyResult<Place> {
    Ok(match array.device().kind {
        ArrayDeviceKind::Cuda | ArrayDeviceKind::CudaManaged => Place::Cuda(match stream()? {
            0 | 1 => StreamOrder::Default,
            2 => StreamOrder::PerThread,
            handle => StreamOrder::Native(handle),
        }),
        ArrayDeviceKind::Usm => {
            let owner = match stream()? {
                // By the rule of DLPack, the number counts the root devices of SYCL.
                0 => SyclOwner::Device(SyclFilter {
                    backend: None,
                    device_type: None,
                    index: Some(array.device().index.unwrap_or(0)),
                }),
                queue => SyclOwner::Queue(queue),
            };
            Place::Sycl(Owner::new(owner, object.clone().unbind()))
        }
        _ => Place::Host,
    })
}

// The fields of a tensor that the interface writes are plain numbers and addresses.
const _: () = assert!(size_of::<DLTensor>() == 48 && size_of::<DLDataType>() == 4);
