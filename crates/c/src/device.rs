//! Devices of arrays: by their names, by the addresses of their memory, by a queue.

use std::fmt;
use std::ops::Range;

use haloport::cuda::CudaDevice;
use haloport::device::{DeviceError, DeviceSpec, MemoryKind, Pointer};
use haloport::exchange::FieldLayout;
use haloport::field::BlockLayout;
use haloport::{AnyDevice, AnyField, ElementType};

use crate::status::Failure;
use crate::stream::Queue;

/// Where an array is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    Host,
    /// In memory of the CUDA device of this number.
    Cuda(u32),
    /// In memory of the context of the plan's queue.
    Queue,
    /// On the device of this name.
    Named(&'a str),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Host => f.write_str("in memory of the host"),
            Place::Cuda(number) => write!(f, "in memory of cuda:{number}"),
            Place::Queue => f.write_str("in the context of options.queue"),
            Place::Named(name) => write!(f, "with device {name:?}"),
        }
    }
}

impl<'a> Place<'a> {
    /// The place of an array that names a device or not, in a plan with a queue or not, at an address that may be unknown;
    /// `None` if nothing tells.
    pub(crate) fn of(
        name: Option<&'a str>,
        queue: Option<&Queue>,
        at: Option<Pointer>,
    ) -> Result<Option<Place<'a>>, DeviceError> {
        match (name, queue, at) {
            (Some(name), _, _) => Ok(Some(Place::Named(name))),
            (None, Some(_), _) => Ok(Some(Place::Queue)),
            (None, None, None) => Ok(None),
            (None, None, Some(at)) => Ok(Some(cuda_number(at)?.map_or(Place::Host, Place::Cuda))),
        }
    }

    /// Opens the device; the CPU with `threads` threads, unless its name has a number. `array` names an array there.
    pub(crate) fn open(
        self,
        queue: Option<&Queue>,
        threads: usize,
        array: &str,
    ) -> Result<AnyDevice, Failure> {
        let cuda;
        let name = match (self, queue) {
            (Place::Queue, Some(queue)) => return Ok(queue.device.clone().into()),
            (Place::Host | Place::Queue, _) => "cpu",
            (Place::Cuda(number), _) => {
                cuda = format!("cuda:{number}");
                &cuda
            }
            (Place::Named(name), _) => name,
        };
        let device = name.parse::<DeviceSpec>()?.or_threads(threads).open()?;
        match &device {
            AnyDevice::Sycl(_) => Err(Failure::argument(format!(
                "{array}.device: expected null for memory of OpenCL or SYCL, which belongs to a context, and a queue of that \
                 context in options.queue, found {name:?}"
            ))),
            _ => Ok(device),
        }
    }
}

/// Checks that the bytes of a span from an address on are in memory that `device` reaches. On the host, calls no driver
/// and accepts all.
pub(crate) fn check_address(device: &AnyDevice, at: Pointer, span: Range<isize>) -> Result<(), DeviceError> {
    match device {
        AnyDevice::Cpu(_) => Ok(()),
        AnyDevice::Cuda(device) => device.reached_memory_in(at, span).map(drop),
        AnyDevice::Sycl(device) => device.allocation(at).map(drop),
    }
}

/// As [`check_address`], and refuses memory of a device for arrays of the host.
pub(crate) fn check_first_address(
    device: &AnyDevice,
    at: Pointer,
    span: Range<isize>,
) -> Result<(), DeviceError> {
    let known = if matches!(device, AnyDevice::Cpu(_)) { CudaDevice::known_memory_at(at)? } else { None };
    match known.filter(|memory| memory.kind == MemoryKind::Device) {
        Some(memory) => Err(DeviceError::invalid(
            "an address",
            "one in memory of the host",
            format!("{:p}, one in memory of cuda:{}", at.as_ptr(), memory.device),
        )),
        None => check_address(device, at, span),
    }
}

/// The number of the CUDA device whose memory an address is in, even if the host reaches it; `None` for memory of the
/// host, and if the program does not use CUDA.
fn cuda_number(at: Pointer) -> Result<Option<u32>, DeviceError> {
    let memory = CudaDevice::known_memory_at(at)?;
    Ok(memory.filter(|memory| memory.kind != MemoryKind::Pinned).map(|memory| memory.device))
}

/// The layout of a field on the device, whose first components point along the axes `vector`.
pub(crate) fn layout(
    device: &AnyDevice,
    element: ElementType,
    vector: &[usize],
    blocks: Vec<BlockLayout>,
) -> Result<FieldLayout, Failure> {
    Ok(FieldLayout::new(device, element, blocks).with_vector(vector)?)
}

/// A field in the caller's memory, whose first components point along the axes `vector`. If `share` is set, neighbours may map its pages.
///
/// # Safety
/// As for [`AnyField::from_raw`], on this device; if `share` is set, as for [`AnyField::from_raw_movable`].
pub(crate) unsafe fn field_at(
    device: &AnyDevice,
    element: ElementType,
    vector: &[usize],
    blocks: Vec<(Pointer, BlockLayout)>,
    share: bool,
) -> Result<AnyField<AnyDevice>, Failure> {
    let on_host = matches!(device, AnyDevice::Cpu(_));
    // SAFETY: the caller's promise.
    let field = unsafe {
        match share {
            true => AnyField::from_raw_movable(device, element, blocks, on_host, Box::new(())),
            false => AnyField::from_raw(device, element, blocks, on_host, Box::new(())),
        }
    };
    Ok(field.with_vector(vector)?)
}
