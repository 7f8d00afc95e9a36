//! The one description of an array that every protocol gives.

use std::fmt;
use std::ops::Range;

use super::{InteropError, Protocol};
use crate::device::Pointer;
use crate::element::ElementType;

/// An array of another program, or one for it: where and how its elements lie. Plain data that holds nothing alive.
///
/// Whatever protocol it came by: the number of elements, every offset and every address fit into the address space; the
/// first element has an address that is not null and is aligned for its type, unless the array is empty; strides are in
/// elements, and 1 along an axis that has at most one place, of which a stride says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayDescription {
    pub(super) element: ElementType,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<isize>,
    pub(super) first: Pointer,
    pub(super) span: (isize, isize),
    pub(super) device: ArrayDevice,
    pub(super) read_only: bool,
    pub(super) copied: bool,
}

/// Where the memory of an array is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrayDevice {
    /// The kind of memory.
    pub kind: ArrayDeviceKind,
    /// The number of the device as its runtime counts; `None` where the protocol does not tell, so that it has to be
    /// found from the address.
    pub index: Option<u32>,
}

/// The kinds of memory that arrays come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArrayDeviceKind {
    /// Plain memory of the host.
    Host,
    /// Memory of a CUDA device.
    Cuda,
    /// Host memory pinned by CUDA.
    CudaHost,
    /// Managed memory of CUDA.
    CudaManaged,
    /// Memory of a ROCm device.
    Rocm,
    /// Host memory pinned by ROCm.
    RocmHost,
    /// Unified shared memory (USM) of any kind, of a SYCL or OpenCL context.
    Usm,
}

impl ArrayDescription {
    /// The same array, for reading alone.
    #[must_use]
    pub fn for_reading(mut self) -> ArrayDescription {
        self.read_only = true;
        self
    }

    /// The type of an element. Booleans of one byte come as [`ElementType::U8`]: an exchange moves their bytes.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// The number of places along each axis; without axes for a single number.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Elements from one place to the next along each axis, of either sign; 0 where all places of an axis are one.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// The address of the element `[0, 0, …]`.
    pub fn first(&self) -> Pointer {
        self.first
    }

    /// Where the memory is.
    pub fn device(&self) -> ArrayDevice {
        self.device
    }

    /// Whether the other program forbids to write into it.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// Whether it is a copy made for us, so that the other program never sees what is written into it.
    pub fn copied(&self) -> bool {
        self.copied
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        // The product of the other extents of an empty array may be past all bounds.
        if self.is_empty() { 0 } else { self.shape.iter().product() }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Offsets from the first element of the lowest one in memory and one past the highest; `(0, 0)` without elements.
    pub fn span(&self) -> (isize, isize) {
        self.span
    }

    /// The addresses of all bytes from the lowest element to the end of the highest; empty without elements.
    pub fn addresses(&self) -> Range<usize> {
        let address = |elements: isize| {
            self.first
                .as_ptr()
                .addr()
                .wrapping_add_signed(elements.wrapping_mul(self.element.bytes() as isize))
        };
        address(self.span.0)..address(self.span.1)
    }

    /// Whether the elements lie one after the other, the last axis fastest.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.is_empty()
            || self.shape.iter().zip(&self.strides).rev().all(|(&extent, &stride)| {
                let fits = extent == 1 || stride == expected;
                expected *= extent as isize;
                fits
            })
    }

    /// Refuses an array into which halos cannot be written so that the other program sees them.
    ///
    /// # Errors
    /// `BufferError` for an array that is read-only, that is a copy, or of which several places are one.
    pub fn check_writable(&self, protocol: Protocol) -> Result<(), InteropError> {
        const FUNCTIONAL: &str = "pass an array that can be written, or exchange a copy and take the result";
        if self.read_only {
            return Err(protocol.fault("read-only").buffer(
                "an array to write into",
                "one for reading",
                FUNCTIONAL,
            ));
        }
        if self.copied {
            return Err(protocol.fault("flags").buffer("the array itself", "a copy of it", FUNCTIONAL));
        }
        if let Some(axis) = self.strides.iter().position(|&stride| stride == 0) {
            let found = format!("stride 0 along axis {axis} of {} places", self.shape[axis]);
            return Err(protocol.fault("strides").buffer(
                "a place in memory for each element",
                found,
                FUNCTIONAL,
            ));
        }
        Ok(())
    }
}

impl ArrayDevice {
    /// Memory of the host.
    pub const HOST: ArrayDevice = ArrayDevice { kind: ArrayDeviceKind::Host, index: Some(0) };
}

impl fmt::Display for ArrayDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "{} of device {index}", self.kind),
            None => write!(f, "{} of an unknown device", self.kind),
        }
    }
}

impl fmt::Display for ArrayDeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArrayDeviceKind::Host => "host memory",
            ArrayDeviceKind::Cuda => "CUDA memory",
            ArrayDeviceKind::CudaHost => "CUDA pinned host memory",
            ArrayDeviceKind::CudaManaged => "CUDA managed memory",
            ArrayDeviceKind::Rocm => "ROCm memory",
            ArrayDeviceKind::RocmHost => "ROCm pinned host memory",
            ArrayDeviceKind::Usm => "unified shared memory",
        })
    }
}
