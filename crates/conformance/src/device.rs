//! The device suite: what every backend does.

mod elements;
mod faces;
mod order;
mod signs;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haloport_core::device::{
    BoxCopy, Buffer, CopyAxis, CopyItem, Device, DeviceError, Event, IndexRange, IndexedCopy, KernelArgument,
    KernelSource, LaunchConfig, MemoryKind, NextReader, ParameterType, Pointer, Priority, Rows, Stream,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::{Exception, Failure, Report, ensure, judge};
pub(crate) use order::Slow;

/// The kernels of the suite, for compilers without a device.
pub fn kernel_sources() -> Vec<KernelSource> {
    [SAXPY, COUNT, order::SPIN].into_iter().chain(elements::KERNELS.map(|(_, kernel)| kernel)).collect()
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
            ("copies", copies),
            ("box copies", box_copies),
            ("fills", fills),
            ("bound copies", bound_copies),
            ("large bound copies", large_bound_copies),
            ("faces", faces::faces),
            ("indexed copies", indexed_copies),
            ("large indexed copies", large_indexed_copies),
            ("sign changes", signs::sign_changes),
            ("kernels", kernels),
            ("kernels in three dimensions", kernels_in_three_dimensions),
            ("rebinding", rebinding),
            ("wrong arguments", wrong_arguments),
            ("element types", elements::element_types),
            ("launches by several threads", order::launches_by_several_threads),
            ("order across streams", order_across_streams),
            ("work after the call", order::work_after_the_call),
            ("waiting streams", order::waiting_streams),
            ("streams side by side", order::streams_side_by_side),
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

fn copies<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let values = random_bytes(1, 5000);
    let (first, second) =
        (device.allocate(5000, MemoryKind::Device)?, device.allocate(5000, MemoryKind::Device)?);
    let mut back = vec![0; 4000];
    // SAFETY: all ranges lie in the buffers, which live until the last read has returned; one stream orders it all.
    unsafe {
        device.write(&values, first.pointer(), &stream)?;
        device.copy(first.pointer().offset(500), second.pointer().offset(1000), 4000, &stream)?;
        device.copy(first.pointer(), second.pointer(), 0, &stream)?;
        device.read(second.pointer().offset(1000), &mut back, &stream)?;
    }
    ensure!(back == values[500..4500], "the bytes came back changed");
    Ok(())
}

fn box_copies<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut random = StdRng::seed_from_u64(2);
    for number in 0..200 {
        let case = BoxCase::random(&mut random, 6);
        let (source, target) = (case.source(device)?, case.target(device)?);
        // SAFETY: the case stays within its buffers, which live until the read has returned.
        unsafe { device.copy_box(&case.copy(source.pointer(), target.pointer())?, &stream)? };
        let found = read_on(device, target.pointer(), case.target_bytes, &stream)?;
        ensure!(found == case.expected(), "box copy {number} is wrong: {case:?}");
    }
    Ok(())
}

fn fills<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let buffer = device.allocate(4096, MemoryKind::Device)?;
    for (size, begin) in [1usize, 2, 4, 8, 16].into_iter().flat_map(|size| [(size, 64), (size, 65)]) {
        let element = random_bytes(size as u64, size);
        // SAFETY: 64 to 65 + 100 × 16 bytes lie in the buffer.
        unsafe { device.fill(buffer.pointer().offset(begin as isize), &element, 100, &stream)? };
        let found = read_on(device, buffer.pointer(), begin + 100 * size + 1, &stream)?;
        let (before, rest) = found.split_at(begin);
        ensure!(rest[..100 * size] == element.repeat(100), "a fill of {size} bytes from {begin} on is wrong");
        ensure!(before[..64].iter().all(|byte| *byte == 0), "a fill of {size} bytes wrote before its target");
    }
    for size in [0usize, 3, 32] {
        // SAFETY: as above; the call is refused.
        let result = unsafe { device.fill(buffer.pointer(), &vec![1; size], 1, &stream) };
        ensure!(result.is_err(), "a fill of elements of {size} bytes was taken");
    }
    Ok(())
}

