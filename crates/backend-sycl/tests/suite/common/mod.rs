//! The device under test: the one that `HALOPORT_SYCL_DEVICE` names, as `level_zero:gpu:0`, or else the best one of the
//! OpenCL driver that `OCL_ICD_VENDORS` names.

pub(crate) mod program;

use haloport_conformance::backend::device_under_test;
use haloport_sycl::SyclDevice;

/// The device; `None`, with a line on the error stream, if there is none and `HALOPORT_SYCL` is not set.
pub(crate) fn device() -> Option<SyclDevice> {
    device_under_test(SyclDevice::select(&name()), "HALOPORT_SYCL")
}

/// Whether the names of OpenCL devices mean devices through OpenCL, and not through SYCL; prints a line if not.
pub(crate) fn names_opencl() -> bool {
    let through_sycl = std::env::var_os("HALOPORT_SYCL_DRIVER").is_some();
    if through_sycl {
        eprintln!("skipped: HALOPORT_SYCL_DRIVER is set");
    }
    !through_sycl
}

/// The device, if a program beside Haloport can have queues on it: [`program`].
pub(crate) fn device_of_program() -> Option<SyclDevice> {
    device().filter(program::can_be_made)
}

fn name() -> String {
    std::env::var("HALOPORT_SYCL_DEVICE").unwrap_or_else(|_| "sycl".into())
}

/// The same name for SYCL.
fn sycl_filter() -> String {
    name().replace("sycl", "opencl")
}
