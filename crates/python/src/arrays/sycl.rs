//! `__sycl_usm_array_interface__`: arrays of dpctl and dpnp.

use haloport::interop::sycl_usm::SyclUsmArrayInterface;
use pyo3::prelude::*;

use super::cuda::Interface;
use super::described::{Described, Place};
use super::sycl_owner::{Owner, sycl_object};
use crate::error::OrRaise;

/// Describes an array by the value of its `__sycl_usm_array_interface__`.
pub(crate) fn describe(interface: &Bound<'_, PyAny>) -> PyResult<Described> {
    const NAME: &str = "__sycl_usm_array_interface__";
    let members = Interface::new(NAME, interface)?;
    let (syclobj, object) = match members.raw("syclobj")? {
        None => (None, interface.clone()),
        Some(object) => {
            let (syclobj, object) = sycl_object(&object)?;
            (Some(syclobj), object)
        }
    };
    let sycl = SyclUsmArrayInterface {
        shape: members.list("shape")?,
        typestr: members.get("typestr", "a text such as '<f8'")?,
        data: members.data()?,
        version: members.get("version", "a number")?,
        strides: members.list("strides")?,
        offset: members.get("offset", "a number of elements")?,
        syclobj,
    };
    let (array, owner) = sycl.describe().or_raise()?;
    Ok(Described { array, place: Place::Sycl(Owner::new(owner, object.unbind())), keep: None })
}