/// What is in a target before.
const BACKGROUND: u8 = 0xA5;

/// Who is said to read what the lists of a round write, which changes the speed alone.
fn reader_of(round: usize) -> NextReader {
    if round.is_multiple_of(2) { NextReader::Here } else { NextReader::Elsewhere }
}

/// How often the list of a round is run: for another reader, a device may try several ways before it keeps to one.
fn runs_of(round: usize) -> usize {
    if reader_of(round) == NextReader::Here { 1 } else { 4 }
}

fn bound_copies<D: Device>(device: &D) -> Result<(), Failure> {
    bound_copies_of(device, 3, 20, 6)
}

/// Large enough to be spread over threads.
fn large_bound_copies<D: Device>(device: &D) -> Result<(), Failure> {
    bound_copies_of(device, 4, 12, 24)
}

fn bound_copies_of<D: Device>(device: &D, seed: u64, count: usize, extent: usize) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..4 {
        let cases: Vec<BoxCase> = (0..count).map(|_| BoxCase::random(&mut random, extent)).collect();
        let mut buffers = Vec::new();
        let mut items = Vec::new();
        for case in &cases {
            let (source, target) = (case.source(device)?, case.target(device)?);
            items.push(CopyItem::Box(case.copy(source.pointer(), target.pointer())?));
            buffers.push((source, target));
        }
        let list = device.bind_copies(items, reader_of(round))?;
        for run in 0..runs_of(round) {
            // SAFETY: every item stays within its own buffers, which live until the reads have returned.
            unsafe {
                for (case, (_, target)) in cases.iter().zip(&buffers) {
                    device.fill(target.pointer(), &[BACKGROUND], case.target_bytes, &stream)?;
                }
                device.run_copies(&list, &stream)?;
            }
            for (number, (case, (_, target))) in cases.iter().zip(&buffers).enumerate() {
                let found = read_on(device, target.pointer(), case.target_bytes, &stream)?;
                ensure!(
                    found == case.expected(),
                    "run {run}: item {number} of list {round} is wrong: {case:?}"
                );
            }
        }
    }
    let empty = device.bind_copies(Vec::new(), NextReader::Here)?;
    // SAFETY: an empty list touches nothing.
    unsafe { device.run_copies(&empty, &stream)? };
    Ok(())
}

fn indexed_copies<D: Device>(device: &D) -> Result<(), Failure> {
    indexed_copies_of(device, 5, 40, 2_000)
}

/// Large enough to be spread over threads.
fn large_indexed_copies<D: Device>(device: &D) -> Result<(), Failure> {
    indexed_copies_of(device, 6, 4, 1 << 20)
}

fn indexed_copies_of<D: Device>(
    device: &D,
    seed: u64,
    count: usize,
    most_bytes: usize,
) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..8 {
        let mut buffers = Vec::new();
        let mut items = Vec::new();
        for _ in 0..count {
            let gather = Gather::random(&mut random, 1 + round % 4, most_bytes);
            let (source, target) = (gather.source(device)?, gather.target(device)?);
            items.push(CopyItem::Indexed(gather.copy(source.pointer(), target.pointer())?));
            buffers.push((gather, source, target));
        }
        let list = device.bind_copies(items, reader_of(round))?;
        for run in 0..runs_of(round) {
            // SAFETY: every item stays within its own buffers, which live until the reads have returned.
            unsafe {
                for (gather, _, target) in &buffers {
                    device.fill(target.pointer(), &[BACKGROUND], gather.target.bytes, &stream)?;
                }
                device.run_copies(&list, &stream)?;
            }
            for (number, (gather, _, target)) in buffers.iter().enumerate() {
                let found = read_on(device, target.pointer(), gather.target.bytes, &stream)?;
                let Gather { row, rows, .. } = gather;
                ensure!(
                    found == gather.expected(),
                    "run {run}: item {number} of list {round} is wrong: {rows} rows of {row:?}"
                );
            }
        }
    }
    Ok(())
}

