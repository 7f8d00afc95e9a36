//! Arrays as the test program describes them.

use haloport_core::Error;
use haloport_core::interop::sycl_usm::{SyclObject, SyclOwner, SyclUsmArrayInterface};
use haloport_sycl::SyclDevice;
use serde::Deserialize;
use serde_json::{Value, json};

/// The members of `__sycl_usm_array_interface__` that are neither absent nor `None`.
#[derive(Debug, Deserialize)]
pub(crate) struct Array {
    shape: Option<Vec<i64>>,
    typestr: Option<String>,
    data: Option<(u64, bool)>,
    version: Option<i64>,
    strides: Option<Vec<i64>>,
    offset: Option<i64>,
    syclobj: Option<Object>,
}

/// The forms of `syclobj` that the test program distinguishes.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Object {
    Filter(String),
    Context(u64),
    Queue(u64),
    Capsule(String, u64),
    WithCapsule(String, u64),
    Other(String),
}

impl Array {
    pub(crate) fn interface(&self) -> SyclUsmArrayInterface {
        SyclUsmArrayInterface {
            shape: self.shape.clone(),
            typestr: self.typestr.clone(),
            data: self.data,
            version: self.version,
            strides: self.strides.clone(),
            offset: self.offset,
            syclobj: self.syclobj.clone().map(|object| match object {
                Object::Filter(text) => SyclObject::Filter(text),
                Object::Context(address) => SyclObject::Context(address),
                Object::Queue(address) => SyclObject::Queue(address),
                Object::Capsule(name, address) => SyclObject::Capsule(name, address),
                Object::WithCapsule(name, address) => SyclObject::WithCapsule(name, address),
                Object::Other(name) => SyclObject::Other(name),
            }),
        }
    }
}

/// The device of an array, in the context that the array belongs to.
///
/// # Safety
/// The object is alive.
unsafe fn device_of(owner: &SyclOwner) -> Result<SyclDevice, Error> {
    // SAFETY: the caller's promise.
    unsafe {
        match owner {
            SyclOwner::Queue(queue) => Ok(SyclDevice::from_sycl_queue(*queue)?.0),
            SyclOwner::Context(context) => Ok(SyclDevice::from_sycl_context(*context, None)?),
            SyclOwner::Device(filter) => Ok(SyclDevice::from_sycl_filter(&filter.to_string())?),
        }
    }
}

/// The results of the checks of an array, as JSON.
///
/// # Safety
/// The object in `syclobj` is alive.
pub(crate) unsafe fn described(array: &Array) -> Result<Value, Error> {
    let interface = array.interface();
    let (description, owner) = interface.describe()?;
    // SAFETY: the caller's promise.
    let device = unsafe { device_of(&owner) }?;
    let allocation = device.allocation_of(&description)?;
    let Some(syclobj) = interface.syclobj else { return Err("no `syclobj`".into()) };
    let out = SyclUsmArrayInterface::of(&description, syclobj)?;
    let addresses = description.addresses();
    Ok(json!({
        "element": description.element().to_string(),
        "elements": description.elements(),
        "first": description.first().as_ptr().addr(),
        "strides": description.strides(),
        "addresses": [addresses.start, addresses.end],
        "kind": allocation.as_ref().map(|allocation| allocation.kind.to_string()),
        "allocation": allocation.and_then(|allocation| allocation.addresses).map(|range| [range.start, range.end]),
        "interface": {
            "shape": out.shape, "typestr": out.typestr, "data": out.data, "version": out.version,
            "strides": out.strides, "offset": out.offset,
        },
    }))
}
