//! An exchange on an OpenCL device, compared with the same on the CPU backend, and the parts of its time.
//!
//!     OCL_ICD_VENDORS=$folder cargo bench -p haloport-sycl --bench exchange
//!
//! Two ranks, threads of this process, own 128³ cells of `f64` each. Each runs on a core of its own, as under launchers
//! of processes. Both exchanges pack into messages and unpack from them, to all neighbours at once, and alternate in
//! one run. After a check of every halo cell, the medians are printed:
//! - the two blocking exchanges, and their ratio
//! - of the exchange on the device: `start`, and `finish`, which waits for the neighbour
//! - the exchange on the device in a stream, which the caller then synchronises
//! - the times to pack and to unpack all faces of one rank, alone, on the device and on the CPU backend: in an
//!   immediate stream, if the device has those, and in a queued one
//! - a list of copies of one cell in each stream: the times to launch it, and to wait for it

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod common;

use std::time::{Duration, Instant};

use haloport_core::device::{
    BoxCopy, Buffer, CopyAxis, CopyItem, Device, MemoryKind, NextReader, Pointer, Priority,
};
use haloport_core::{Communicator, DataPath, Grid, Halo, Pattern, Schedule, Split, run_ranks};
use haloport_cpu::CpuDevice;
use haloport_sycl::{SyclDevice, SyclStream};

use common::{Failure, bound, check};

/// The number of cells that a rank owns along each axis.
const LOCAL: usize = 128;
const RANKS: usize = 2;
const SAMPLES: usize = 300;

fn main() {
    let device = match SyclDevice::new() {
        Ok(device) => device,
        Err(error) => return println!("skipped: {error}"),
    };
    println!("{}: {}", device.info().name, device.info().driver);
    println!("{RANKS} ranks, {LOCAL}³ cells of f64 each, {SAMPLES} samples, medians in µs");
    for (split, parts) in [("slowest", [RANKS, 1, 1]), ("fastest", [1, 1, RANKS])] {
        for halo in [1, 3] {
            println!("\nhalo {halo}, split along the {split} axis");
            run_ranks(RANKS, |comm| exchanges(&comm, &device, halo, parts)).unwrap();
        }
    }
    let queued = device.create_stream(Priority::High).unwrap();
    let immediate = device.immediate_streams().map(|it| it.create_immediate_stream().unwrap());
    let streams = immediate.iter().map(|stream| (stream, "immediate")).chain([(&queued, "queued")]);
    for (stream, kind) in streams {
        for halo in [1, 3] {
            println!("\nhalo {halo}, the faces of one rank alone in the {kind} stream");
            let (pack, unpack) = faces(&device, stream, halo).unwrap();
            let cpu = CpuDevice::with_threads(1).unwrap();
            let (cpu_pack, cpu_unpack) = faces(&cpu, &cpu.default_stream(), halo).unwrap();
            row("packed by the device", pack, Some(cpu_pack));
            row("unpacked by the device", unpack, Some(cpu_unpack));
        }
        println!("\na list of copies of one cell in the {kind} stream");
        let (launch, wait) = smallest(&device, stream).unwrap();
        row("launch", launch, None);
        row("wait", wait, None);
    }
}

/// Prints a line of results; `cpu`: the time of the CPU backend.
fn row(name: &str, time: Duration, cpu: Option<Duration>) {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    match cpu {
        Some(cpu) => println!(
            "  {name:28} {:9.1}   {:9.1} on the CPU backend   ratio {:.2}",
            micros(time),
            micros(cpu),
            micros(time) / micros(cpu)
        ),
        None => println!("  {name:28} {:9.1}", micros(time)),
    }
}

/// Collective: runs both exchanges, alternating.
fn exchanges(
    comm: &Communicator,
    device: &SyclDevice,
    halo: usize,
    parts: [usize; 3],
) -> Result<(), Failure> {
    keep_to_core(comm.rank());
    let grid = Grid::new(parts.map(|parts| parts * LOCAL))?.periodic([true; 3])?;
    let domain = Split::even(&grid, parts)?.part(comm.rank()).ok_or("no part")?;
    let pattern = Pattern::structured(comm, &grid, &[domain], &Halo::uniform(halo))?;
    let mut cpu = bound(&pattern, &CpuDevice::with_threads(1)?, DataPath::Messages)?;
    let mut other = bound(&pattern, device, DataPath::Messages)?;
    let mut times: [Vec<Duration>; 4] = Default::default();
    for sample in 0..SAMPLES + 10 {
        comm.barrier()?;
        let begin = Instant::now();
        cpu.run_blocking()?;
        comm.barrier()?;
        let on_cpu = begin.elapsed();
        let begin = Instant::now();
        other.run_blocking()?;
        comm.barrier()?;
        let on_device = begin.elapsed();
        let begin = Instant::now();
        let pending = other.start_on(Schedule::Blocking)?;
        let started = begin.elapsed();
        pending.finish_blocking()?;
        let finished = begin.elapsed() - started;
        if sample >= 10 {
            let all = [on_cpu, on_device, started, finished];
            times.iter_mut().zip(all).for_each(|(times, time)| times.push(time));
        }
    }
    // In a loop of its own, since the device's threads, once awake, look for work for a while.
    let stream = device.create_stream(Priority::High)?;
    let mut in_stream = Vec::new();
    for _ in 0..SAMPLES / 3 {
        comm.barrier()?;
        let begin = Instant::now();
        other.run_on(&stream)?;
        device.synchronize(&stream)?;
        comm.barrier()?;
        in_stream.push(begin.elapsed());
    }
    check(&other, &grid)?;
    if comm.rank() == 0 {
        let [on_cpu, on_device, start, finish] = times.map(median);
        row("exchange", on_device, Some(on_cpu));
        row("  start", start, None);
        row("  finish", finish, None);
        row("exchange in a stream", median(in_stream), None);
    }
    Ok(())
}

