//! `__cuda_array_interface__`: arrays of CuPy and Numba.

use haloport::interop::cuda_array::CudaArrayInterface;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::described::{Described, Place, type_name};
use crate::error::OrRaise;

/// Describes an array by the value of its `__cuda_array_interface__`.
pub(crate) fn describe(interface: &Bound<'_, PyAny>) -> PyResult<Described> {
    const NAME: &str = "__cuda_array_interface__";
    let members = Interface::new(NAME, interface)?;
    let cuda = CudaArrayInterface {
        shape: members.get("shape")?,
        typestr: members.get("typestr")?,
        data: members.get("data")?,
        version: members.get("version")?,
        strides: members.get("strides")?,
        masked: members.get::<Py<PyAny>>("mask")?.is_some(),
        stream: members.get("stream")?,
    };
    let (array, stream) = cuda.describe().or_raise()?;
    Ok(Described { array, place: Place::Cuda(stream), keep: None })
}

/// The dictionary of an array interface.
pub(super) struct Interface<'a, 'py> {
    name: &'static str,
    members: &'a Bound<'py, PyDict>,
}

impl<'a, 'py> Interface<'a, 'py> {
    pub(super) fn new(name: &'static str, interface: &'a Bound<'py, PyAny>) -> PyResult<Interface<'a, 'py>> {
        match interface.cast::<PyDict>() {
            Ok(members) => Ok(Interface { name, members }),
            Err(_) => Err(PyTypeError::new_err(format!(
                "`{name}`: expected a dictionary, found {}",
                type_name(interface)
            ))),
        }
    }

    /// A member; `None` if it is absent or `None`.
    pub(super) fn get<T: for<'x> FromPyObject<'x, 'py>>(&self, key: &str) -> PyResult<Option<T>> {
        let Some(value) = self.members.get_item(key)?.filter(|value| !value.is_none()) else {
            return Ok(None);
        };
        value.extract().map(Some).map_err(|_| {
            let found = value.repr().map_or_else(|_| type_name(&value), |text| text.to_string());
            PyTypeError::new_err(format!("`{}`: `{key}` has a value of the wrong type, {found}", self.name))
        })
    }

    pub(super) fn raw(&self, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.members.get_item(key)?.filter(|value| !value.is_none()))
    }
}
