//! The device under test: what the OpenCL drivers that `OCL_ICD_VENDORS` names offer.

use haloport_core::device::{Device, DeviceError};
use haloport_sycl::SyclDevice;

/// The device, or `None`, said plainly, where there is none and `HALOPORT_SYCL` does not say that there must be one.
pub(crate) fn device() -> Option<SyclDevice> {
    match SyclDevice::new() {
        Ok(device) => {
            eprintln!("on {}: {}", device.info().name, device.info().driver);
            Some(device)
        }
        Err(error @ DeviceError::NotFound { .. }) if std::env::var_os("HALOPORT_SYCL").is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