/// Binds this thread to one of the cores that it may run on, counted from 0. Prints a line if the system refuses.
fn keep_to_core(number: usize) {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let bound = sched_getaffinity(None).and_then(|allowed| {
            let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
            let mut one = CpuSet::new();
            one.set(cores.nth(number % (allowed.count() as usize).max(1)).unwrap_or(0));
            sched_setaffinity(None, &one)
        });
        if let Err(error) = bound {
            println!("  rank {number} runs on any core: {error}");
        }
    }
    #[cfg(not(target_os = "linux"))]
    println!("  rank {number} runs on any core");
}

/// The times to pack the six faces of a block of [`LOCAL`]³ cells in a halo, and to unpack them.
fn faces<D: Device>(device: &D, stream: &D::Stream, halo: usize) -> Result<(Duration, Duration), Failure> {
    let allocated = LOCAL + 2 * halo;
    let strides = [8 * allocated * allocated, 8 * allocated, 8];
    let field = device.allocate(strides[0] * allocated, MemoryKind::Device)?;
    let face_bytes = 8 * halo * LOCAL * LOCAL;
    let packed = device.allocate(6 * face_bytes, MemoryKind::Device)?;
    let (mut pack, mut unpack) = (Vec::new(), Vec::new());
    for axis in 0..3 {
        for side in 0..2 {
            let mut extents = [LOCAL; 3];
            extents[axis] = halo;
            // The cells next to the halo are sent, those of the halo received.
            let first = |begin: usize| -> isize {
                (0..3).map(|it| strides[it] * if it == axis { begin } else { halo }).sum::<usize>() as isize
            };
            let (owned, filled) = [(halo, 0), (LOCAL, LOCAL + halo)][side];
            let at = packed.pointer().offset(((2 * axis + side) * face_bytes) as isize);
            let rows = [extents[1] * extents[2] * 8, extents[2] * 8, 8];
            let join = |source: Pointer, target: Pointer, from: [usize; 3], to: [usize; 3]| {
                let axes: Vec<CopyAxis> = (0..3)
                    .map(|axis| CopyAxis {
                        extent: extents[axis],
                        source_stride: from[axis] as isize,
                        target_stride: to[axis] as isize,
                    })
                    .collect();
                BoxCopy::new(source, target, 8, &axes).map(CopyItem::Box)
            };
            pack.push(join(field.pointer().offset(first(owned)), at, strides, rows)?);
            unpack.push(join(at, field.pointer().offset(first(filled)), rows, strides)?);
        }
    }
    Ok((total(time(device, stream, pack)?), total(time(device, stream, unpack)?)))
}

/// The times to launch a list of one copy of one cell, and to wait for it.
fn smallest(device: &SyclDevice, stream: &SyclStream) -> Result<(Duration, Duration), Failure> {
    let memory = device.allocate(16, MemoryKind::Device)?;
    let copy = BoxCopy::new(memory.pointer(), memory.pointer().offset(8), 8, &[])?;
    time(device, stream, vec![CopyItem::Box(copy)])
}

/// The times to launch a list, and then to wait for it.
fn time<D: Device>(
    device: &D,
    stream: &D::Stream,
    items: Vec<CopyItem>,
) -> Result<(Duration, Duration), Failure> {
    let list = device.bind_copies(items, NextReader::Here)?;
    let (mut launches, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        let begin = Instant::now();
        // SAFETY: the caller owns the memory of the list, and nothing else uses it.
        unsafe { device.run_copies(&list, &[], stream)? };
        launches.push(begin.elapsed());
        device.synchronize(stream)?;
        waits.push(begin.elapsed() - launches[launches.len() - 1]);
    }
    Ok((median(launches), median(waits)))
}

fn total((launch, wait): (Duration, Duration)) -> Duration {
    launch + wait
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
