//! The memory that an address belongs to.

use std::ptr;

use cl3::ext::{
    CL_MEM_ALLOC_BASE_PTR_INTEL, CL_MEM_ALLOC_DEVICE_INTEL, CL_MEM_ALLOC_SIZE_INTEL, CL_MEM_ALLOC_TYPE_INTEL,
    CL_MEM_TYPE_DEVICE_INTEL, CL_MEM_TYPE_HOST_INTEL, CL_MEM_TYPE_SHARED_INTEL, cl_mem_info_intel,
};
use cl3::types::cl_uint;
use haloport_core::device::{DeviceError, MemoryKind, Pointer};

use super::library::checked;
use super::place::Place;
use super::unified::{Unified, Usm};
use crate::foreign::{Allocation, not_of_context};

impl Place {
    /// The allocation that an address points into.
    pub(crate) fn allocation(&self, pointer: Pointer) -> Result<Allocation, DeviceError> {
        let Unified::Usm(usm) = &self.unified else {
            return Err(DeviceError::Unsupported {
                what: "unified shared memory, so memory of other programs cannot be looked up",
                device: self.id(),
            });
        };
        let kind = match self.ask::<cl_uint>(usm, pointer, CL_MEM_ALLOC_TYPE_INTEL)? {
            CL_MEM_TYPE_DEVICE_INTEL => MemoryKind::Device,
            CL_MEM_TYPE_HOST_INTEL => MemoryKind::Pinned,
            CL_MEM_TYPE_SHARED_INTEL => MemoryKind::Shared,
            _ => {
                let found = "one of another context, or not of unified shared memory";
                return Err(not_of_context(&self.name(), pointer, found));
            }
        };
        let owner = self.ask::<usize>(usm, pointer, CL_MEM_ALLOC_DEVICE_INTEL)?;
        if kind == MemoryKind::Device && owner != self.device.id().addr() {
            return Err(not_of_context(&self.name(), pointer, &format!("one of its device {owner:#x}")));
        }
        let base = self.ask::<usize>(usm, pointer, CL_MEM_ALLOC_BASE_PTR_INTEL)?;
        let bytes = self.ask::<usize>(usm, pointer, CL_MEM_ALLOC_SIZE_INTEL)?;
        let known = base != 0 && bytes != 0;
        Ok(Allocation { kind, addresses: known.then(|| base..base.saturating_add(bytes)) })
    }

    /// Asks the driver about an address; 0 if it does not know the answer.
    fn ask<T: Default>(
        &self,
        usm: &Usm,
        pointer: Pointer,
        property: cl_mem_info_intel,
    ) -> Result<T, DeviceError> {
        let mut answer = T::default();
        let (context, address) = (self.context.raw(), pointer.as_ptr().cast());
        // SAFETY: the context is live; the address is not followed; the answer has the given size, and each property is
        // asked for with the type that the extension specifies.
        let status = usm.info.map(|info| unsafe {
            info(context, address, property, size_of::<T>(), (&raw mut answer).cast(), ptr::null_mut())
        });
        checked(status, "clGetMemAllocInfoINTEL", self.id()).map(|()| answer)
    }
}
