//! What memory an address belongs to.

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
use crate::driver::checked;
use crate::open::Opened;
use crate::unified::{Unified, Usm};

/// An allocation of unified shared memory, whoever made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// The kind of the memory.
    pub kind: MemoryKind,
    /// The addresses of its bytes; `None` where the driver does not tell.
    pub addresses: Option<Range<usize>>,
}

impl Allocation {
    /// Whether the host may follow its addresses.
    pub fn host_accessible(&self) -> bool {
        self.kind != MemoryKind::Device
    }
}

impl SyclDevice {
    /// The allocation that `pointer` leads into. The address is not followed.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for an address that belongs to no unified shared memory of the device's context, or
    /// to another device of that context; [`DeviceError::Unsupported`] for a device without unified shared memory, which
    /// cannot tell; what the driver says.
    pub fn allocation(&self, pointer: Pointer) -> Result<Allocation, DeviceError> {
        let opened = self.opened();
        let Unified::Usm(usm) = &opened.unified else {
            return Err(DeviceError::Unsupported {
                what: "unified shared memory, and cannot tell what memory of others belongs to",
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
                    "one of another context, or of no unified shared memory",
                ));
            }
        };
        let owner = ask::<usize>(opened, usm, pointer, CL_MEM_ALLOC_DEVICE_INTEL)?;
        if kind == MemoryKind::Device && owner != opened.device.addr() {
            return Err(foreign(opened, pointer, &format!("one of its device {owner:#x}")));
        }
        let base = ask::<usize>(opened, usm, pointer, CL_MEM_ALLOC_BASE_PTR_INTEL)?;
        let bytes = ask::<usize>(opened, usm, pointer, CL_MEM_ALLOC_SIZE_INTEL)?;
        let known = base != 0 && bytes != 0;
        Ok(Allocation { kind, addresses: known.then(|| base..base.saturating_add(bytes)) })
    }

    /// The allocation that all elements of an array lie in; `None` for an array without elements, which need lie in none.
    ///
    /// # Errors
    /// As for [`allocation`](SyclDevice::allocation); [`DeviceError::InvalidArgument`] for an array of another kind of
    /// memory, and for one that reaches out of its allocation.
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

/// What the driver says of an address; 0 where it says nothing.
fn ask<T: Default>(
    opened: &Opened,
    usm: &Usm,
    pointer: Pointer,
    what: cl_mem_info_intel,
) -> Result<T, DeviceError> {
    let mut answer = T::default();
    let (context, address) = (opened.context.raw(), pointer.as_ptr().cast());
    // SAFETY: the context is live; the address is not followed; the answer has the size that is said, and each question is
    // asked for the type that the extension gives its answer.
    let status = usm.info.map(|info| unsafe {
        info(context, address, what, size_of::<T>(), (&raw mut answer).cast(), ptr::null_mut())
    });
    checked(status, "clGetMemAllocInfoINTEL", opened.id()).map(|()| answer)
}

fn foreign(opened: &Opened, pointer: Pointer, found: &str) -> DeviceError {
    DeviceError::invalid(
        "an address of another program",
        format!(
            "one of unified shared memory of the context {:p} of {}; open the device in the context, or from the queue, that \
             the memory was allocated with",
            opened.context.raw(),
            opened.id()
        ),
        format!("{:p}, {found}", pointer.as_ptr()),
    )
}
