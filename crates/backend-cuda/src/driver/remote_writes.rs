//! Writes of network adapters to memory of a device (GPUDirect RDMA), and how they become visible to work that is in
//! streams already.
//!
//! The sources are "GPUDirect RDMA", its section on the order of memory, and in the reference of the driver
//! `cuFlushGPUDirectRDMAWrites`, `CU_STREAM_WAIT_VALUE_FLUSH` and `CUGPUDirectRDMAWritesOrdering`. Where an adapter
//! reaches a device by two paths at once (Grace with Blackwell, by PCIe and NVLink-C2C), the driver reports that writes
//! are ordered, and leaves the order between the paths to the library that uses them, here the MPI.

use cudarc::driver::sys::{
    CUGPUDirectRDMAWritesOrdering, CUdevice_attribute, CUflushGPUDirectRDMAWritesOptions,
    CUflushGPUDirectRDMAWritesScope, CUflushGPUDirectRDMAWritesTarget, CUstreamWaitValue_flags,
};
use haloport_core::device::DeviceError;

use crate::driver::context::{Context, call};
use crate::driver::select::Candidate;

/// The way in which such writes become visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteWrites {
    /// They are visible as soon as they have arrived.
    Ordered,
    /// A stream that has waited for a number sees them.
    ByWait,
    /// A call of the host makes them visible.
    ByHost,
    /// Only work that is put into a stream after their arrival sees them.
    Unordered,
}

impl RemoteWrites {
    pub(crate) fn of(candidate: &Candidate) -> Result<RemoteWrites, DeviceError> {
        use CUdevice_attribute as Of;

        let by_host = CUflushGPUDirectRDMAWritesOptions::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST as i32;
        let owner = CUGPUDirectRDMAWritesOrdering::CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER as i32;
        if candidate.attribute(Of::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)? >= owner {
            return Ok(RemoteWrites::Ordered);
        }
        // Preferred: no call of the driver while a gate is closed.
        if candidate.has(Of::CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES)? {
            return Ok(RemoteWrites::ByWait);
        }
        let options = candidate.attribute(Of::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS)?;
        Ok(if options & by_host != 0 { RemoteWrites::ByHost } else { RemoteWrites::Unordered })
    }

    /// The flags with which a stream waits for a number.
    pub(crate) fn wait_flags(self) -> u32 {
        match self {
            RemoteWrites::ByWait => CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_FLUSH as u32,
            _ => 0,
        }
    }

    /// Makes writes that have arrived visible to work that waits for a number.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if nothing does; the driver's errors.
    pub(crate) fn flush(self, context: &Context) -> Result<(), DeviceError> {
        let target = CUflushGPUDirectRDMAWritesTarget::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX;
        let scope = CUflushGPUDirectRDMAWritesScope::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER;
        match self {
            RemoteWrites::Ordered | RemoteWrites::ByWait => Ok(()),
            // SAFETY: the context is current during the call.
            RemoteWrites::ByHost => unsafe { call!(context, cuFlushGPUDirectRDMAWrites(target, scope)) },
            RemoteWrites::Unordered => {
                let what = "making writes of a network adapter visible to work that is in streams already";
                Err(DeviceError::Unsupported { what, device: context.id })
            }
        }
    }
}