const SAXPY: KernelSource = KernelSource {
    name: "saxpy",
    portable: Some(
        "KERNEL void saxpy(GLOBAL const double *x, GLOBAL double *y, double a, long n) {\n\
               \x20   long i = GLOBAL_INDEX(0);\n\
               \x20   if (i < n) y[i] = a * x[i] + y[i];\n\
               }\n",
    ),
    host: |range, arguments| {
        let [
            KernelArgument::Pointer(x),
            KernelArgument::Pointer(y),
            KernelArgument::F64(a),
            KernelArgument::I64(n),
        ] = arguments
        else {
            return;
        };
        let (x, y) = (x.as_ptr().cast::<f64>(), y.as_ptr().cast::<f64>());
        for i in range.begin[0]..range.end[0].min(*n as usize) {
            // SAFETY: the launch promised `n` elements of both, and this index to this call alone.
            unsafe { *y.add(i) += a * *x.add(i) };
        }
    },
    parameters: &[ParameterType::Pointer, ParameterType::Pointer, ParameterType::F64, ParameterType::I64],
};

fn kernels<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let kernel = device.compile(&SAXPY)?;
    for count in [0usize, 1, 1000, 100_000] {
        let x: Vec<f64> = (0..count).map(|i| i as f64).collect();
        let (xs, ys) = (upload(device, &x)?, upload(device, &vec![1.0; count])?);
        let arguments = saxpy(xs.pointer(), ys.pointer(), 2.0, count);
        let launch = device.bind(&kernel, LaunchConfig::linear(count), &arguments)?;
        for _ in 0..3 {
            // SAFETY: both buffers hold `count` elements and live until the read has returned.
            unsafe { device.launch(&launch, &stream)? };
        }
        let found = floats(&read_on(device, ys.pointer(), count * 8, &stream)?);
        let wrong = found.iter().enumerate().find(|(i, y)| **y != 1.0 + 6.0 * *i as f64);
        ensure!(wrong.is_none(), "element {wrong:?} of {count}");
    }
    Ok(())
}

/// Counts each index once.
const COUNT: KernelSource = KernelSource {
    name: "count",
    portable: Some(
        "KERNEL void count(GLOBAL long *counts, long nx, long ny, long nz) {\n\
               \x20   long x = GLOBAL_INDEX(0), y = GLOBAL_INDEX(1), z = GLOBAL_INDEX(2);\n\
               \x20   if (x < nx && y < ny && z < nz) counts[(z * ny + y) * nx + x] += 1 + x + 1000 * y + 1000000 * z;\n\
               }\n",
    ),
    host: |range: &IndexRange, arguments| {
        let [KernelArgument::Pointer(counts), KernelArgument::I64(nx), KernelArgument::I64(ny), _] =
            arguments
        else {
            return;
        };
        for z in range.begin[2]..range.end[2] {
            for y in range.begin[1]..range.end[1] {
                for x in range.begin[0]..range.end[0] {
                    let index = (z * *ny as usize + y) * *nx as usize + x;
                    // SAFETY: the launch promised one element for each index, and this one to this call alone.
                    let count = unsafe { &*counts.as_ptr().cast::<AtomicU64>().add(index) };
                    count.fetch_add((1 + x + 1000 * y + 1_000_000 * z) as u64, Ordering::Relaxed);
                }
            }
        }
    },
    parameters: &[ParameterType::Pointer, ParameterType::I64, ParameterType::I64, ParameterType::I64],
};

