//! Device memory: out of reach for the host, checked in kernels, shared with other processes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;

use common::{
    DESCRIPTOR, Driver, FABRIC, ILLEGAL_ADDRESS, INVALID_HANDLE, INVALID_VALUE, MISALIGNED, PAGE, SUCCESS,
    alone, outcome,
};

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
fn mapped_memory_is_reached_by_the_devices_that_were_given_access() {
    let name = "mapped_memory_is_reached_by_the_devices_that_were_given_access";
    alone(name, &[], |driver| {
        let (memory, stream, kernel) = (driver.create_mapped(), driver.stream(), driver.put_kernel());
        driver.give_access(memory);
        driver.fill(memory, 0, 8, stream);
        assert_eq!(driver.put(kernel, memory + 4, 7, stream), SUCCESS);
        assert_eq!(driver.read(memory, 8, stream), [0, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(written(driver, driver.create_mapped())[0], ILLEGAL_ADDRESS);
    });
}

#[test]
fn a_fill_of_mapped_memory_without_access_is_a_fault() {
    alone("a_fill_of_mapped_memory_without_access_is_a_fault", &[], |driver| {
        let (memory, stream) = (driver.create_mapped(), driver.stream());
        assert_eq!(driver.fill(memory, 0, 8, stream), SUCCESS);
        assert_eq!(driver.synchronize(stream), ILLEGAL_ADDRESS);
    });
}

#[test]
fn an_access_behind_the_end_of_mapped_memory_is_a_fault() {
    alone("an_access_behind_the_end_of_mapped_memory_is_a_fault", &[], |driver| {
        // The addresses behind it are reserved, too.
        let address = driver.reserve(2 * PAGE);
        let memory = driver.create(PAGE, 0).unwrap();
        assert_eq!(driver.map(address, PAGE, 0, memory), SUCCESS);
        driver.give_access(address);
        let (stream, kernel) = (driver.stream(), driver.put_kernel());
        assert_eq!(driver.put(kernel, address + PAGE as u64 - 4, 7, stream), SUCCESS);
        assert_eq!(driver.synchronize(stream), SUCCESS);
        assert_eq!(written(driver, address + PAGE as u64)[0], ILLEGAL_ADDRESS);
    });
}

#[test]
fn an_access_to_unmapped_memory_is_a_fault() {
    alone("an_access_to_unmapped_memory_is_a_fault", &[], |driver| {
        let address = driver.create_mapped();
        driver.give_access(address);
        assert_eq!(driver.unmap(address, PAGE), SUCCESS);
        assert_eq!(written(driver, address)[0], ILLEGAL_ADDRESS);
    });
}

#[test]
fn wrong_calls_for_memory_with_handles_are_refused() {
    let name = "wrong_calls_for_memory_with_handles_are_refused";
    alone(name, &[("HALOPORT_DRIVER_HANDLES", "fabric")], |driver| {
        // Sizes are whole pages.
        for bytes in [0, 1, PAGE - 1, PAGE + 1] {
            assert_eq!(driver.create(bytes, DESCRIPTOR), Err(INVALID_VALUE), "{bytes}");
        }
        let memory = driver.create(PAGE, DESCRIPTOR).unwrap();
        let (address, apart) = (driver.reserve(PAGE), driver.reserve(PAGE));
        // Half of it, its second half, beside it, behind the addresses, and nowhere.
        let half = PAGE / 2;
        for (address, bytes, offset) in [
            (address, half, 0),
            (address, PAGE, half),
            (address + half as u64, PAGE, 0),
            (address, 2 * PAGE, 0),
            (PAGE as u64, PAGE, 0),
        ] {
            assert_eq!(driver.map(address, bytes, offset, memory), INVALID_VALUE, "{bytes}, {offset}");
        }
        assert_eq!(driver.map(address, PAGE, 0, memory + 1), INVALID_HANDLE);
        assert_eq!(driver.map(address, PAGE, 0, memory), SUCCESS);
        assert_eq!(driver.map(address, PAGE, 0, memory), INVALID_VALUE);
        // A part, and addresses in use or of another length.
        assert_eq!(driver.unmap(address, half), INVALID_VALUE);
        assert_eq!(driver.unmap(apart, PAGE), INVALID_VALUE);
        assert_eq!(driver.free_addresses(address, PAGE), INVALID_VALUE);
        assert_eq!(driver.free_addresses(apart, 2 * PAGE), INVALID_VALUE);
        // A kind that it was not created with.
        assert_eq!(driver.fabric_handle(memory), Err(INVALID_VALUE));
        // Files that are none of the driver's, and no file.
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(driver.of_descriptor(file.as_raw_fd()), Err(INVALID_VALUE));
        assert_eq!(driver.of_descriptor(1 << 20), Err(INVALID_VALUE));
        assert_eq!(driver.of_fabric_handle([1; 8]), Err(INVALID_VALUE));
        // Each once.
        for expected in [SUCCESS, INVALID_VALUE] {
            assert_eq!(driver.unmap(address, PAGE), expected);
            assert_eq!(driver.free_addresses(address, PAGE), expected);
        }
        assert_eq!((driver.release(memory), driver.release(memory)), (SUCCESS, INVALID_HANDLE));
        assert_eq!(driver.descriptor(memory), Err(INVALID_HANDLE));
    });
}

/// In the process that owns memory: creates and exports it, and runs the test `name` again with this text. In the other
/// process, which finds the text: imports the memory and releases it.
fn shares(
    driver: &Driver,
    name: &str,
    kind: u32,
    export: impl FnOnce(u64) -> String,
    import: impl FnOnce(&str) -> u64,
) {
    const HANDLE: &str = "HALOPORT_DRIVER_TEST_HANDLE";
    let (stream, address, handle) = (driver.stream(), driver.reserve(PAGE), std::env::var(HANDLE));
    let memory = match &handle {
        Ok(handle) => import(handle),
        Err(_) => driver.create(PAGE, kind).unwrap(),
    };
    assert_eq!(driver.map(address, PAGE, 0, memory), SUCCESS);
    driver.give_access(address);
    if handle.is_ok() {
        // The mapping keeps it.
        assert_eq!(driver.release(memory), SUCCESS);
        assert_eq!(driver.read(address, PAGE, stream), vec![5; PAGE]);
        driver.fill(address, 6, PAGE, stream);
        assert_eq!(driver.synchronize(stream), SUCCESS);
        return;
    }
    driver.fill(address, 5, PAGE, stream);
    assert_eq!(driver.synchronize(stream), SUCCESS);
    let other = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(HANDLE, export(memory))
        .status();
    assert!(other.unwrap().success());
    assert_eq!(driver.read(address, PAGE, stream), vec![6; PAGE]);
}

#[test]
fn processes_share_memory_by_file_descriptors() {
    let name = "processes_share_memory_by_file_descriptors";
    alone(name, &[], |driver| {
        let export = |memory| {
            let descriptor = driver.descriptor(memory).unwrap();
            format!("/proc/{}/fd/{descriptor}", std::process::id())
        };
        let import = |path: &str| {
            // The same file, with a descriptor of this process, which the driver does not keep.
            let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
            driver.of_descriptor(file.as_raw_fd()).unwrap()
        };
        shares(driver, name, DESCRIPTOR, export, import);
    });
}

#[test]
fn processes_share_memory_by_fabric_handles() {
    let name = "processes_share_memory_by_fabric_handles";
    alone(name, &[("HALOPORT_DRIVER_HANDLES", "fabric")], |driver| {
        let export =
            |memory| driver.fabric_handle(memory).unwrap().map(|number| number.to_string()).join(" ");
        let import = |text: &str| {
            let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
            driver.of_fabric_handle(numbers.try_into().unwrap()).unwrap()
        };
        shares(driver, name, FABRIC, export, import);
    });
}

#[test]
fn a_driver_offers_the_handles_of_its_setting() {
    const NOT_PERMITTED: u32 = 800;
    const NOT_SUPPORTED: u32 = 801;
    const NOT_READY: u32 = 802;
    let name = "a_driver_offers_the_handles_of_its_setting";
    // A descriptor, memory with a fabric handle, and its import.
    for (setting, expected) in [
        ("none", [Err(NOT_SUPPORTED); 3]),
        ("fd", [Ok(()), Err(INVALID_VALUE), Err(INVALID_VALUE)]),
        ("fabric", [Ok(()); 3]),
        ("denied", [Ok(()), Err(NOT_PERMITTED), Err(NOT_PERMITTED)]),
        ("unready", [Ok(()), Ok(()), Err(NOT_READY)]),
    ] {
        alone(name, &[("HALOPORT_DRIVER_HANDLES", setting)], |driver| {
            // The process of each setting passes once more through this loop.
            if std::env::var("HALOPORT_DRIVER_HANDLES").as_deref() != Ok(setting) {
                return;
            }
            let descriptor =
                driver.create(PAGE, DESCRIPTOR).and_then(|memory| driver.descriptor(memory)).map(drop);
            let created = driver.create(PAGE, FABRIC);
            let imported = created.and_then(|memory| driver.of_fabric_handle(driver.fabric_handle(memory)?));
            assert_eq!([descriptor, created.map(drop), imported.map(drop)], expected, "{setting}");
        });
    }
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
