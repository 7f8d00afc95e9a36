//! Exchanges among processes on the device of SYCL that `HALOPORT_SYCL_DEVICE` names, such as `level_zero:gpu:0`.

use haloport_conformance::backend::device_under_test;
use haloport_core::Communicator;
use haloport_sycl::SyclDevice;

use crate::{Outcome, on_device};

pub(crate) fn suite(comm: &Communicator, count: u64) -> Outcome {
    device().map_or(Ok(()), |device| on_device::suite(comm, &device, count, true))
}

/// That device; `None`, and the reason printed, if there is none.
pub(crate) fn device() -> Option<SyclDevice> {
    let name = std::env::var("HALOPORT_SYCL_DEVICE").unwrap_or_else(|_| "sycl".into());
    device_under_test(SyclDevice::select(&name), "HALOPORT_SYCL")
}
