//! Kernels with their arguments, which OpenCL stores in the kernel.

use std::ffi::c_void;
use std::sync::Arc;

use cl3::kernel::{CL_KERNEL_NUM_ARGS, get_kernel_info};
use cl3::types::{cl_kernel, cl_uint};
use haloport_core::device::{DeviceError, Pointer};

use super::handles::KernelHandle;
use super::library::{checked, failed};
use super::place::Place;

/// A kernel with its arguments.
#[derive(Debug)]
pub(crate) struct Kernel {
    place: Arc<Place>,
    kernel: KernelHandle,
}

impl Kernel {
    pub(super) fn new(place: &Arc<Place>, kernel: KernelHandle) -> Kernel {
        Kernel { place: Arc::clone(place), kernel }
    }

    pub(crate) fn raw(&self) -> cl_kernel {
        self.kernel.raw()
    }

    pub(crate) fn handle(&self) -> usize {
        self.raw().addr()
    }

    /// The number of its parameters; 0 if the driver does not know it.
    pub(crate) fn parameters(&self) -> usize {
        get_kernel_info(self.raw(), CL_KERNEL_NUM_ARGS).map_or(0, cl_uint::from) as usize
    }

    /// Sets an address as an argument; `call` names the call in an error.
    pub(crate) fn set_address(
        &mut self,
        index: usize,
        pointer: Pointer,
        call: &'static str,
    ) -> Result<(), DeviceError> {
        let Place { unified, library, .. } = &*self.place;
        // SAFETY: the kernel is borrowed exclusively.
        let status = unsafe { unified.set_argument(library, self.raw(), index as cl_uint, pointer) };
        checked(status, call, self.place.id())
    }

    /// Sets a plain value as an argument.
    pub(crate) fn set_value(&mut self, index: usize, value: &[u8]) -> Result<(), DeviceError> {
        let (bytes, value) = (value.len(), value.as_ptr().cast::<c_void>());
        // The kernel is borrowed exclusively, and the value has that many bytes.
        let status = self.place.library.clSetKernelArg(self.raw(), index as cl_uint, bytes, value);
        checked(status, "clSetKernelArg", self.place.id())
    }

    /// Declares that the kernel follows `pointers`, which it finds in memory and not among its arguments.
    pub(crate) fn declare_reached(
        &mut self,
        pointers: impl Iterator<Item = Pointer>,
    ) -> Result<(), DeviceError> {
        // SAFETY: the kernel is borrowed exclusively.
        unsafe { self.place.unified.declare_reached(self.raw(), pointers) }
            .map_err(failed("clSetKernelExecInfo", self.place.id()))
    }
}
