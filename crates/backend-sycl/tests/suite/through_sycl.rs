//! Devices through SYCL itself, and what is said if something of it is missing. `LD_LIBRARY_PATH` leads to libsycl, and
//! `HALOPORT_SYCL_SHIM` to Haloport's library for it.

use haloport_conformance::backend::printed_by;
use haloport_core::device::{Device, DeviceError};
use haloport_sycl::SyclDevice;

/// Run by the tests below in a process of its own, in whose environment something is wrong.
#[test]
#[ignore = "prints, for the other tests"]
fn prints_why_sycl_has_no_device() {
    println!("level_zero:gpu:7: {}", SyclDevice::select("level_zero:gpu:7").unwrap_err());
}

/// What the first test prints with this in its environment; `None`, with a line on the error stream, without libsycl.
fn error(variable: &str, value: &str) -> Option<String> {
    let text = printed_by("prints_why_sycl_has_no_device", variable, value).unwrap();
    if text.contains("the SYCL library was not found") {
        eprintln!("skipped: no libsycl");
        return None;
    }
    Some(text)
}

#[test]
fn without_a_sycl_library_the_error_names_what_was_looked_for() {
    let text = printed_by("prints_why_sycl_has_no_device", "LD_LIBRARY_PATH", "/nonexistent").unwrap();
    assert!(text.contains("the SYCL library was not found: looked for libsycl.so.9, libsycl.so.8"), "{text}");
    assert!(text.contains("LD_LIBRARY_PATH"), "{text}");
}

#[test]
fn without_haloports_library_the_error_says_how_to_build_it() {
    let Some(text) = error("HALOPORT_SYCL_SHIM", "/nonexistent/shim.so") else { return };
    assert!(text.contains("looked for /nonexistent/shim.so"), "{text}");
    assert!(text.contains("scripts/sycl-shim"), "{text}");
}

#[test]
fn a_library_that_is_another_one_is_refused() {
    let Some(text) = error("HALOPORT_SYCL_SHIM", "libm.so.6") else { return };
    assert!(text.contains("Haloport's library for SYCL: expected a function `hs_version`"), "{text}");
    assert!(text.contains("libm.so.6"), "{text}");
}

#[test]
fn a_device_that_sycl_does_not_find_is_an_error_value() {
    if std::env::var_os("HALOPORT_SYCL_SHIM").is_none() {
        eprintln!("skipped: HALOPORT_SYCL_SHIM is not set");
        return;
    }
    let Some(text) = error("HALOPORT_UNUSED", "") else { return };
    assert!(text.contains("the device `level_zero:gpu:7` was not found"), "{text}");
}

/// The numbers that the list gives open the devices, by SYCL.
#[test]
fn listed_devices_can_be_opened() {
    if std::env::var_os("HALOPORT_SYCL_SHIM").is_none() {
        eprintln!("skipped: HALOPORT_SYCL_SHIM is not set");
        return;
    }
    let name = std::env::var("HALOPORT_SYCL_DEVICE").unwrap_or_default();
    let backend = if name.starts_with("level_zero") { "level_zero" } else { "opencl" };
    let listed = SyclDevice::list_of_sycl(backend).unwrap();
    assert!(!listed.is_empty());
    for (number, info) in listed.iter().enumerate() {
        assert_eq!(info.id.to_string(), format!("{backend}:{number}"));
        let device = SyclDevice::from_sycl_filter(&info.id.to_string()).unwrap();
        assert_eq!(device.info().name, info.name);
    }
    assert!(matches!(SyclDevice::list_of_sycl("hip"), Err(DeviceError::NotFound { .. })));
}

#[test]
fn the_device_under_test_goes_through_sycl_if_it_should() {
    let Some(device) = crate::common::device() else { return };
    let asked = std::env::var_os("HALOPORT_SYCL_DRIVER").is_some();
    assert_eq!(device.info().driver.ends_with("by SYCL"), asked, "{}", device.info().driver);
}
