//! Memory of the host that this process has mapped by other means, made usable for the device.

use std::any::Any;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use haloport_core::device::{DeviceError, Pointer};

use crate::driver::context::{Context, call};
use crate::driver::functions::NOT_SUPPORTED;
use crate::opened::Opened;

/// `CU_MEMHOSTREGISTER_PORTABLE` and `CU_MEMHOSTREGISTER_DEVICEMAP`: for all contexts, which reach it.
const FOR_ALL_DEVICES: u32 = 1 | 2;

/// Memory that is registered until this is dropped.
pub(crate) struct RegisteredMemory {
    context: Arc<Context>,
    memory: Pointer,
    /// Keeps the memory mapped.
    owner: Arc<dyn Any + Send + Sync>,
}

impl RegisteredMemory {
    /// # Safety
    /// As for [`StreamWords::register_words`](haloport_core::device::StreamWords::register_words).
    pub(crate) unsafe fn new(
        opened: &Opened,
        memory: Pointer,
        bytes: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<RegisteredMemory, DeviceError> {
        let context = Arc::clone(&opened.context);
        let entered = context.enter()?;
        // SAFETY: the caller's promise.
        let status =
            unsafe { (context.driver.cuMemHostRegister_v2)(memory.as_ptr().cast(), bytes, FOR_ALL_DEVICES) };
        drop(entered);
        if status == NOT_SUPPORTED {
            let what = "registering this memory of the host";
            return Err(DeviceError::Unsupported { what, device: context.id });
        }
        context.checked("cuMemHostRegister", status)?;
        let registered = RegisteredMemory { context, memory, owner };
        let mut at = 0;
        // SAFETY: the memory is registered; the call writes to a local variable.
        unsafe {
            call!(&registered.context, cuMemHostGetDevicePointer_v2(&raw mut at, memory.as_ptr().cast(), 0))
        }?;
        // The device uses the address from now on.
        if at != memory.as_ptr().expose_provenance() as CUdeviceptr {
            let what = "registered memory of the host at the address that the host uses";
            return Err(DeviceError::Unsupported { what, device: registered.context.id });
        }
        Ok(registered)
    }
}

impl Drop for RegisteredMemory {
    fn drop(&mut self) {
        let (memory, owner) = (self.memory, Arc::clone(&self.owner));
        self.context.free(move |driver| {
            // SAFETY: it was registered once, and no work uses it any more. An error needs no action.
            unsafe { (driver.cuMemHostUnregister)(memory.as_ptr().cast()) };
            drop(owner);
        });
    }
}
