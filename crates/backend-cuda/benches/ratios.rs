//! Compares the backend with the driver's own calls, in one run on the first GPU:
//!
//! - a bound launch with the raw `cuLaunchKernel` of the same kernel, in host time;
//! - packing the halo of 8 fields of 256³ `f64`, 3 cells wide, for 26 neighbours, with a copy of as many bytes on the
//!   device, in device time: all at once, faces whose rows are contiguous, and faces across the rows;
//! - `start` and `finish` of an exchange of one rank with itself, on a stream of its own, in host time: one after the
//!   other, after a pause of 100 ms, and behind a kernel of about 100 ms, for which they should not wait.
//!
//! Between ranks that are threads and share a device `finish` waits for messages, by design, and on the default stream it
//! would hold back all other work. What `start` and `finish` cost between processes is in `crates/transport-mpi/tests/mpi`
//! (`cuda N`).
//!
//! The compared calls take turns; the results are medians. Run it with `cargo bench -p haloport-cuda`; with `--small`,
//! fields have 32³ cells.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark ends by panicking")]

use std::ffi::{c_char, c_void};
use std::ptr;
use std::time::{Duration, Instant};

use haloport_core::device::{
    BoxCopy, Buffer, CopyAxis, CopyItem, Device, KernelArgument, KernelSource, LaunchConfig, MemoryKind,
    NextReader, ParameterType, Priority, Stream,
};
use haloport_core::{Field, Grid, Halo, Pattern, Split, run_ranks};
use haloport_cuda::{CudaDevice, CudaStream};
use libloading::{Library, Symbol};

const BATCH: usize = 100;
const ROUNDS: usize = 101;
/// The number of exchanges behind a long kernel, and the approximate time of that kernel.
const BEHIND: usize = 11;
const LONG_TIME: Duration = Duration::from_millis(100);
const FIELDS: usize = 8;
const HALO: usize = 3;
const ELEMENT: usize = size_of::<f64>();

/// The bytes that a GPU's memory moves at once, including gaps.
const SECTOR: usize = 32;

/// A short kernel with arguments of every size.
const SHORT: KernelSource = KernelSource {
    name: "short_one",
    portable: Some(
        "KERNEL void short_one(GLOBAL double *x, GLOBAL double *y, long n, double a) {\n\
         \x20   long i = GLOBAL_INDEX(0);\n\
         \x20   if (i < n) y[i] = a * x[i];\n\
         }\n",
    ),
    host: |_, _| {},
    parameters: &[ParameterType::Pointer, ParameterType::Pointer, ParameterType::I64, ParameterType::F64],
};

/// A kernel of `n` steps, each of which needs the result of the one before.
const LONG: KernelSource = KernelSource {
    name: "long_one",
    portable: Some(
        "KERNEL void long_one(GLOBAL double *x, long n) {\n\
         \x20   if (GLOBAL_INDEX(0) > 0) return;\n\
         \x20   double a = x[0];\n\
         \x20   for (long i = 0; i < n; ++i) a = 0.999 * a + 1.0;\n\
         \x20   x[0] = a;\n\
         }\n",
    ),
    host: |_, _| {},
    parameters: &[ParameterType::Pointer, ParameterType::I64],
};

type Failure = haloport_core::Error;

fn main() {
    let device = match CudaDevice::new() {
        Ok(device) => device,
        Err(error) => return println!("nothing to measure: {error}"),
    };
    println!("{}: {}", device.info().name, device.info().driver);
    let extent = if std::env::args().any(|argument| argument == "--small") { 32 } else { 256 };
    launches(&device);
    packing(&device, extent);
    exchanges(&device, extent);
}

