//! Drivers that cannot be used, and a missing compiler.

use haloport_core::device::{Device, KernelSource, MemoryKind};
use haloport_cuda::CudaDevice;

use crate::recording::{recorded, recorded_with};

#[test]
fn a_driver_without_devices_is_an_error_value() {
    let name = "missing::a_driver_without_devices_is_an_error_value";
    let none = [("HALOPORT_DRIVER_DEVICES", "0"), ("CUDA_VISIBLE_DEVICES", "7")];
    recorded_with(name, &["libcuda.so.1"], &none, |_| {
        let error = CudaDevice::new().unwrap_err().to_string();
        let expected = "a CUDA device was not found: looked for the devices of the CUDA driver, restricted by \
                        CUDA_VISIBLE_DEVICES=7; check that `nvidia-smi` lists one";
        assert!(error.starts_with(expected), "{error}");
    });
}

#[test]
fn an_old_driver_is_an_error_value() {
    let name = "missing::an_old_driver_is_an_error_value";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_DRIVER_VERSION", "11040")], |_| {
        let error = CudaDevice::list().unwrap_err().to_string();
        let expected = "a CUDA driver that is new enough was not found: looked for CUDA 12.0 or newer, and found 11.4; \
                        install NVIDIA's driver, version 525 or newer";
        assert!(error.starts_with(expected), "{error}");
    });
}

#[test]
fn a_device_that_is_not_there_is_an_error_value_that_lists_those_that_are() {
    let name = "missing::a_device_that_is_not_there_is_an_error_value_that_lists_those_that_are";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_DRIVER_DEVICES", "2")], |_| {
        let error = CudaDevice::select("cuda:2").unwrap_err().to_string();
        assert!(error.starts_with("the device `cuda:2` was not found"), "{error}");
        assert!(
            error.ends_with("choose one of cuda:0 (a driver for tests), cuda:1 (a driver for tests)"),
            "{error}"
        );
        assert_eq!(CudaDevice::select("cuda:1").unwrap().id().to_string(), "cuda:1");
    });
}

const KERNEL: KernelSource =
    KernelSource { name: "f", portable: Some("KERNEL void f(void) {}"), host: |_, _| {}, parameters: &[] };

#[test]
fn no_compiler_is_an_error_value_of_what_needs_it() {
    let name = "missing::no_compiler_is_an_error_value_of_what_needs_it";
    recorded_with(name, &["libcuda.so.1"], &[("HALOPORT_NVRTC", "/nonexistent/libnvrtc.so")], |_| {
        let device = CudaDevice::new().unwrap();
        device.allocate(100, MemoryKind::Device).unwrap();
        // A machine may have a compiler where the loader looks by itself.
        if let Err(error) = device.compile(&KERNEL) {
            let error = error.to_string();
            let expected = "NVRTC, the run-time compiler of CUDA, was not found: looked for /nonexistent/libnvrtc.so (cannot \
                            open shared object file: No such file or directory), libnvrtc.so.12 (";
            assert!(error.starts_with(expected), "{error}");
            assert!(error.contains("; install the package libnvrtc of a CUDA toolkit"), "{error}");
        }
    });
}

#[test]
fn what_is_no_kernel_is_refused() {
    recorded("missing::what_is_no_kernel_is_refused", |_| {
        let device = CudaDevice::new().unwrap();
        let absent = device.compile(&KernelSource { name: "g", ..KERNEL }).unwrap_err().to_string();
        assert!(absent.contains("the program holds no kernel `g`"), "{absent}");
        let on_host = device.compile(&KernelSource { portable: None, ..KERNEL }).unwrap_err().to_string();
        assert!(on_host.contains("no source in the portable dialect"), "{on_host}");
        for (what, result) in [
            ("half a cubin", device.load(&KERNEL, b"\x7fELF\x02\x01 and no more")),
            ("bytes without an end", device.load(&KERNEL, b"bytes")),
            ("nothing", device.load(&KERNEL, b"")),
            ("PTX with a zero", device.compile_ptx(&KERNEL, "KERNEL void f(\0)")),
        ] {
            assert!(result.is_err(), "{what}");
        }
        device.compile_ptx(&KERNEL, "// KERNEL void f(").unwrap();
    });
}
