//! How exchanges are ordered with work in streams, on the OpenCL driver that `OCL_ICD_VENDORS` names.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use haloport_conformance::ordering;
use haloport_core::device::Device;
use haloport_core::run_ranks;

#[test]
fn exchanges_are_ordered_with_the_work_around_them() {
    let Some(device) = common::device() else { return };
    for ranks in [1, 2] {
        run_ranks(ranks, |comm| {
            let queue = common::OutOfOrder::new(&device);
            // SAFETY: the queue outlives the stream.
            let borrowed = unsafe { device.borrow_stream(queue.handle()) }?;
            ordering::suite(&comm, &device, Some(&borrowed))
        })
        .unwrap();
    }
}