fn kernels_in_three_dimensions<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let kernel = device.compile(&COUNT)?;
    for [nx, ny, nz] in [[3usize, 4, 5], [70, 60, 10], [40_000, 1, 1], [1, 30_000, 1], [5, 0, 2]] {
        let counts = device.allocate(nx * ny * nz * 8, MemoryKind::Device)?;
        let extents = [nx, ny, nz].map(|n| KernelArgument::I64(n as i64));
        let arguments = [KernelArgument::Pointer(counts.pointer()), extents[0], extents[1], extents[2]];
        let config = LaunchConfig { global: [nx, ny, nz], group: None };
        let launch = device.bind(&kernel, config, &arguments)?;
        // SAFETY: the buffer holds one element for each index and lives until the read has returned.
        unsafe { device.launch(&launch, &stream)? };
        let bytes = read_on(device, counts.pointer(), nx * ny * nz * 8, &stream)?;
        for (index, found) in bytes.chunks_exact(8).enumerate() {
            let (x, y, z) = (index % nx, index / nx % ny, index / nx / ny);
            let expected = (1 + x + 1000 * y + 1_000_000 * z) as u64;
            ensure!(found == expected.to_ne_bytes(), "index {x}, {y}, {z} of {nx} × {ny} × {nz}");
        }
    }
    Ok(())
}

fn rebinding<D: Device>(device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let (x, y, other) =
        (upload(device, &[1.0; 10])?, upload(device, &[0.0; 10])?, upload(device, &[5.0; 10])?);
    let kernel = device.compile(&SAXPY)?;
    let arguments = saxpy(x.pointer(), y.pointer(), 1.0, 10);
    let mut launch = device.bind(&kernel, LaunchConfig::linear(10), &arguments)?;
    // SAFETY: all buffers hold 10 elements and live until the reads have returned.
    unsafe {
        device.launch(&launch, &stream)?;
        device.rebind(&mut launch, 2, KernelArgument::F64(10.0))?;
        device.launch(&launch, &stream)?;
        device.rebind(&mut launch, 1, KernelArgument::Pointer(other.pointer()))?;
        device.launch(&launch, &stream)?;
    }
    let first = floats(&read_on(device, y.pointer(), 80, &stream)?);
    let second = floats(&read_on(device, other.pointer(), 80, &stream)?);
    ensure!(first == [11.0; 10] && second == [15.0; 10], "{first:?}, {second:?}");
    Ok(())
}

fn wrong_arguments<D: Device>(device: &D) -> Result<(), Failure> {
    let kernel = device.compile(&SAXPY)?;
    let buffer = device.allocate(80, MemoryKind::Device)?;
    let mut arguments = saxpy(buffer.pointer(), buffer.pointer(), 1.0, 10);
    ensure!(
        device.bind(&kernel, LaunchConfig::linear(10), &arguments[..3]).is_err(),
        "3 arguments for 4 parameters were taken"
    );
    arguments[2] = KernelArgument::F32(1.0);
    ensure!(
        device.bind(&kernel, LaunchConfig::linear(10), &arguments).is_err(),
        "an f32 for an f64 parameter was taken"
    );
    arguments[2] = KernelArgument::F64(1.0);
    let mut launch = device.bind(&kernel, LaunchConfig::linear(10), &arguments)?;
    ensure!(device.rebind(&mut launch, 4, KernelArgument::I64(1)).is_err(), "argument 4 of 4 was rebound");
    ensure!(device.rebind(&mut launch, 0, KernelArgument::I64(1)).is_err(), "a pointer became an integer");
    Ok(())
}

fn order_across_streams<D: Device>(device: &D) -> Result<(), Failure> {
    let (one, two) = (device.create_stream(Priority::Normal)?, device.create_stream(Priority::High)?);
    let event = device.create_event(false)?;
    let kernel = device.compile(&SAXPY)?;
    let count = 200_000;
    let (x, y, z) = (
        upload(device, &vec![1.0; count])?,
        upload(device, &vec![0.0; count])?,
        upload(device, &vec![0.0; count])?,
    );
    let config = LaunchConfig::linear(count);
    let first = device.bind(&kernel, config, &saxpy(x.pointer(), y.pointer(), 1.0, count))?;
    let second = device.bind(&kernel, config, &saxpy(y.pointer(), z.pointer(), 1.0, count))?;
    for _ in 0..10 {
        // SAFETY: the second launch reads what the first writes, and the first of the next round writes what the
        // second reads; events order both. All buffers live until the read has returned.
        unsafe {
            device.launch(&first, &one)?;
            device.record(&event, &one)?;
            device.stream_wait(&two, &event)?;
            device.launch(&second, &two)?;
            device.record(&event, &two)?;
            device.stream_wait(&one, &event)?;
        }
    }
    let found = floats(&read_on(device, z.pointer(), count * 8, &two)?);
    device.synchronize(&one)?;
    let wrong = found.iter().find(|value| **value != 55.0);
    ensure!(wrong.is_none(), "found {wrong:?}, expected 55");
    Ok(())
}

