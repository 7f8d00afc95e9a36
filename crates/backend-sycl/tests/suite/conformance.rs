//! The device suite on the OpenCL driver that `OCL_ICD_VENDORS` names.

use haloport_conformance::Exception;
use haloport_conformance::device::suite;
use haloport_core::device::Device;

/// For each driver, by a part of its name, the checks that it fails, with the reason. An exception that passes fails
/// the suite.
const EXCEPTIONS: [(&str, &[Exception]); 2] =
    [("Intel(R) OpenCL", &[]), ("Portable Computing Language", &[])];

#[test]
fn the_device_suite_passes() {
    let Some(device) = crate::common::device() else { return };
    let driver = &device.info().driver;
    let exceptions =
        EXCEPTIONS.iter().find(|(name, _)| driver.contains(name)).map_or(&[][..], |(_, list)| list);
    let report = suite(&device, exceptions).unwrap();
    assert!(report.passed.len() >= 29, "{report:?}");
}

/// Without them, the suite does not test immediate streams, and blocking exchanges are slower.
#[test]
fn intels_cpu_runtime_has_immediate_streams() {
    let Some(device) = crate::common::device() else { return };
    let driver = &device.info().driver;
    if !driver.contains("Intel(R) OpenCL") || crate::common::program::is_of_sycl(&device) {
        return println!("skipped: another driver, {driver}");
    }
    assert!(device.info().capabilities.immediate_streams, "{driver}");
}
