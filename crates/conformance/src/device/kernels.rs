//! Kernels and their arguments.

use std::sync::atomic::{AtomicU64, Ordering};

use haloport_core::device::{
    Buffer, Device, IndexRange, KernelArgument, KernelSource, LaunchConfig, MemoryKind, ParameterType,
    Pointer, Priority,
};

use super::bytes::{floats, read_on, upload};
use crate::{Failure, ensure};

pub(super) const SAXPY: KernelSource = KernelSource {
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

pub(super) fn kernels<D: Device>(device: &D) -> Result<(), Failure> {
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
pub(super) const COUNT: KernelSource = KernelSource {
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

pub(super) fn kernels_in_three_dimensions<D: Device>(device: &D) -> Result<(), Failure> {
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

pub(super) fn rebinding<D: Device>(device: &D) -> Result<(), Failure> {
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

pub(super) fn wrong_arguments<D: Device>(device: &D) -> Result<(), Failure> {
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

pub(super) fn saxpy(x: Pointer, y: Pointer, a: f64, n: usize) -> [KernelArgument; 4] {
    [
        KernelArgument::Pointer(x),
        KernelArgument::Pointer(y),
        KernelArgument::F64(a),
        KernelArgument::I64(n as i64),
    ]
}
