//! Opening a device: its context, its properties, and a stream for set-up work.

use std::ffi::c_int;
use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute;
use haloport_core::device::{DeviceError, DeviceId, DeviceInfo, Priority};

use crate::driver::context::Context;
use crate::driver::handle_kinds::HandleKinds;
use crate::driver::raw_stream::{RawStream, priorities};
use crate::driver::remote_writes::RemoteWrites;
use crate::driver::select::Candidate;

/// The primary context of a device, with the properties of the device.
pub(crate) struct DeviceContext {
    pub(crate) info: DeviceInfo,
    /// The compute capability: 10 times the major number plus the minor.
    pub(crate) capability: c_int,
    pub(crate) offers: Offers,
    pub(crate) handles: HandleKinds,
    /// For work that the host waits for at once, independent of all other streams.
    pub(crate) setup: RawStream,
    pub(crate) context: Arc<Context>,
}

/// Abilities of the driver that differ between devices, beside the capabilities in `info`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offers {
    /// Whether network cards reach memory of `cuMemCreate` that is allocated for them.
    pub(crate) direct_network: bool,
    /// The least and the most urgent priority of streams; the more urgent is the lower number.
    pub(crate) priorities: [c_int; 2],
    pub(crate) remote_writes: RemoteWrites,
}

impl DeviceContext {
    pub(crate) fn new(candidate: Candidate) -> Result<DeviceContext, DeviceError> {
        use CUdevice_attribute as Of;

        let context = Arc::new(Context::new(candidate.driver, candidate.device, candidate.info.id)?);
        let offers = Offers {
            direct_network: candidate.has(Of::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)?,
            priorities: priorities(&context)?,
            remote_writes: RemoteWrites::of(&candidate)?,
        };
        let handles = HandleKinds::of(&candidate)?;
        let setup = RawStream::new(&context, Priority::Normal, offers.priorities)?;
        let Candidate { info, capability, .. } = candidate;
        Ok(DeviceContext { info, capability, offers, handles, setup, context })
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.info.id
    }
}