/// Compares a bound launch with the raw call, in turn.
fn launches(device: &CudaDevice) {
    type Push = unsafe extern "C" fn(usize) -> u32;
    type Load = unsafe extern "C" fn(*mut *mut c_void, *const u8, u32, *mut u32, *mut *mut c_void) -> u32;
    type Find = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> u32;
    type Launch = unsafe extern "C" fn(
        *mut c_void,
        u32,
        u32,
        u32,
        u32,
        u32,
        u32,
        u32,
        usize,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> u32;

    // SAFETY: the library is loaded already; loading it again runs nothing.
    let library = unsafe { Library::new("libcuda.so.1") }.unwrap();
    // SAFETY: the types are those of cuda.h.
    let (push, load, find, raw): (Symbol<Push>, Symbol<Load>, Symbol<Find>, Symbol<Launch>) = unsafe {
        (
            library.get(b"cuCtxPushCurrent_v2").unwrap(),
            library.get(b"cuModuleLoadDataEx").unwrap(),
            library.get(b"cuModuleGetFunction").unwrap(),
            library.get(b"cuLaunchKernel").unwrap(),
        )
    };

    let count = 64;
    let [x, y] = [0, 1].map(|_| device.allocate(count * ELEMENT, MemoryKind::Device).unwrap());
    let arguments = [
        KernelArgument::Pointer(x.pointer()),
        KernelArgument::Pointer(y.pointer()),
        KernelArgument::I64(count as i64),
        KernelArgument::F64(2.0),
    ];
    let kernel = device.compile(&SHORT).unwrap();
    let bound = device.bind(&kernel, LaunchConfig::linear(count), &arguments).unwrap();
    let stream = device.create_stream(Priority::Normal).unwrap();

    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    let mut values = (x.pointer().as_ptr(), y.pointer().as_ptr(), count as i64, 2.0f64);
    let mut addresses: [*mut c_void; 4] = [
        (&raw mut values.0).cast(),
        (&raw mut values.1).cast(),
        (&raw mut values.2).cast(),
        (&raw mut values.3).cast(),
    ];
    // SAFETY: the context and the image of the kernel are alive. From here on the context is current, as for users of
    // CUDA's runtime.
    unsafe {
        assert_eq!(push(device.native()), 0);
        assert_eq!(load(&raw mut module, kernel.binary().as_ptr(), 0, ptr::null_mut(), ptr::null_mut()), 0);
        assert_eq!(find(&raw mut function, module, c"short_one".as_ptr()), 0);
    }
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..2 * ROUNDS {
        let begin = Instant::now();
        for _ in 0..BATCH {
            match round % 2 {
                // SAFETY: the memory has the length that the kernel is given, and lives until the stream is done.
                0 => unsafe { device.launch(&bound, &stream) }.unwrap(),
                _ => {
                    let none = ptr::null_mut();
                    // SAFETY: the same kernel with the same arguments and groups.
                    let status = unsafe {
                        raw(function, 1, 1, 1, 64, 1, 1, 0, stream.handle(), addresses.as_mut_ptr(), none)
                    };
                    assert_eq!(status, 0);
                }
            }
        }
        times[round % 2].push(begin.elapsed() / BATCH as u32);
        device.synchronize(&stream).unwrap();
    }
    let [bound, raw] = times.map(median);
    println!(
        "a launch costs the host: bound {bound:?}, raw {raw:?}, ratio {:.3} (wanted: at most 1.2)",
        ratio(bound, raw)
    );
}

/// Compares packing with a copy of as many bytes, in turn.
fn packing(device: &CudaDevice, extent: usize) {
    let stream = device.create_stream(Priority::High).unwrap();
    let whole = extent + 2 * HALO;
    let fields: Vec<_> =
        (0..FIELDS).map(|_| device.allocate(whole.pow(3) * ELEMENT, MemoryKind::Device).unwrap()).collect();
    let all: Vec<[i32; 3]> = (0..27)
        .map(|number| [number / 9 - 1, number / 3 % 3 - 1, number % 3 - 1])
        .filter(|direction| *direction != [0; 3])
        .collect();
    let faces = |axes: &[usize]| -> Vec<[i32; 3]> {
        all.iter()
            .copied()
            .filter(|to| {
                to.iter().filter(|step| **step != 0).count() == 1 && axes.iter().any(|axis| to[*axis] != 0)
            })
            .collect()
    };
    for (name, directions, wanted) in [
        ("26 neighbours", all.clone(), ""),
        ("faces with contiguous rows", faces(&[0, 1]), " (wanted: at least 70%)"),
        ("faces across the rows", faces(&[2]), ""),
    ] {
        let boxes: Vec<[std::ops::Range<usize>; 3]> = directions
            .iter()
            .map(|to| {
                to.map(|step| match step {
                    0 => HALO..HALO + extent,
                    -1 => HALO..2 * HALO,
                    _ => extent..extent + HALO,
                })
            })
            .collect();
        let bytes: usize = FIELDS
            * boxes
                .iter()
                .map(|cells| cells.iter().map(|range| range.len()).product::<usize>())
                .sum::<usize>()
            * ELEMENT;
        let buffer = device.allocate(bytes, MemoryKind::Device).unwrap();
        let twin = device.allocate(bytes, MemoryKind::Device).unwrap();
        let mut at = 0;
        let mut items = Vec::new();
        for cells in &boxes {
            for field in &fields {
                let strides = [whole * whole * ELEMENT, whole * ELEMENT, ELEMENT];
                let packed = [cells[1].len() * cells[2].len() * ELEMENT, cells[2].len() * ELEMENT, ELEMENT];
                let first: usize = (0..3).map(|axis| cells[axis].start * strides[axis]).sum();
                let axes: [CopyAxis; 3] = std::array::from_fn(|axis| CopyAxis {
                    extent: cells[axis].len(),
                    source_stride: strides[axis] as isize,
                    target_stride: packed[axis] as isize,
                });
                let (source, target) =
                    (field.pointer().offset(first as isize), buffer.pointer().offset(at as isize));
                items.push(CopyItem::Box(BoxCopy::new(source, target, ELEMENT, &axes).unwrap()));
                at += cells.iter().map(|range| range.len()).product::<usize>() * ELEMENT;
            }
        }
        // Every row is read in whole sectors and written without gaps. (Fields begin at a multiple of a sector.)
        let sectors: usize = boxes
            .iter()
            .flat_map(|[planes, rows, row]| {
                let rows = planes.clone().flat_map(move |plane| rows.clone().map(move |row| (plane, row)));
                rows.map(move |(plane, of)| {
                    let first = (plane * whole + of) * whole;
                    ((first + row.end) * ELEMENT).div_ceil(SECTOR) - (first + row.start) * ELEMENT / SECTOR
                })
            })
            .sum();
        let bound = 2.0 * bytes as f64 / (bytes + FIELDS * sectors * SECTOR) as f64;
        let list = device.bind_copies(items, NextReader::Elsewhere).unwrap();
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..2 * ROUNDS {
            // SAFETY: the boxes lie in the fields, the buffers are long enough, and all of them live until the stream
            // is done.
            times[round % 2].push(on_device(device, &stream, || unsafe {
                match round % 2 {
                    0 => device.run_copies(&list, &[], &stream),
                    _ => device.copy(buffer.pointer(), twin.pointer(), bytes, &stream),
                }
                .unwrap();
            }));
        }
        let [packing, copy] = times.map(median);
        let speed = |time: Duration| 2.0 * bytes as f64 / time.as_secs_f64() / 1e9;
        println!(
            "packing {name}, {:.1} MB: {packing:?} ({:.0} GB/s), copying as much: {copy:?} ({:.0} GB/s): {:.0}%{wanted}, \
             where sectors of {SECTOR} bytes set the bound {:.0}%",
            bytes as f64 / 1e6,
            speed(packing),
            speed(copy),
            100.0 * ratio(copy, packing),
            100.0 * bound,
        );
    }
}

/// What comes before a timed `start`.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Exchange,
    /// A pause of the host, after which its caches are cold, as they are behind the kernel.
    Pause,
    Kernel,
}

