//! Device memory: out of reach for the host, checked in kernels, shared with other processes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::os::unix::process::ExitStatusExt;

use common::{Driver, ILLEGAL_ADDRESS, MISALIGNED, SUCCESS, alone, outcome};

#[test]
fn the_host_cannot_reach_device_memory() {
    let output = outcome("the_host_cannot_reach_device_memory", &[], |driver| {
        let address = std::ptr::with_exposed_provenance::<u8>(driver.allocate(8) as usize);
        // SAFETY: none; the process ends.
        let byte = unsafe { address.read_volatile() };
        println!("{byte}");
    });
    if let Some(output) = output {
        assert_eq!(output.status.signal(), Some(11), "{output:?}");
    }
}

/// What a kernel that writes 4 bytes leads to, and what the next call of the same context then returns.
fn written(driver: &Driver, address: u64) -> [u32; 2] {
    let (stream, kernel) = (driver.stream(), driver.put_kernel());
    assert_eq!(driver.put(kernel, address, 7, stream), SUCCESS);
    let first = driver.synchronize(stream);
    [first, driver.put(kernel, address, 7, stream)]
}

#[test]
fn a_kernel_writes_its_memory() {
    alone("a_kernel_writes_its_memory", &[], |driver| {
        let (memory, stream, kernel) = (driver.allocate(8), driver.stream(), driver.put_kernel());
        driver.fill(memory, 0, 8, stream);
        assert_eq!(driver.put(kernel, memory + 4, 7, stream), SUCCESS);
        assert_eq!(driver.read(memory, 8, stream), [0, 0, 0, 0, 7, 0, 0, 0]);
    });
}

#[test]
fn an_access_behind_the_end_is_a_fault_that_lasts() {
    alone("an_access_behind_the_end_is_a_fault_that_lasts", &[], |driver| {
        let memory = driver.allocate(10);
        assert_eq!(written(driver, memory + 8), [ILLEGAL_ADDRESS; 2]);
    });
}

#[test]
fn an_access_to_freed_memory_is_a_fault() {
    alone("an_access_to_freed_memory_is_a_fault", &[], |driver| {
        let memory = driver.allocate(8);
        driver.free(memory);
        assert_eq!(written(driver, memory)[0], ILLEGAL_ADDRESS);
    });
}

#[test]
fn an_access_of_a_kernel_to_memory_of_the_host_is_a_fault() {
    alone("an_access_of_a_kernel_to_memory_of_the_host_is_a_fault", &[], |driver| {
        let mut number = 0_u32;
        assert_eq!(written(driver, (&raw mut number).expose_provenance() as u64)[0], ILLEGAL_ADDRESS);
    });
}

#[test]
fn an_access_that_is_not_aligned_is_a_fault() {
    alone("an_access_that_is_not_aligned_is_a_fault", &[], |driver| {
        let memory = driver.allocate(8);
        assert_eq!(written(driver, memory + 2)[0], MISALIGNED);
    });
}

#[test]
fn processes_share_device_memory() {
    const HANDLE: &str = "HALOPORT_DRIVER_TEST_HANDLE";
    let name = "processes_share_device_memory";
    alone(name, &[], |driver| {
        let stream = driver.stream();
        if let Ok(text) = std::env::var(HANDLE) {
            let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
            let memory = driver.import(numbers.try_into().unwrap()).unwrap();
            assert_eq!(driver.read(memory, 4, stream), [5; 4]);
            driver.fill(memory, 6, 4, stream);
            assert_eq!(driver.synchronize(stream), SUCCESS);
            return;
        }
        let memory = driver.allocate(4);
        driver.fill(memory, 5, 4, stream);
        assert_eq!(driver.synchronize(stream), SUCCESS);
        let handle = driver.export(memory);
        assert!(driver.import(handle).is_err(), "a process cannot open its own memory");
        let text = handle.map(|number| number.to_string()).join(" ");
        let other = std::process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(HANDLE, text)
            .status();
        assert!(other.unwrap().success());
        assert_eq!(driver.read(memory, 4, stream), [6; 4]);
    });
}
