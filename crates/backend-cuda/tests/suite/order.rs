//! How exchanges are ordered with work in streams, on the first GPU.

use std::time::{Duration, Instant};

use haloport_conformance::ordering;
use haloport_core::device::{Device, DeviceError, Gates, Priority, Stream};
use haloport_core::run_ranks;
use haloport_cuda::CudaDevice;

/// About as many streams as two ranks use at once, of each priority.
const STREAMS: usize = 8;

#[test]
fn exchanges_are_ordered_with_the_work_around_them() {
    let Some(device) = crate::common::device_with_gates() else { return };
    if !streams_run_side_by_side(&device).unwrap() {
        return println!(
            "skipped: streams share the device's queues, so work would wait behind the gates of this test; set \
             CUDA_DEVICE_MAX_CONNECTIONS=32"
        );
    }
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

/// Whether work in other streams, of both priorities, is done while one stream is held back.
fn streams_run_side_by_side(device: &CudaDevice) -> Result<bool, DeviceError> {
    let held = device.create_stream(Priority::Normal)?;
    let mut others = Vec::new();
    for priority in [Priority::Normal, Priority::High] {
        for _ in 1..STREAMS {
            others.push((device.create_stream(priority)?, device.create_event(false)?));
        }
    }
    let open = device.gate(&held)?;
    let reached = || {
        for (stream, event) in &others {
            device.record(event, stream)?;
        }
        let begin = Instant::now();
        loop {
            let all = others.iter().try_fold(true, |all, (_, event)| Ok(all && device.query(event)?))?;
            if all || begin.elapsed() > Duration::from_secs(5) {
                return Ok(all);
            }
            std::thread::yield_now();
        }
    };
    let reached = reached();
    open();
    device.synchronize(&held)?;
    reached
}
