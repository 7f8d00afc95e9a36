//! What SYCL costs beside OpenCL, on a device that both reach: an exchange, and the launch of a kernel.
//!
//!     HALOPORT_SYCL_DRIVER=sycl cargo bench -p haloport-sycl --bench drivers
//!
//! Two ranks, threads of this process, own 128³ cells of `f64` each. The exchanges of the two devices alternate in one run; after
//! a check of every halo cell, medians and their ratio are printed. The launch through Haloport is compared with the launch of the
//! same kernel in the same queue by dpctl's library for C, which `HALOPORT_DPCTL` names, and with that through OpenCL.
//!
//! The libraries must be found: an OpenCL loader with one driver of a CPU (`OCL_ICD_VENDORS`), libsycl, and Haloport's library for
//! it (`HALOPORT_SYCL_SHIM`).

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod common;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::time::{Duration, Instant};

use cl3::context::{create_context, release_context};
use cl3::device::{CL_DEVICE_TYPE_CPU, get_device_ids};
use cl3::platform::get_platform_ids;
use haloport_core::device::{Buffer, Device, KernelArgument, LaunchConfig, MemoryKind, Stream};
use haloport_core::{Communicator, DataPath, Exchange, Field, Grid, Halo, Pattern, Split, run_ranks};
use haloport_sycl::SyclDevice;
use libloading::Library;

use common::{Failure, SHORT, bound, check};

/// The number of cells that a rank owns along each axis.
const LOCAL: usize = 128;
const RANKS: usize = 2;
const SAMPLES: usize = 300;
/// The number of launches that are timed together.
const BATCH: usize = 100;
const BATCHES: usize = 201;

fn main() {
    let (opencl, sycl) = match devices() {
        Ok(devices) => devices,
        Err(error) => return println!("skipped: {error}"),
    };
    for device in [&opencl, &sycl] {
        println!("{}: {}", device.info().name, device.info().driver);
    }
    assert!(sycl.info().driver.ends_with("by SYCL"), "HALOPORT_SYCL_DRIVER is not sycl");
    println!("\n{RANKS} ranks, {LOCAL}³ cells of f64 each, {SAMPLES} samples, medians in µs");
    println!("| exchange | OpenCL | SYCL | ratio |\n| --- | --- | --- | --- |");
    for path in [DataPath::Direct, DataPath::Messages] {
        for (split, parts) in [("slowest", [RANKS, 1, 1]), ("fastest", [1, 1, RANKS])] {
            for halo in [1, 3] {
                let [opencl, sycl] = exchanges([&opencl, &sycl], path, halo, parts).unwrap();
                row(&format!("{path}, halo {halo}, split along the {split} axis"), opencl, sycl);
            }
        }
    }
    println!("\n{BATCHES} batches of {BATCH} launches, medians of the host's time for one in µs");
    println!("| launch | the other | Haloport through SYCL | ratio |\n| --- | --- | --- | --- |");
    launches(&opencl, &sycl);
}

/// The CPU of the first platform through OpenCL, in a context of its own, and the same device through SYCL.
fn devices() -> Result<(SyclDevice, SyclDevice), Failure> {
    let sycl = SyclDevice::from_sycl_filter("opencl:cpu")?;
    let failed = |error| format!("OpenCL has returned {error}");
    let platforms = get_platform_ids().map_err(failed)?;
    let platform = *platforms.first().ok_or("there is no platform of OpenCL")?;
    let devices = get_device_ids(platform, CL_DEVICE_TYPE_CPU).map_err(failed)?;
    let device = *devices.first().ok_or("the platform has no CPU")?;
    let context = create_context(&[device], ptr::null(), None, ptr::null_mut()).map_err(failed)?;
    // SAFETY: the context is live; the device takes a reference of its own.
    let opencl = unsafe {
        let opencl = SyclDevice::from_context(context.addr(), None);
        release_context(context).map_err(failed)?;
        opencl?
    };
    Ok((opencl, sycl))
}

/// The medians of an exchange on each of the devices, whose runs alternate.
fn exchanges(
    devices: [&SyclDevice; 2],
    path: DataPath,
    halo: usize,
    parts: [usize; 3],
) -> Result<[Duration; 2], Failure> {
    let of_ranks = run_ranks(RANKS, |comm| -> Result<[Duration; 2], Failure> {
        let grid = Grid::new(parts.map(|parts| parts * LOCAL))?.periodic([true; 3])?;
        let domain = Split::even(&grid, parts)?.part(comm.rank()).ok_or("no part")?;
        let pattern = Pattern::structured(&comm, &grid, &[domain], &Halo::uniform(halo))?;
        let mut bound = [bound(&pattern, devices[0], path)?, bound(&pattern, devices[1], path)?];
        let mut times = [Vec::new(), Vec::new()];
        for sample in 0..SAMPLES + 10 {
            for which in [sample % 2, 1 - sample % 2] {
                let time = timed_exchange(&comm, &mut bound[which])?;
                if sample >= 10 {
                    times[which].push(time);
                }
            }
        }
        for exchange in &bound {
            check(exchange, &grid)?;
        }
        Ok(times.map(median))
    })?;
    Ok(of_ranks.into_iter().next().ok_or("no rank")?)
}

