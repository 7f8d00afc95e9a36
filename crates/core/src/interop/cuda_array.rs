//! `__cuda_array_interface__`, version 3 (and 2, which PyTorch still uses): arrays on CUDA devices, as members of a
//! dictionary. <https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html>
//!
//! The dictionary has no member for an owner: the user of the array holds the object that gave the dictionary.

use super::check::Unchecked;
use super::stream::StreamOrder;
use super::{ArrayDescription, ArrayDevice, ArrayDeviceKind, InteropError, Protocol, typestr};

/// The unchecked members of the dictionary; `None` for a member that is absent or `None`. The member `descr` is left
/// out: for the types of fields it repeats `typestr`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CudaArrayInterface {
    /// The extent of each axis.
    pub shape: Option<Vec<i64>>,
    /// The element type, such as `<f8`.
    pub typestr: Option<String>,
    /// The address of the first element, 0 for an empty array, and whether it is read-only.
    pub data: Option<(u64, bool)>,
    /// The version of the protocol.
    pub version: Option<i64>,
    /// The distance in **bytes** between neighbours along each axis; `None` for C order.
    pub strides: Option<Vec<i64>>,
    /// Whether there is a `mask`.
    pub masked: bool,
    /// The stream on which the producer works; not in version 2.
    pub stream: Option<i64>,
}

const FAULTS: Protocol = Protocol::CudaArray;

impl CudaArrayInterface {
    /// The checked array, and the stream with which it is ordered. No member has the number of the device, which
    /// follows from the address.
    ///
    /// # Errors
    /// An [`InteropError`] for a missing, malformed or unsupported member.
    pub fn describe(&self) -> Result<(ArrayDescription, StreamOrder), InteropError> {
        match self.version {
            Some(2 | 3) => {}
            Some(found) => {
                return Err(FAULTS.fault("version").value("3 or 2", found, "update the older of the two"));
            }
            None => return Err(missing("version", "3 or 2")),
        }
        if self.masked {
            let fault = FAULTS.fault("mask");
            return Err(fault.buffer("no mask", "one", "fill the masked elements before the exchange"));
        }
        let typestr =
            self.typestr.as_deref().ok_or_else(|| missing("typestr", "an element type such as `<f8`"))?;
        let element = typestr::parse(FAULTS, typestr)?;
        let shape = self.shape.as_deref().ok_or_else(|| missing("shape", "a tuple of extents"))?;
        let (address, read_only) =
            self.data.ok_or_else(|| missing("data", "a tuple (address, read-only)"))?;
        let pointer = pointer(FAULTS, address)?;
        let device = ArrayDevice { kind: ArrayDeviceKind::Cuda, index: None };
        let mut array = Unchecked::new(FAULTS, element, pointer, shape, device)
            .strides_in_bytes(self.strides.as_deref())
            .check()?;
        array.read_only = read_only;
        Ok((array, StreamOrder::from_cuda_array(self.stream)?))
    }

    /// The members for an array whose last work is in `stream`.
    ///
    /// # Errors
    /// `BufferError` for memory without CUDA addresses, and for an element type without a type string.
    pub fn of(array: &ArrayDescription, stream: StreamOrder) -> Result<CudaArrayInterface, InteropError> {
        use ArrayDeviceKind::*;
        if !matches!(array.device().kind, Cuda | CudaHost | CudaManaged) {
            let fault = FAULTS.fault("data");
            return Err(fault.buffer("memory of CUDA", array.device(), "use DLPack for this array"));
        }
        Ok(CudaArrayInterface {
            shape: Some(array.shape().iter().map(|&extent| extent as i64).collect()),
            typestr: Some(typestr::of(FAULTS, array.element())?),
            data: Some((address_of(array), array.read_only())),
            version: Some(3),
            strides: (!array.is_contiguous()).then(|| {
                let bytes = array.element().bytes() as i64;
                array.strides().iter().map(|&stride| stride as i64 * bytes).collect()
            }),
            masked: false,
            stream: stream.to_cuda_array(),
        })
    }
}

/// The address of the first element as a number, 0 without elements. The receiver may follow it: its provenance is
/// exposed.
pub(super) fn address_of(array: &ArrayDescription) -> u64 {
    if array.is_empty() { 0 } else { array.first().as_ptr().expose_provenance() as u64 }
}

/// The pointer to an address from another program.
pub(super) fn pointer(protocol: Protocol, address: u64) -> Result<*mut u8, InteropError> {
    usize::try_from(address).map(std::ptr::with_exposed_provenance_mut).map_err(|_| {
        let found = format!("{address:#x}");
        protocol.fault("data").value("an address of this machine", found, "correct the producer")
    })
}

fn missing(field: &'static str, expected: &str) -> InteropError {
    FAULTS.fault(field).value(expected, "nothing", "correct the producer")
}
