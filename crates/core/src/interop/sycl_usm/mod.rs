//! `__sycl_usm_array_interface__`, version 1: arrays in unified shared memory (USM), as members of a dictionary.
//! <https://intelpython.github.io/dpctl/latest/api_reference/dpctl/sycl_usm_array_interface.html>
//!
//! The dictionary has no member for a stream: the producer synchronises before it gives the dictionary. It has none for
//! an owner either: the user of the array holds the object that gave the dictionary.

use super::check::Unchecked;
use super::cuda_array::{address_of, pointer};
use super::{ArrayDescription, ArrayDevice, ArrayDeviceKind, InteropError, Protocol, typestr};

mod filter;

pub use filter::{DeviceType, SyclFilter};

/// The unchecked members of the dictionary; `None` for a member that is absent or `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyclUsmArrayInterface {
    /// The extent of each axis.
    pub shape: Option<Vec<i64>>,
    /// The element type, such as `<f8`.
    pub typestr: Option<String>,
    /// The address from which `offset` counts, and a flag, which is ignored: producers disagree about its meaning.
    pub data: Option<(u64, bool)>,
    /// The version of the protocol.
    pub version: Option<i64>,
    /// The distance in elements between neighbours along each axis; `None` for C order.
    pub strides: Option<Vec<i64>>,
    /// The offset of the first element from the address, in elements; `None` for 0.
    pub offset: Option<i64>,
    /// The context or the device of the memory.
    pub syclobj: Option<SyclObject>,
}

/// The member `syclobj` in each of its forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyclObject {
    /// A filter string: the memory belongs to the default context of the platform of that device.
    Filter(String),
    /// A `SyclContext`: the address of its `sycl::context`.
    Context(u64),
    /// A `SyclQueue`: the address of its `sycl::queue`.
    Queue(u64),
    /// A capsule: its name and its pointer.
    Capsule(String, u64),
    /// An object with `_get_capsule()`: the name and the pointer of that capsule.
    WithCapsule(String, u64),
    /// None of these: the name of the type of the object.
    Other(String),
}

/// The context or the device of the memory, from any form of [`SyclObject`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyclOwner {
    /// The default context of the platform of a device.
    Device(SyclFilter),
    /// The `sycl::context` at this address. The device follows from the address of the array.
    Context(usize),
    /// The context and the device of the `sycl::queue` at this address.
    Queue(usize),
}

const FAULTS: Protocol = Protocol::SyclUsmArray;

impl SyclUsmArrayInterface {
    /// The checked array, and the owner of its memory, which the backend verifies.
    ///
    /// # Errors
    /// An [`InteropError`] for a missing, malformed or unsupported member.
    pub fn describe(&self) -> Result<(ArrayDescription, SyclOwner), InteropError> {
        match self.version {
            Some(1) => {}
            Some(found) => {
                return Err(FAULTS.fault("version").value("1", found, "update the older of the two"));
            }
            None => return Err(missing("version", "1")),
        }
        let typestr =
            self.typestr.as_deref().ok_or_else(|| missing("typestr", "an element type such as `<f8`"))?;
        let element = typestr::parse(FAULTS, typestr)?;
        let shape = self.shape.as_deref().ok_or_else(|| missing("shape", "a tuple of extents"))?;
        let (address, _) = self.data.ok_or_else(|| missing("data", "a tuple (address, read-only)"))?;
        let pointer = pointer(FAULTS, address)?;
        let offset = self.offset.unwrap_or(0);
        if offset < 0 {
            let fault = FAULTS.fault("offset");
            return Err(fault.value("a number of elements from 0 on", offset, "correct the producer"));
        }
        let owner = self
            .syclobj
            .as_ref()
            .ok_or_else(|| missing("syclobj", "a queue, a context or a filter string"))?;
        let owner = owner.resolve()?;
        let device = ArrayDevice { kind: ArrayDeviceKind::Usm, index: None };
        let array = Unchecked::new(FAULTS, element, pointer, shape, device)
            .strides_in_elements(self.strides.as_deref())
            .offset_in_bytes("offset", i128::from(offset) * element.bytes() as i128)
            .check()?;
        Ok((array, owner))
    }

    /// The members for an array whose memory belongs to `syclobj`.
    ///
    /// # Errors
    /// `BufferError` for memory that is not USM, and for an element type without a type string.
    pub fn of(array: &ArrayDescription, syclobj: SyclObject) -> Result<SyclUsmArrayInterface, InteropError> {
        if array.device().kind != ArrayDeviceKind::Usm {
            let fault = FAULTS.fault("data");
            return Err(fault.buffer("unified shared memory", array.device(), "use DLPack for this array"));
        }
        Ok(SyclUsmArrayInterface {
            shape: Some(array.shape().iter().map(|&extent| extent as i64).collect()),
            typestr: Some(typestr::of(FAULTS, array.element())?),
            data: Some((address_of(array), array.read_only())),
            version: Some(1),
            strides: (!array.is_contiguous())
                .then(|| array.strides().iter().map(|&stride| stride as i64).collect()),
            offset: Some(0),
            syclobj: Some(syclobj),
        })
    }
}

impl SyclObject {
    /// The owner of the memory, from any form.
    ///
    /// # Errors
    /// `ValueError` for a malformed filter string, a null address and a used capsule; `TypeError` for a capsule of
    /// another name, and for any other object.
    pub fn resolve(&self) -> Result<SyclOwner, InteropError> {
        let fault = FAULTS.fault("syclobj");
        let reference = |address: u64| {
            usize::try_from(address).ok().filter(|address| *address != 0).ok_or_else(|| {
                let found = format!("{address:#x}");
                fault.value("the address of a queue or a context", found, "correct the producer")
            })
        };
        match self {
            SyclObject::Filter(text) => text.parse().map(SyclOwner::Device),
            SyclObject::Context(address) => reference(*address).map(SyclOwner::Context),
            SyclObject::Queue(address) => reference(*address).map(SyclOwner::Queue),
            SyclObject::Capsule(name, address) | SyclObject::WithCapsule(name, address) => {
                match name.as_str() {
                    "SyclContextRef" => reference(*address).map(SyclOwner::Context),
                    "SyclQueueRef" => reference(*address).map(SyclOwner::Queue),
                    "used_SyclContextRef" | "used_SyclQueueRef" => {
                        let advice = "ask for the interface again: a capsule can be used once";
                        Err(fault.value("an unused capsule", format!("{name:?}"), advice))
                    }
                    _ => {
                        let expected = "a capsule named `SyclQueueRef` or `SyclContextRef`";
                        Err(fault.wrong_type(expected, format!("{name:?}"), "correct the producer"))
                    }
                }
            }
            SyclObject::Other(type_name) => {
                let expected =
                    "a queue, a context, a filter string, a capsule or an object with `_get_capsule`";
                Err(fault.wrong_type(expected, type_name, "correct the producer"))
            }
        }
    }
}

fn missing(field: &'static str, expected: &str) -> InteropError {
    FAULTS.fault(field).value(expected, "nothing", "correct the producer")
}