fn timed_exchange(
    comm: &Communicator,
    exchange: &mut Exchange<Field<f64, SyclDevice>>,
) -> Result<Duration, Failure> {
    comm.barrier()?;
    let begin = Instant::now();
    exchange.run_blocking()?;
    comm.barrier()?;
    Ok(begin.elapsed())
}

/// `DPCTLQueue_SubmitNDRange` in dpctl_sycl_queue_interface.h.
type Submit = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *const *mut c_void,
    *const c_int,
    usize,
    *const usize,
    *const usize,
    usize,
    *const *mut c_void,
    usize,
) -> *mut c_void;
/// `DPCTLEvent_Delete`.
type Delete = unsafe extern "C" fn(*mut c_void);

/// The types of arguments in dpctl_sycl_enum_types.h.
const INT64: c_int = 6;
const FLOAT64: c_int = 9;
const POINTER: c_int = 10;

/// Compares launches of one kernel: through SYCL by Haloport, by dpctl, and through OpenCL.
fn launches(opencl: &SyclDevice, sycl: &SyclDevice) {
    let count = 64;
    let bound = |device: &SyclDevice| {
        let [x, y] = [0, 1].map(|_| device.allocate(count * size_of::<f64>(), MemoryKind::Device).unwrap());
        let arguments = [
            KernelArgument::Pointer(x.pointer()),
            KernelArgument::Pointer(y.pointer()),
            KernelArgument::I64(count as i64),
            KernelArgument::F64(2.0),
        ];
        let kernel = device.compile(&SHORT).unwrap();
        let launch = device.bind(&kernel, LaunchConfig::linear(count), &arguments).unwrap();
        (launch, device.default_stream(), [x, y])
    };
    let (launch, stream, memory) = bound(sycl);
    let (other_launch, other_stream, _other_memory) = bound(opencl);
    // SAFETY: the kernels work on buffers that live until the queues have run empty.
    let by_haloport = || unsafe { sycl.launch(&launch, &stream).unwrap() };
    // SAFETY: as above.
    let by_opencl = || unsafe { opencl.launch(&other_launch, &other_stream).unwrap() };
    let finish = || {
        sycl.synchronize(&stream).unwrap();
        opencl.synchronize(&other_stream).unwrap();
    };
    let [one, other] = alternating(by_haloport, by_opencl, finish);
    row("through OpenCL by Haloport", other, one);

    let Some(path) = std::env::var_os("HALOPORT_DPCTL").filter(|path| !path.is_empty()) else {
        return println!("no launch by dpctl: HALOPORT_DPCTL does not name a libDPCTLSyclInterface.so");
    };
    // SAFETY: loading dpctl's library runs constructors of DPC++ alone; the types are those of its headers.
    let (_library, submit, delete) = unsafe {
        let library = Library::new(path).unwrap();
        let submit: Submit = *library.get(b"DPCTLQueue_SubmitNDRange").unwrap();
        let delete: Delete = *library.get(b"DPCTLEvent_Delete").unwrap();
        (library, submit, delete)
    };
    let [x, y] = memory.each_ref().map(|buffer| buffer.pointer().as_ptr().cast::<c_void>());
    let (mut number, mut factor) = (count as i64, 2.0_f64);
    let arguments = [x, y, ptr::from_mut(&mut number).cast(), ptr::from_mut(&mut factor).cast()];
    let types = [POINTER, POINTER, INT64, FLOAT64];
    let (kernel, queue) = (launch.handle() as *mut c_void, stream.handle() as *mut c_void);
    let (global, group) = ([count, 1, 1], [count, 1, 1]);
    // SAFETY: kernel and queue are live objects of SYCL, and the arguments are those of the kernel, whose memory lives on.
    let by_dpctl = || unsafe {
        let event = submit(
            kernel,
            queue,
            arguments.as_ptr(),
            types.as_ptr(),
            arguments.len(),
            global.as_ptr(),
            group.as_ptr(),
            1,
            ptr::null(),
            0,
        );
        assert!(!event.is_null(), "dpctl has launched nothing");
        delete(event);
    };
    let [one, other] = alternating(by_haloport, by_dpctl, finish);
    row("through SYCL by dpctl", other, one);
}

/// The medians of the times of one call each, from batches that alternate.
fn alternating(one: impl Fn(), other: impl Fn(), finish: impl Fn()) -> [Duration; 2] {
    let timed = |call: &dyn Fn()| {
        let began = Instant::now();
        (0..BATCH).for_each(|_| call());
        began.elapsed() / BATCH as u32
    };
    let mut times = [Vec::new(), Vec::new()];
    for batch in 0..BATCHES {
        for which in [batch % 2, 1 - batch % 2] {
            times[which].push(if which == 0 { timed(&one) } else { timed(&other) });
            finish();
        }
    }
    times.map(median)
}

fn row(name: &str, one: Duration, other: Duration) {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!("| {name} | {:.2} | {:.2} | {:.3} |", micros(one), micros(other), micros(other) / micros(one));
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
