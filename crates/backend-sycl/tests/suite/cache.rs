//! A process finds the kernels of an earlier process in the cache. The test binary runs itself as the other processes.
//!
//! The tests count the programs that this backend passes to the driver's compiler. PoCL also has a cache of its own,
//! which is empty for each process here, so that the second one cannot find the kernel there.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::Command;

use haloport_core::device::{
    Buffer, Device, KernelArgument, KernelSource, LaunchConfig, MemoryKind, ParameterType,
};
use haloport_sycl::SyclDevice;

const NUMBER: KernelSource = KernelSource {
    name: "number",
    portable: Some("KERNEL void number(GLOBAL int *x) { if (GLOBAL_INDEX(0) == 0) x[0] = 42; }"),
    host: |_, _| {},
    parameters: &[ParameterType::Pointer],
};

#[test]
fn a_second_process_compiles_nothing() {
    if !crate::common::names_opencl() || crate::common::device().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let kernels = folder.path().join("kernels");
    assert_eq!(compiled_and_taken(&kernels), [1, 0]);
    assert_eq!(compiled_and_taken(&kernels), [0, 1]);

    // A damaged entry is compiled again, and replaced by a good one.
    let entries: Vec<_> = fs::read_dir(&kernels).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [entry] = &entries[..] else { panic!("one kernel, one entry: {entries:?}") };
    let mut bytes = fs::read(entry).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(entry, bytes).unwrap();
    assert_eq!(compiled_and_taken(&kernels), [1, 0]);
    assert_eq!(compiled_and_taken(&kernels), [0, 1]);
}

/// Runs the kernel in another process, and returns how often it was compiled and how often it came from the cache.
fn compiled_and_taken(kernels: &Path) -> [usize; 2] {
    let own_cache = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cache::another_process", "--nocapture", "--test-threads=1"])
        .env("HALOPORT_TEST_ROLE", "run")
        .env("HALOPORT_CACHE_DIR", kernels)
        .env("POCL_CACHE_DIR", own_cache.path())
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    ["compiled from source", "taken from the kernel cache"].map(|event| log.matches(event).count())
}

/// The work of the other processes; does nothing in the process that cargo starts.
#[test]
fn another_process() {
    if std::env::var_os("HALOPORT_TEST_ROLE").is_none() {
        return;
    }
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
        .with_writer(std::io::stderr)
        .init();
    let device = SyclDevice::new().unwrap();
    let buffer = device.allocate(4, MemoryKind::Device).unwrap();
    let kernel = device.compile(&NUMBER).unwrap();
    // The second time, the device has it.
    device.compile(&NUMBER).unwrap();
    let arguments = [KernelArgument::Pointer(buffer.pointer())];
    let launch = device.bind(&kernel, LaunchConfig::linear(1), &arguments).unwrap();
    let stream = device.default_stream();
    let mut found = [0; 4];
    // SAFETY: the buffer holds one number and lives until the read has returned.
    unsafe {
        device.launch(&launch, &stream).unwrap();
        device.read(buffer.pointer(), &mut found, &stream).unwrap();
    }
    assert_eq!(i32::from_ne_bytes(found), 42);
}
