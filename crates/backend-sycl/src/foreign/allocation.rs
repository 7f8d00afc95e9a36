//! The memory that an address belongs to.

use std::ops::Range;
use std::ptr;

use cl3::ext::{
    CL_MEM_ALLOC_BASE_PTR_INTEL, CL_MEM_ALLOC_DEVICE_INTEL, CL_MEM_ALLOC_SIZE_INTEL, CL_MEM_ALLOC_TYPE_INTEL,
    CL_MEM_TYPE_DEVICE_INTEL, CL_MEM_TYPE_HOST_INTEL, CL_MEM_TYPE_SHARED_INTEL, cl_mem_info_intel,
};
use cl3::types::cl_uint;
use haloport_core::device::{Device, DeviceError, MemoryKind, Pointer};
use haloport_core::interop::{ArrayDescription, ArrayDeviceKind};

use crate::SyclDevice;
use crate::opencl::library::checked;
use crate::opencl::opened::Opened;
use crate::opencl::unified::{Unified, Usm};

/// An allocation of unified shared memory, by Haloport or by another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// The kind of the memory.
    pub kind: MemoryKind,
    /// The addresses of its bytes; `None` if the driver does not know them.
    pub addresses: Option<Range<usize>>,
}

impl Allocation {
    /// Whether the host may follow its addresses.
    pub fn host_accessible(&self) -> bool {
        self.kind != MemoryKind::Device
    }
}

impl SyclDevice {
    /// The allocation that `pointer` points into. The address is not followed.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if the address belongs to no unified shared memory of the device's context, or
    /// to another device of that context; [`DeviceError::Unsupported`] if the device has no unified shared memory, so
    /// that its driver cannot look the address up; [`DeviceError::Driver`].
    pub fn allocation(&self, pointer: Pointer) -> Result<Allocation, DeviceError> {
        let opened = self.opened();
        let Unified::Usm(usm) = &opened.unified else {
            return Err(DeviceError::Unsupported {
                what: "unified shared memory, so memory of other programs cannot be looked up",
                device: self.id(),
            });
        };
        let kind = match ask::<cl_uint>(opened, usm, pointer, CL_MEM_ALLOC_TYPE_INTEL)? {
            CL_MEM_TYPE_DEVICE_INTEL => MemoryKind::Device,
            CL_MEM_TYPE_HOST_INTEL => MemoryKind::Pinned,
            CL_MEM_TYPE_SHARED_INTEL => MemoryKind::Shared,
            _ => {
                return Err(foreign(
                    opened,
                    pointer,
                    "one of another context, or not of unified shared memory",
                ));
            }
        };
        let owner = ask::<usize>(opened, usm, pointer, CL_MEM_ALLOC_DEVICE_INTEL)?;
        if kind == MemoryKind::Device && owner != opened.device.id().addr() {
            return Err(foreign(opened, pointer, &format!("one of its device {owner:#x}")));
        }
        let base = ask::<usize>(opened, usm, pointer, CL_MEM_ALLOC_BASE_PTR_INTEL)?;
        let bytes = ask::<usize>(opened, usm, pointer, CL_MEM_ALLOC_SIZE_INTEL)?;
        let known = base != 0 && bytes != 0;
        Ok(Allocation { kind, addresses: known.then(|| base..base.saturating_add(bytes)) })
    }

    /// The allocation that holds all elements of an array; `None` for an array without elements.
    ///
    /// # Errors
    /// As for [`allocation`](SyclDevice::allocation); [`DeviceError::InvalidArgument`] if the array is in another kind
    /// of memory, or extends beyond its allocation.
    pub fn allocation_of(&self, array: &ArrayDescription) -> Result<Option<Allocation>, DeviceError> {
        if array.is_empty() {
            return Ok(None);
        }
        if array.device().kind != ArrayDeviceKind::Usm {
            let expected = format!("one in unified shared memory, for {}", self.id());
            return Err(DeviceError::invalid("an array", expected, array.device()));
        }
        let allocation = self.allocation(array.first())?;
        let reached = array.addresses();
        if let Some(there) = &allocation.addresses
            && (reached.start < there.start || reached.end > there.end)
        {
            return Err(DeviceError::invalid(
                "the elements of an array",
                format!("all of them in the allocation {there:#x?}"),
                format!("{reached:#x?}"),
            ));
        }
        Ok(Some(allocation))
    }
}

/// Asks the driver about an address; 0 if it does not know the answer.
fn ask<T: Default>(
    opened: &Opened,
    usm: &Usm,
    pointer: Pointer,
    property: cl_mem_info_intel,
) -> Result<T, DeviceError> {
    let mut answer = T::default();
    let (context, address) = (opened.context.raw(), pointer.as_ptr().cast());
    // SAFETY: the context is live; the address is not followed; the answer has the given size, and each property is
    // asked for with the type that the extension specifies.
    let status = usm.info.map(|info| unsafe {
        info(context, address, property, size_of::<T>(), (&raw mut answer).cast(), ptr::null_mut())
    });
    checked(status, "clGetMemAllocInfoINTEL", opened.id()).map(|()| answer)
}

fn foreign(opened: &Opened, pointer: Pointer, found: &str) -> DeviceError {
    DeviceError::invalid(
        "an address of another program",
        format!(
            "one in unified shared memory of the context {:p} of {}; open the device in the context that the memory was \
             allocated in, or from a queue of it",
            opened.context.raw(),
            opened.id()
        ),
        format!("{:p}, {found}", pointer.as_ptr()),
    )
}
