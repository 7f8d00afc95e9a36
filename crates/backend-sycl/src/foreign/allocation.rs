//! The memory that an address belongs to.

use std::ops::Range;

use haloport_core::device::{Device, DeviceError, MemoryKind, Pointer};
use haloport_core::interop::{ArrayDescription, ArrayDeviceKind};

use crate::SyclDevice;
use crate::driver::Place;

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
        match &self.opened().place {
            Place::OpenCl(place) => place.allocation(pointer),
            Place::Sycl(place) => place.allocation(pointer),
        }
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

/// The error for an address that is not in memory of a context.
pub(crate) fn not_of_context(context: &str, pointer: Pointer, found: &str) -> DeviceError {
    DeviceError::invalid(
        "an address of another program",
        format!(
            "one in unified shared memory of {context}; open the device in the context that the memory was allocated in, or \
             from a queue of it"
        ),
        format!("{:p}, {found}", pointer.as_ptr()),
    )
}
