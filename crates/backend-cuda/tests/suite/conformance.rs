//! The device suite on the first GPU.

use haloport_conformance::device::suite;

#[test]
fn the_device_suite_passes() {
    let Some(device) = crate::common::device() else { return };
    let report = suite(&device, &[]).unwrap();
    assert!(report.passed.len() >= 28, "{report:?}");
}
