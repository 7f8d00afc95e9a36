//! The device suite: what every backend does.

mod cases;
mod copies;
mod elements;
mod faces;
mod kernels;
mod order;
mod signs;

use haloport_core::device::{
    Buffer, Device, DeviceError, Event, KernelSource, MemoryKind, Pointer, Priority, Stream,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::{Exception, Failure, Report, ensure, judge};
pub(crate) use order::Slow;

/// The kernels of the suite, for compilers without a device.
pub fn kernel_sources() -> Vec<KernelSource> {
    [kernels::SAXPY, kernels::COUNT, order::SPIN]
        .into_iter()
        .chain(elements::KERNELS.map(|(_, kernel)| kernel))
        .chain(crate::steps::KERNELS)
        .collect()
}

/// Runs all device tests.
///
/// # Errors
/// The failures, one on a line; an exception that passes is one.
pub fn suite<D: Device>(device: &D, exceptions: &[Exception]) -> Result<Report, String> {
    judge(
        device,
        &[
            ("streams", streams),
            ("events", events),
            ("event timing", event_timing),
            ("memory", memory),
            ("too much memory", too_much_memory),
            ("copies", copies::copies),
            ("box copies", copies::box_copies),
            ("fills", copies::fills),
            ("bound copies", copies::bound_copies),
            ("large bound copies", copies::large_bound_copies),
            ("faces", faces::faces),
            ("indexed copies", copies::indexed_copies),
            ("large indexed copies", copies::large_indexed_copies),
            ("sign changes", signs::sign_changes),
            ("kernels", kernels::kernels),
            ("kernels in three dimensions", kernels::kernels_in_three_dimensions),
            ("rebinding", kernels::rebinding),
            ("wrong arguments", kernels::wrong_arguments),
            ("element types", elements::element_types),
            ("launches by several threads", order::launches_by_several_threads),
            ("order across streams", order::order_across_streams),
            ("work after the call", order::work_after_the_call),
            ("work in the call", order::work_in_the_call),
            ("waiting streams", order::waiting_streams),
            ("streams side by side", order::streams_side_by_side),
            ("all streams", order::all_streams),
            ("current streams", order::current_streams),
            ("events recorded again", order::events_recorded_again),
            ("gates", order::gates),
            ("calls of the host", order::calls_of_the_host),
            ("buffers of a stream", order::buffers_of_a_stream),
        ],
        exceptions,
    )
}

fn streams<D: Device>(device: &D) -> Result<(), Failure> {
    let default = device.default_stream();
    ensure!(default.device() == device.id(), "the default stream is one of {}", default.device());
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        let stream = device.create_stream(priority)?;
        ensure!(stream.device() == device.id(), "a stream of {}", stream.device());
        if !device.info().asynchronous {
            ensure!(stream.handle() == 0, "handle {} where streams are no-ops", stream.handle());
        }
        // SAFETY: the stream lives to the end of the loop's body, the borrowed one as long.
        let borrowed = unsafe { device.borrow_stream(stream.handle())? };
        ensure!(
            borrowed.handle() == stream.handle(),
            "borrowed {} as {}",
            stream.handle(),
            borrowed.handle()
        );
        device.synchronize(&borrowed)?;
        drop(borrowed);
        device.synchronize(&stream)?;
    }
    Ok(())
}

fn events<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let other = device.create_stream(Priority::Normal)?;
    let event = device.create_event(false)?;
    ensure!(device.query(&event)?, "an event that was never recorded is not complete");
    device.host_wait(&event)?;
    device.stream_wait(&other, &event)?;
    if !device.info().asynchronous {
        ensure!(event.handle() == 0, "handle {} where events are no-ops", event.handle());
    }
    for _ in 0..3 {
        device.record(&event, &stream)?;
        device.stream_wait(&other, &event)?;
    }
    device.host_wait(&event)?;
    ensure!(device.query(&event)?, "the event is not complete after the host waited for it");
    device.synchronize(&other)?;
    Ok(())
}

