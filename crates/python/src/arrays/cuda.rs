//! `__cuda_array_interface__`: arrays of CuPy and Numba.

use haloport::interop::cuda_array::CudaArrayInterface;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::described::{Described, Place};
use crate::arguments::type_name;
use crate::arguments::{number, numbers, pair, shown};
use crate::error::OrRaise;

/// Describes an array by the value of its `__cuda_array_interface__`.
pub(crate) fn describe(interface: &Bound<'_, PyAny>) -> PyResult<Described> {
    const NAME: &str = "__cuda_array_interface__";
    let members = Interface::new(NAME, interface)?;
    let cuda = CudaArrayInterface {
        shape: members.list("shape")?,
        typestr: members.get("typestr", "a text such as '<f8'")?,
        data: members.data()?,
        version: members.get("version", "a number")?,
        strides: members.list("strides")?,
        masked: members.raw("mask")?.is_some(),
        stream: members.get("stream", "None or the handle of a stream, a number")?,
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

    /// A member that is a number or a text, which `expected` describes; `None` if it is absent or `None`.
    pub(super) fn get<T: FromPyObjectOwned<'py>>(&self, key: &str, expected: &str) -> PyResult<Option<T>> {
        self.raw(key)?.map(|value| number(&value, &self.named(key), expected)).transpose()
    }

    /// A member that is a list of numbers, one for each axis.
    pub(super) fn list(&self, key: &str) -> PyResult<Option<Vec<i64>>> {
        self.raw(key)?.map(|value| numbers(&value, &self.named(key), "whole numbers")).transpose()
    }

    /// The member `data`: the address, and whether the array is read-only.
    pub(super) fn data(&self) -> PyResult<Option<(u64, bool)>> {
        let Some(value) = self.raw("data")? else { return Ok(None) };
        let name = self.named("data");
        let Some([address, read_only]) = pair(&value)? else {
            return Err(PyTypeError::new_err(format!(
                "{name}: expected a tuple (address, read-only), found {}",
                shown(&value)
            )));
        };
        let address = number(&address, &name, "an address of this machine")?;
        // Producers also write 0 and 1.
        Ok(Some((address, read_only.is_truthy()?)))
    }

    fn named(&self, key: &str) -> String {
        format!("`{key}` of `{}`", self.name)
    }

    /// A member; `None` if it is absent or `None`.
    pub(super) fn raw(&self, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.members.get_item(key)?.filter(|value| !value.is_none()))
    }
}
