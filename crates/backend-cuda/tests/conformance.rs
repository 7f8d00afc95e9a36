//! The device suite on the first GPU.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use haloport_conformance::device::suite;

#[test]
fn the_device_suite_passes() {
    let Some(device) = common::device() else { return };
    let report = suite(&device, &[]).unwrap();
    assert!(report.passed.len() >= 28, "{report:?}");
}
