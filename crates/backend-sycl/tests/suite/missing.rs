//! If the library, a platform or a device is missing, an error says what was looked for.

use haloport_conformance::backend::printed_by;
use haloport_sycl::SyclDevice;

/// Run by the tests below in a process of its own, from whose environment something is missing.
#[test]
#[ignore = "prints, for the other tests"]
fn prints_why_there_is_no_device() {
    for name in ["sycl", "sycl:gpu:7"] {
        println!("{name}: {}", SyclDevice::select(name).unwrap_err());
    }
}

/// What the first test prints with this in its environment.
fn errors(variable: &str, value: &std::path::Path) -> String {
    printed_by("prints_why_there_is_no_device", variable, value).unwrap()
}

#[test]
fn no_library_is_an_error_value() {
    if !crate::common::names_opencl() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("haloport-no-opencl-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("libOpenCL.so.1"), "no library").unwrap();
    let text = errors("LD_LIBRARY_PATH", &folder);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(text.contains("sycl: the OpenCL library was not found: looked for libOpenCL.so.1"), "{text}");
}

#[test]
fn no_platform_is_an_error_value() {
    if !crate::common::names_opencl() {
        return;
    }
    if SyclDevice::list().is_err_and(|error| error.to_string().contains("library")) {
        eprintln!("skipped: no OpenCL library");
        return;
    }
    let text = errors("OCL_ICD_VENDORS", "/nonexistent".as_ref());
    assert!(
        text.contains("sycl: an OpenCL platform was not found: looked for drivers named in /nonexistent"),
        "{text}"
    );
}

#[test]
fn a_device_that_is_not_there_is_an_error_value_that_lists_those_that_are() {
    if !crate::common::names_opencl() {
        return;
    }
    let Ok(devices) = SyclDevice::list() else {
        eprintln!("skipped: no OpenCL device");
        return;
    };
    let error = SyclDevice::select("sycl:99").unwrap_err().to_string();
    assert!(error.starts_with("the device `sycl:99` was not found"), "{error}");
    assert!(devices.iter().all(|device| error.contains(&device.name)), "{error}");
}