/// A random strided copy with its expected outcome.
#[derive(Debug)]
struct BoxCase {
    element_bytes: usize,
    axes: Vec<CopyAxis>,
    source_bytes: usize,
    target_bytes: usize,
    seed: u64,
}

impl BoxCase {
    fn random(random: &mut StdRng, extent: usize) -> BoxCase {
        let element_bytes = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 100][random.random_range(0..11)];
        let count = random.random_range(0..=4);
        let extents: Vec<usize> = (0..count).map(|_| random.random_range(1..=extent)).collect();
        let mut lay_out = || {
            let mut order: Vec<usize> = (0..count).collect();
            order.shuffle(random);
            let mut strides = vec![0isize; count];
            let mut stride = element_bytes;
            for &axis in &order {
                strides[axis] = stride as isize;
                stride *= extents[axis] + if random.random_bool(0.5) { 0 } else { random.random_range(0..3) };
            }
            (strides, stride)
        };
        let (source_strides, source_bytes) = lay_out();
        let (target_strides, target_bytes) = lay_out();
        let axes = (0..count)
            .map(|axis| CopyAxis {
                extent: extents[axis],
                source_stride: source_strides[axis],
                target_stride: target_strides[axis],
            })
            .collect();
        BoxCase { element_bytes, axes, source_bytes, target_bytes, seed: random.random() }
    }

    fn copy(&self, source: Pointer, target: Pointer) -> Result<BoxCopy, DeviceError> {
        BoxCopy::new(source, target, self.element_bytes, &self.axes)
    }

    fn source<D: Device>(&self, device: &D) -> Result<D::Buffer, DeviceError> {
        upload_bytes(device, &random_bytes(self.seed, self.source_bytes))
    }

    fn target<D: Device>(&self, device: &D) -> Result<D::Buffer, DeviceError> {
        upload_bytes(device, &vec![BACKGROUND; self.target_bytes])
    }

    /// The target as it should be, element by element.
    fn expected(&self) -> Vec<u8> {
        let source = random_bytes(self.seed, self.source_bytes);
        let mut target = vec![BACKGROUND; self.target_bytes];
        self.copy_bytes(&source, &mut target);
        target
    }

    fn copy_bytes(&self, source: &[u8], target: &mut [u8]) {
        let points: usize = self.axes.iter().map(|axis| axis.extent).product();
        for mut point in 0..points {
            let (mut from, mut to) = (0isize, 0isize);
            for axis in &self.axes {
                let index = (point % axis.extent) as isize;
                point /= axis.extent;
                from += index * axis.source_stride;
                to += index * axis.target_stride;
            }
            let (from, to) = (from as usize, to as usize);
            target[to..to + self.element_bytes].copy_from_slice(&source[from..from + self.element_bytes]);
        }
    }
}

/// A random copy of indexed rows, each of them a strided box.
#[derive(Debug)]
struct Gather {
    row: BoxCase,
    rows: usize,
    source: GatherSide,
    target: GatherSide,
}

/// Where the rows of one side lie: some are not copied.
#[derive(Debug)]
struct GatherSide {
    bytes: usize,
    /// The offset of row 0, in bytes.
    begin: usize,
    stride: isize,
    indices: Option<Arc<[u32]>>,
}

