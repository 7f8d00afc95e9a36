//! Device memory in pages of its own, on systems without file descriptors: there is none.

use cudarc::driver::sys::CUdeviceptr;
use haloport_core::device::DeviceError;

use crate::driver::device_context::DeviceContext;
use crate::driver::functions::Status;
use crate::memory::token::Handle;

/// No such memory exists.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) address: CUdeviceptr,
}

/// Why there is no such memory.
#[allow(dead_code, reason = "no call is made")]
pub(crate) enum Failure {
    Create(&'static str, Status),
    Other(DeviceError),
}

impl Pages {
    pub(crate) fn new(_device: &DeviceContext, _bytes: usize) -> Result<Option<Pages>, Failure> {
        Ok(None)
    }

    pub(crate) fn import(device: &DeviceContext, _handle: &Handle) -> Result<Pages, DeviceError> {
        Err(DeviceError::Unsupported { what: "memory of other processes", device: device.id() })
    }

    pub(crate) fn export(&self) -> Result<Option<Handle>, DeviceError> {
        Ok(None)
    }
}
