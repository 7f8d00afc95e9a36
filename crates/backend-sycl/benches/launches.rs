//! Measures the host's time for a bound launch, compared with the raw call of OpenCL with the same kernel object, whose
//! arguments are set.
//!
//! The two alternate in batches; between batches the queue runs empty, which is not timed. The results are medians. Run
//! it with `cargo bench -p haloport-sycl`, and with `OCL_ICD_VENDORS` to choose the driver.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark ends by panicking")]

mod common;

use std::ffi::c_void;
use std::ptr;
use std::time::Instant;

use haloport_core::device::{Buffer, Device, KernelArgument, LaunchConfig, MemoryKind, Stream};
use haloport_sycl::SyclDevice;
use libloading::{Library, Symbol};

use common::SHORT;

const BATCH: usize = 100;
const ROUNDS: usize = 401;

/// The type of `clEnqueueNDRangeKernel` in CL/cl.h.
type Enqueue = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    u32,
    *const usize,
    *const usize,
    *const usize,
    u32,
    *const *mut c_void,
    *mut *mut c_void,
) -> i32;

fn main() {
    let device = match SyclDevice::new() {
        Ok(device) => device,
        Err(error) => return println!("nothing to measure: {error}"),
    };
    // SAFETY: the library is loaded already; loading it again runs nothing.
    let library = unsafe { Library::new("libOpenCL.so.1") }.unwrap();
    // SAFETY: the type is that of the header.
    let enqueue: Symbol<Enqueue> = unsafe { library.get(b"clEnqueueNDRangeKernel") }.unwrap();

    let count = 64;
    let [x, y] = [0, 1].map(|_| device.allocate(count * size_of::<f64>(), MemoryKind::Device).unwrap());
    let arguments = [
        KernelArgument::Pointer(x.pointer()),
        KernelArgument::Pointer(y.pointer()),
        KernelArgument::I64(count as i64),
        KernelArgument::F64(2.0),
    ];
    let kernel = device.compile(&SHORT).unwrap();
    let launch = device.bind(&kernel, LaunchConfig::linear(count), &arguments).unwrap();
    let stream = device.default_stream();
    let (queue, raw_kernel) = (stream.handle() as *mut c_void, launch.handle() as *mut c_void);
    let global = [count, 1, 1];

    // SAFETY: the kernel works on the two buffers, which live until the queue has run empty.
    let bound = || unsafe { device.launch(&launch, &stream).unwrap() };
    // SAFETY: as above; queue and kernel are live, and sizes have three numbers.
    let raw = || unsafe {
        let status = enqueue(
            queue,
            raw_kernel,
            3,
            ptr::null(),
            global.as_ptr(),
            ptr::null(),
            0,
            ptr::null(),
            ptr::null_mut(),
        );
        assert_eq!(status, 0);
    };
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        // Each is first in every other round.
        for which in [round % 2, 1 - round % 2] {
            times[which].push(if which == 0 { timed(bound) } else { timed(raw) });
            device.synchronize(&stream).unwrap();
        }
    }
    let [bound, raw] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    println!("{}, {}", device.info().name, device.info().driver);
    println!("| a bound launch, µs | the raw call, µs | ratio |");
    println!("| --- | --- | --- |");
    println!("| {bound:.3} | {raw:.3} | {:.3} |", bound / raw);
}

/// The time of one call in microseconds, from a batch of them.
fn timed(call: impl Fn()) -> f64 {
    let began = Instant::now();
    (0..BATCH).for_each(|_| call());
    began.elapsed().as_secs_f64() * 1e6 / BATCH as f64
}