impl Gather {
    /// At most `most_bytes` of row after row, but at least a few rows.
    fn random(random: &mut StdRng, extent: usize, most_bytes: usize) -> Gather {
        let mut row = BoxCase::random(random, extent);
        let rows = random.random_range(1..=(most_bytes / row.source_bytes.max(row.target_bytes)).max(30));
        let held = rows + random.random_range(0..=1 + rows / 4);
        // The rows are the slowest or the fastest axis of either side, padded or not, upwards or downwards: the bytes
        // of all rows and from row to row, and what the strides within a row are multiplied by.
        let mut place = |bytes: usize| {
            let (stride, bytes, scale) = if random.random_bool(0.5) {
                let stride = bytes + random.random_range(0..3) * row.element_bytes;
                (stride, stride * held, 1)
            } else {
                (row.element_bytes, bytes * held, held)
            };
            let downwards = random.random_bool(0.2);
            let begin = if downwards { (held - 1) * stride } else { 0 };
            let stride = if downwards { -(stride as isize) } else { stride as isize };
            (GatherSide { bytes, begin, stride, indices: None }, scale as isize)
        };
        let (mut source, source_scale) = place(row.source_bytes);
        let (mut target, target_scale) = place(row.target_bytes);
        for axis in &mut row.axes {
            axis.source_stride *= source_scale;
            axis.target_stride *= target_scale;
        }
        let anywhere = (0..rows).map(|_| random.random_range(0..held as u32)).collect();
        let (some, others) = (in_runs(random, rows, held), in_runs(random, rows, held));
        (source.indices, target.indices) = match random.random_range(0..6) {
            0 => (Some(anywhere), None),
            1 => (Some(anywhere), Some(some)),
            2 => (None, Some(some)),
            3 => (Some(some), None),
            4 => (Some(some), Some(others)),
            _ => (Some(some.clone()), Some(some)),
        };
        Gather { row, rows, source, target }
    }

    fn source<D: Device>(&self, device: &D) -> Result<D::Buffer, DeviceError> {
        upload_bytes(device, &random_bytes(self.row.seed, self.source.bytes))
    }

    fn target<D: Device>(&self, device: &D) -> Result<D::Buffer, DeviceError> {
        upload_bytes(device, &vec![BACKGROUND; self.target.bytes])
    }

    fn copy(&self, source: Pointer, target: Pointer) -> Result<IndexedCopy, DeviceError> {
        let first = |side: &GatherSide, pointer: Pointer| pointer.offset(side.begin as isize);
        let row = self.row.copy(first(&self.source, source), first(&self.target, target))?;
        let rows = |side: &GatherSide| Rows { stride: side.stride, indices: side.indices.clone() };
        IndexedCopy::new(row, self.rows, rows(&self.source), rows(&self.target))
    }

    fn expected(&self) -> Vec<u8> {
        let source = random_bytes(self.row.seed, self.source.bytes);
        let mut target = vec![BACKGROUND; self.target.bytes];
        for position in 0..self.rows {
            let begin = |side: &GatherSide| {
                let row = side.indices.as_ref().map_or(position, |rows| rows[position] as usize);
                (side.begin as isize + row as isize * side.stride) as usize
            };
            self.row.copy_bytes(&source[begin(&self.source)..], &mut target[begin(&self.target)..]);
        }
        target
    }
}

/// `rows` of the rows held, each at most once; half of the lists have runs of rows that follow each other.
fn in_runs(random: &mut StdRng, rows: usize, held: usize) -> Arc<[u32]> {
    let run = if random.random_bool(0.5) { 1 } else { random.random_range(2..=50) };
    let mut starts: Vec<usize> = (0..held).step_by(run).collect();
    starts.shuffle(random);
    let all = starts.iter().flat_map(|&start| start as u32..(start + run).min(held) as u32);
    all.take(rows).collect()
}

fn saxpy(x: Pointer, y: Pointer, a: f64, n: usize) -> [KernelArgument; 4] {
    [
        KernelArgument::Pointer(x),
        KernelArgument::Pointer(y),
        KernelArgument::F64(a),
        KernelArgument::I64(n as i64),
    ]
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
