//! The device suite on the OpenCL driver that `OCL_ICD_VENDORS` names.

use haloport_conformance::device::suite;
use haloport_core::device::{Device, DeviceError};
use haloport_sycl::SyclDevice;

#[test]
fn the_device_suite_passes() {
    let device = match SyclDevice::new() {
        Ok(device) => device,
        Err(error @ DeviceError::NotFound { .. }) => {
            eprintln!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    eprintln!("{:?}", device.info());
    let report = suite(&device, &[]).unwrap();
    eprintln!("{report:?}");
}