/// Times `start` and `finish` of one rank on a stream of its own, alone and behind a long kernel.
fn exchanges(device: &CudaDevice, extent: usize) {
    let (steps, long) = LongKernel::steps(device).unwrap();
    let results = run_ranks(1, |comm| -> Result<_, Failure> {
        let stream = device.create_stream(Priority::Normal)?;
        let grid = Grid::new([extent; 3])?.periodic([true; 3])?;
        let split = Split::balanced(&grid, 1)?;
        let mine = split.part(0).ok_or("there is no part")?;
        let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(HALO))?;
        let mut exchange = pattern.bind(Field::<f64, _>::new(device, &pattern)?)?;
        let kernel = LongKernel::new(device, steps)?;
        let done = device.create_event(false)?;
        let mut results = Vec::new();
        for (rounds, before) in
            [(ROUNDS, Before::Exchange), (BEHIND, Before::Pause), (BEHIND, Before::Kernel)]
        {
            let (mut times, mut early) = ([Vec::new(), Vec::new()], 0);
            for _ in 0..rounds {
                match before {
                    Before::Exchange => {}
                    Before::Pause => std::thread::sleep(long),
                    Before::Kernel => {
                        kernel.launch(device, &stream)?;
                        device.record(&done, &stream)?;
                    }
                }
                let begin = Instant::now();
                let pending = exchange.start_on(&stream)?;
                times[0].push(begin.elapsed());
                let begin = Instant::now();
                pending.finish_on(&stream)?;
                times[1].push(begin.elapsed());
                early += usize::from(before == Before::Kernel && !device.query(&done)?);
                device.synchronize(&stream)?;
            }
            results.push((times.map(median), early));
        }
        Ok(results)
    })
    .unwrap();
    let ([start, finish], _) = results[0][0];
    println!(
        "one rank with itself: start costs the host {start:?}, finish {finish:?} (wanted: at most 30µs each)"
    );
    let ([start, finish], _) = results[0][1];
    println!("the same after a pause of {long:?}: start {start:?}, finish {finish:?}");
    let ([start, finish], early) = results[0][2];
    println!(
        "the same behind a kernel of {long:?}: start {start:?}, finish {finish:?}, returned while it ran in {early} of \
         {BEHIND} rounds (wanted: all)"
    );
}

