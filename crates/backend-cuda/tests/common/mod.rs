//! The device under test: the first one of the CUDA driver.

#![allow(dead_code, reason = "each test binary uses its own part")]

use haloport_core::device::{Device, DeviceError};
use haloport_cuda::CudaDevice;

/// The device, or `None`, said plainly, where there is none and `HALOPORT_CUDA` does not say that there must be one.
pub(crate) fn device() -> Option<CudaDevice> {
    match CudaDevice::new() {
        Ok(device) => {
            eprintln!("on {}: {}", device.info().name, device.info().driver);
            Some(device)
        }
        Err(error @ DeviceError::NotFound { .. }) if std::env::var_os("HALOPORT_CUDA").is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
