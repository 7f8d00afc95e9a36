//! The arguments of a kernel: arrays for it, and all of them for its function on the host.

use bytemuck::NoUninit;
use haloport::device::{Buffer, Device, DeviceError, KernelArgument, MemoryKind};

/// Makes a buffer of the device with `values` in it, for kernels in `stream`.
pub(crate) fn upload<D: Device>(
    device: &D,
    stream: &D::Stream,
    values: &[impl NoUninit],
) -> Result<D::Buffer, DeviceError> {
    let buffer = device.allocate(size_of_val(values), MemoryKind::Device)?;
    // SAFETY: the buffer is new and as long as the values; the kernels that read it follow in the same stream.
    unsafe { device.write(bytemuck::cast_slice(values), buffer.pointer(), stream)? };
    Ok(buffer)
}

/// The arguments of a launch; their number and types were checked when they were bound.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a>(pub(crate) &'a [KernelArgument]);

impl Arguments<'_> {
    /// An array of 64-bit floats.
    pub(crate) fn array(&self, index: usize) -> *mut f64 {
        self.address(index).cast()
    }

    /// An array of 32-bit integers.
    pub(crate) fn integers(&self, index: usize) -> *const i32 {
        self.address(index).cast()
    }

    pub(crate) fn size(&self, index: usize) -> usize {
        match self.0[index] {
            KernelArgument::I64(size) => size as usize,
            other => unreachable!("argument {index} was bound as an integer and is {other:?}"),
        }
    }

    pub(crate) fn number(&self, index: usize) -> f64 {
        match self.0[index] {
            KernelArgument::F64(number) => number,
            other => unreachable!("argument {index} was bound as a float and is {other:?}"),
        }
    }

    fn address(&self, index: usize) -> *mut u8 {
        match self.0[index] {
            KernelArgument::Pointer(pointer) => pointer.as_ptr(),
            other => unreachable!("argument {index} was bound as a pointer and is {other:?}"),
        }
    }
}