/// The bound kernel [`LONG`].
struct LongKernel {
    launch: <CudaDevice as Device>::Launch,
    _memory: <CudaDevice as Device>::Buffer,
}

impl LongKernel {
    fn new(device: &CudaDevice, steps: i64) -> Result<LongKernel, Failure> {
        let memory = device.allocate(ELEMENT, MemoryKind::Device)?;
        let kernel = device.compile(&LONG)?;
        let arguments = [KernelArgument::Pointer(memory.pointer()), KernelArgument::I64(steps)];
        let launch = device.bind(&kernel, LaunchConfig::linear(1), &arguments)?;
        Ok(LongKernel { launch, _memory: memory })
    }

    fn launch(&self, device: &CudaDevice, stream: &CudaStream) -> Result<(), Failure> {
        // SAFETY: the memory holds one number, and every caller waits for the stream before dropping this.
        Ok(unsafe { device.launch(&self.launch, stream) }?)
    }

    /// The number of steps that take about [`LONG_TIME`], and their time.
    fn steps(device: &CudaDevice) -> Result<(i64, Duration), Failure> {
        let timed = |steps| -> Result<Duration, Failure> {
            let kernel = LongKernel::new(device, steps)?;
            let stream = device.default_stream();
            Ok(on_device(device, &stream, || kernel.launch(device, &stream).unwrap()))
        };
        let mut steps = 100_000;
        // An idle GPU lowers its clock, so the next attempt may be faster.
        for _ in 0..4 {
            steps = (steps as f64 * ratio(LONG_TIME, timed(steps)?).clamp(0.01, 1000.0)) as i64;
        }
        Ok((steps, timed(steps)?))
    }
}

/// The device time of some work.
fn on_device(device: &CudaDevice, stream: &CudaStream, work: impl FnOnce()) -> Duration {
    let [begin, end] = [0, 1].map(|_| device.create_event(true).unwrap());
    device.record(&begin, stream).unwrap();
    work();
    device.record(&end, stream).unwrap();
    device.host_wait(&end).unwrap();
    device.elapsed(&begin, &end).unwrap()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}