fn event_timing<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let (begin, end) = (device.create_event(true)?, device.create_event(true)?);
    ensure!(device.elapsed(&begin, &end).is_err(), "a time between events that were never recorded");
    device.record(&begin, &stream)?;
    std::thread::sleep(std::time::Duration::from_millis(2));
    device.record(&end, &stream)?;
    device.host_wait(&end)?;
    let elapsed = device.elapsed(&begin, &end)?;
    ensure!(elapsed.as_millis() < 10_000, "two events 2 ms apart are {elapsed:?} apart");
    let untimed = device.create_event(false)?;
    device.record(&untimed, &stream)?;
    device.host_wait(&untimed)?;
    ensure!(device.elapsed(&begin, &untimed).is_err(), "a time to an event made without timing");
    Ok(())
}

fn memory<D: Device>(device: &D) -> Result<(), Failure> {
    for kind in [MemoryKind::Device, MemoryKind::Pinned, MemoryKind::Shared] {
        let buffer = match device.allocate(1000, kind) {
            Ok(buffer) => buffer,
            Err(DeviceError::Unsupported { .. }) if kind != MemoryKind::Device => continue,
            Err(error) => return Err(error.into()),
        };
        ensure!(buffer.bytes() == 1000 && buffer.kind() == kind, "{buffer:?}");
        ensure!(buffer.device() == device.id(), "{buffer:?}");
        ensure!(
            buffer.pointer().as_ptr().addr() % 64 == 0,
            "{:?} is not aligned to 64 bytes",
            buffer.pointer()
        );
        let zeros = read(device, buffer.pointer(), 1000)?;
        ensure!(zeros.iter().all(|byte| *byte == 0), "fresh memory is not zero");
        let part = buffer.range(10..30)?;
        ensure!(part.bytes == 20 && part.pointer == buffer.pointer().offset(10), "{part:?}");
        for wrong in [990..1001, usize::MAX - 1..usize::MAX] {
            ensure!(buffer.range(wrong.clone()).is_err(), "the range {wrong:?} of 1000 bytes");
        }
    }
    ensure!(device.allocate(0, MemoryKind::Device)?.bytes() == 0, "an empty buffer has bytes");
    let stream = device.create_stream(Priority::Normal)?;
    ensure!(device.allocate_on(64, &stream)?.bytes() == 64, "a stream-ordered buffer has the wrong size");
    device.synchronize(&stream)?;
    Ok(())
}

fn too_much_memory<D: Device>(device: &D) -> Result<(), Failure> {
    for bytes in [usize::MAX, 1 << 62] {
        let error = device.allocate(bytes, MemoryKind::Device).err();
        ensure!(matches!(error, Some(DeviceError::OutOfMemory { .. })), "{bytes} bytes give {error:?}");
    }
    Ok(())
}

fn random_bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..count).map(|_| random.random()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect()
}

fn upload<D: Device>(device: &D, values: &[f64]) -> Result<D::Buffer, DeviceError> {
    upload_bytes(device, bytemuck::cast_slice(values))
}

fn upload_bytes<D: Device>(device: &D, bytes: &[u8]) -> Result<D::Buffer, DeviceError> {
    let buffer = device.allocate(bytes.len(), MemoryKind::Device)?;
    let stream = device.create_stream(Priority::Normal)?;
    // SAFETY: the buffer is as long as the bytes and lives until the stream is synchronised.
    unsafe { device.write(bytes, buffer.pointer(), &stream)? };
    device.synchronize(&stream)?;
    Ok(buffer)
}

fn read<D: Device>(device: &D, pointer: Pointer, bytes: usize) -> Result<Vec<u8>, DeviceError> {
    read_on(device, pointer, bytes, &device.default_stream())
}

fn read_on<D: Device>(
    device: &D,
    pointer: Pointer,
    bytes: usize,
    stream: &D::Stream,
) -> Result<Vec<u8>, DeviceError> {
    let mut found = vec![0; bytes];
    // SAFETY: callers read from live buffers of at least this length, in order with the stream that wrote them.
    unsafe { device.read(pointer, &mut found, stream)? };
    Ok(found)
}
