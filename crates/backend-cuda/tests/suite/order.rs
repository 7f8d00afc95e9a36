//! How exchanges are ordered with work in streams, on the first GPU.

use std::time::{Duration, Instant};

use haloport_conformance::ordering;
use haloport_core::device::{Buffer, Device, DeviceError, Gates, MemoryKind, Priority, Stream};
use haloport_core::run_ranks;
use haloport_cuda::CudaDevice;

/// About as many streams as two ranks use at once, of each priority.
const STREAMS: usize = 8;

/// Bytes of a copy that a copy engine does.
const BYTES: usize = 256 << 10;

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

/// Whether copies to the host in other streams, of both priorities, are done while one stream is held back, and copies that
/// come after it.
fn streams_run_side_by_side(device: &CudaDevice) -> Result<bool, DeviceError> {
    let held = device.create_stream(Priority::Normal)?;
    let streams = |priority| (1..STREAMS).map(move |_| device.create_stream(priority));
    let others: Vec<_> =
        streams(Priority::Normal).chain(streams(Priority::High)).collect::<Result<_, _>>()?;
    let events: Vec<_> = others.iter().map(|_| device.create_event(false)).collect::<Result<_, _>>()?;
    let opened = device.create_event(false)?;
    let source = device.allocate(BYTES, MemoryKind::Device)?;
    let targets = device.allocate(BYTES * others.len(), MemoryKind::Pinned)?;
    let open = device.gate(&held)?;
    let reached = || {
        device.record(&opened, &held)?;
        for (number, (stream, event)) in others.iter().zip(&events).enumerate() {
            if comes_after(number) {
                device.stream_wait(stream, &opened)?;
            }
            let target = targets.pointer().offset((number * BYTES) as isize);
            // SAFETY: both buffers live until all streams are synchronised, and nothing else uses the target.
            unsafe { device.copy(source.pointer(), target, BYTES, stream)? };
            device.record(event, stream)?;
        }
        let free = events.iter().enumerate().filter(|(number, _)| !comes_after(*number));
        let begin = Instant::now();
        loop {
            let all = free.clone().try_fold(true, |all, (_, event)| Ok(all && device.query(event)?))?;
            if all || begin.elapsed() > Duration::from_secs(5) {
                return Ok(all);
            }
            std::thread::yield_now();
        }
    };
    let reached = reached();
    open();
    others.iter().chain([&held]).try_for_each(|stream| device.synchronize(stream))?;
    reached
}

/// Whether the copy in this stream comes after the one that is held back.
fn comes_after(number: usize) -> bool {
    number.is_multiple_of(2)
}
