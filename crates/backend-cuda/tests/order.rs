//! How exchanges are ordered with work in streams, on the first GPU.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use haloport_conformance::ordering;
use haloport_core::device::{Device, Priority, Stream};
use haloport_core::run_ranks;

#[test]
fn exchanges_are_ordered_with_the_work_around_them() {
    let Some(device) = common::device() else { return };
    for ranks in [1, 2] {
        run_ranks(ranks, |comm| {
            let owner = device.create_stream(Priority::Normal)?;
            // SAFETY: the stream outlives what is borrowed from it.
            let borrowed = unsafe { device.borrow_stream(owner.handle()) }?;
            ordering::suite(&comm, &device, Some(&borrowed))
        })
        .unwrap();
    }
}
