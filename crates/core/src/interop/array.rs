//! The description of an array, the same for all protocols.

use std::fmt;
use std::ops::Range;

use super::{InteropError, Protocol};
use crate::device::Pointer;
use crate::element::ElementType;

/// An array of another program, or for another program: the address and the layout of its elements. Plain data that
/// keeps nothing alive.
///
/// For every protocol, the number of elements, all offsets and all addresses fit into the address space. Unless the
/// array is empty, the address of the first element is not null and is aligned for its type. Strides are in elements;
/// along an axis of extent 0 or 1, where they have no effect, they are 1.
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

/// The location of the memory of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrayDevice {
    /// The kind of memory.
    pub kind: ArrayDeviceKind,
    /// The number of the device in its runtime; `None` if the protocol does not tell. Then it follows from the address.
    pub index: Option<u32>,
}

/// The kinds of memory of arrays.
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
    /// The same array, read-only.
    #[must_use]
    pub fn for_reading(mut self) -> ArrayDescription {
        self.read_only = true;
        self
    }

    /// The type of an element. Booleans of one byte are [`ElementType::U8`]: an exchange moves their bytes.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// The extent of each axis; no entries for a single number.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The distance in elements between neighbours along each axis, of either sign; 0 if all of them are at one
    /// address.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// The address of the element `[0, 0, …]`.
    pub fn first(&self) -> Pointer {
        self.first
    }

    /// The location of the memory.
    pub fn device(&self) -> ArrayDevice {
        self.device
    }

    /// Whether the other program forbids writing to it.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// Whether it is a copy, so that the other program never sees what is written to it.
    pub fn copied(&self) -> bool {
        self.copied
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        // The product of the other extents of an empty array may overflow.
        if self.is_empty() { 0 } else { self.shape.iter().product() }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The offsets of the lowest element in memory and of the end of the highest, from the first element, in elements;
    /// `(0, 0)` without elements.
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

    /// Whether the elements are contiguous, with the last axis fastest.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.is_empty()
            || self.shape.iter().zip(&self.strides).rev().all(|(&extent, &stride)| {
                let fits = extent == 1 || stride == expected;
                expected *= extent as isize;
                fits
            })
    }

    /// Checks that halos can be written to the array so that the other program sees them.
    ///
    /// # Errors
    /// `BufferError` for an array that is read-only, that is a copy, or that has several elements at one address.
    pub fn check_writable(&self, protocol: Protocol) -> Result<(), InteropError> {
        const FUNCTIONAL: &str = "pass a writable array, or exchange a copy and use the result";
        if self.read_only {
            return Err(protocol.fault("read-only").buffer(
                "a writable array",
                "a read-only one",
                FUNCTIONAL,
            ));
        }
        if self.copied {
            return Err(protocol.fault("flags").buffer("the array itself", "a copy of it", FUNCTIONAL));
        }
        self.check_distinct(protocol)
    }

    /// Checks that no two elements of the array have one address.
    ///
    /// # Errors
    /// `BufferError` for an array that has several elements at one address.
    pub fn check_distinct(&self, protocol: Protocol) -> Result<(), InteropError> {
        if let Some(axis) = self.strides.iter().position(|&stride| stride == 0) {
            let found = format!("stride 0 along axis {axis} of extent {}", self.shape[axis]);
            return Err(protocol.fault("strides").buffer(
                "an address of its own for each element",
                found,
                "pass a copy, and use it afterwards if it is written",
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
        match (self.kind, self.index) {
            (ArrayDeviceKind::Host, _) | (_, None) => write!(f, "{}", self.kind),
            (kind, Some(index)) => write!(f, "{kind} of device {index}"),
        }
    }
}

impl fmt::Display for ArrayDeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArrayDeviceKind::Host => "memory of the host",
            ArrayDeviceKind::Cuda => "CUDA memory",
            ArrayDeviceKind::CudaHost => "CUDA pinned host memory",
            ArrayDeviceKind::CudaManaged => "CUDA managed memory",
            ArrayDeviceKind::Rocm => "ROCm memory",
            ArrayDeviceKind::RocmHost => "ROCm pinned host memory",
            ArrayDeviceKind::Usm => "unified shared memory",
        })
    }
}
