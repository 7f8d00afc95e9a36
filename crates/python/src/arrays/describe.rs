//! The protocols of arrays, in the order in which they are tried.

use haloport::interop::ArrayDeviceKind;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::described::Described;
use super::package::{is_jax, is_of_package};
use super::{cuda, dlpack, numpy, sycl, torch};
use crate::arguments::type_name;
use crate::memory::Array;

/// Describes an array, by the first protocol that it has. `fresh` says that nothing else uses it yet, so that it may be
/// written even if its package does not allow it.
pub(crate) fn describe(object: &Bound<'_, PyAny>, fresh: bool) -> PyResult<Described> {
    if let Some(array) = numpy::as_array(object) {
        return numpy::describe(array);
    }
    if let Ok(array) = object.cast::<Array>() {
        return array.get().described();
    }
    if !fresh && is_jax(object)? {
        return Err(PyBufferError::new_err(format!(
            "expected an array that can be written, found the immutable {}; use `y = plan.functional(x)` of a plan for its \
             layout: `plan = grid.plan(haloport.Layout(x.shape, x.dtype))`",
            type_name(object)
        )));
    }
    if torch::is_tensor(object)? {
        torch::check(object)?;
        return by_protocol(object).map_err(|error| torch::explained(object, error));
    }
    by_protocol(object)
}

fn by_protocol(object: &Bound<'_, PyAny>) -> PyResult<Described> {
    if let Some(described) = dlpack::by_exchange_api(object)? {
        return on_known_device(described);
    }
    if let Some(interface) = attribute(object, "__sycl_usm_array_interface__")? {
        let described = sycl::describe(&interface)?;
        let is_locked = is_locked(object)?;
        return Ok(if is_locked { described.for_reading() } else { described });
    }
    // Packages for ROCm have the interface of CUDA, too: the kind of device decides.
    if let Some(kind) = dlpack::device_kind(object)? {
        check_kind(kind)?;
    }
    if let Some(interface) = attribute(object, "__cuda_array_interface__")? {
        return cuda::describe(&interface);
    }
    if object.hasattr("__dlpack__")? {
        return on_known_device(dlpack::describe(object)?);
    }
    if let Some(described) = numpy::by_buffer(object)? {
        return Ok(described);
    }
    if object.hasattr("__array_interface__")? {
        return numpy::by_interface(object);
    }
    if let Some(advice) = advice_for(object)? {
        return Err(PyTypeError::new_err(format!(
            "expected an array, found {}; {advice}",
            type_name(object)
        )));
    }
    Err(PyTypeError::new_err(format!(
        "expected an array with DLPack, the buffer protocol, `__array_interface__`, `__cuda_array_interface__` or \
         `__sycl_usm_array_interface__`, found {}",
        type_name(object)
    )))
}

/// What to pass instead of an object that has arrays in it; `None` for others.
fn advice_for(object: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    let is_list = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
    Ok(if is_list || object.is_instance_of::<PyDict>() {
        Some(
            "pass each array as an argument of its own, as in `plan(u, v)`; only on a rank with several domains a field is a \
             sequence of arrays",
        )
    } else if is_of_package(object, "xarray")? {
        Some("pass the array within, `u.data`; of a Dataset that of a variable, `dataset[name].data`")
    } else if is_of_package(object, "dask")? {
        Some("compute it first, `u = u.compute()`, and pass the result")
    } else {
        None
    })
}

/// Refuses memory of kinds that no device here reaches.
fn on_known_device(described: Described) -> PyResult<Described> {
    check_kind(described.array.device().kind).map(|()| described)
}

fn check_kind(kind: ArrayDeviceKind) -> PyResult<()> {
    use ArrayDeviceKind::{Cuda, CudaHost, CudaManaged, Host, Usm};
    match kind {
        Host | CudaHost | Cuda | CudaManaged | Usm => Ok(()),
        kind => Err(PyBufferError::new_err(format!(
            "expected memory of the host, of CUDA or of SYCL, found {kind}; copy the array to one of them"
        ))),
    }
}

/// Whether an array of dpctl or dpnp must not be written. The flag of its interface is not trusted: dpctl's memory sets it if
/// it can be written.
fn is_locked(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Some(flags) = attribute(object, "flags")? else { return Ok(false) };
    Ok(attribute(&flags, "writable")?.map(|writable| writable.is_truthy()).transpose()? == Some(false))
}

/// An attribute that is a protocol; `None` if the object lacks it.
fn attribute<'py>(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    // dpctl's arrays raise other errors, too, such as those of queues that failed.
    object.getattr_opt(name)
}
