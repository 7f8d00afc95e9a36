//! Drivers that cannot be used, and a missing compiler.

use haloport_core::device::{Device, KernelSource, MemoryKind, Priority};
use haloport_cuda::CudaDevice;

use super::recording::{MARK, driver, recorded, recorded_with};

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

#[test]
fn a_device_that_has_failed_does_not_hide_the_others() {
    let name = "missing::a_device_that_has_failed_does_not_hide_the_others";
    let broken = [("HALOPORT_DRIVER_DEVICES", "3"), ("HALOPORT_DRIVER_BROKEN", "0")];
    recorded_with(name, &["libcuda.so.1"], &broken, |_| {
        let ids: Vec<String> =
            CudaDevice::list().unwrap().into_iter().map(|info| info.id.to_string()).collect();
        assert_eq!(ids, ["cuda:1", "cuda:2"]);
        let why: Vec<String> = CudaDevice::unusable().unwrap().iter().map(ToString::to_string).collect();
        let unavailable = "cuDeviceTotalMem failed on cuda:0: device(s) is/are busy or unavailable \
                           (CUDA_ERROR_DEVICE_UNAVAILABLE, 46)";
        assert_eq!(why, [unavailable]);
        assert_eq!(CudaDevice::select("cuda:0").unwrap_err().to_string(), unavailable);
        assert_eq!(CudaDevice::new().unwrap().id().to_string(), "cuda:1");
        assert_eq!(CudaDevice::select("cuda:2").unwrap().id().to_string(), "cuda:2");
        let error = CudaDevice::select("cuda:3").unwrap_err().to_string();
        assert!(
            error.ends_with("choose one of cuda:1 (a driver for tests), cuda:2 (a driver for tests)"),
            "{error}"
        );
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
        device.create_stream(Priority::Normal).unwrap();
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
fn a_compiler_that_is_newer_than_the_driver_is_named() {
    let name = "missing::a_compiler_that_is_newer_than_the_driver_is_named";
    let libraries = ["libcuda.so.1", "libnvrtc.so.13"];
    let variables = [("HALOPORT_NVRTC", "libnvrtc.so.13"), ("HALOPORT_DRIVER_COMPILER", "13020")];
    recorded_with(name, &libraries, &variables, |_| {
        let device = CudaDevice::new().unwrap();
        let error = device.compile(&KERNEL).unwrap_err().to_string();
        let expected = "the kernel `f` did not compile on cuda:0: it was compiled by NVRTC 13.2, which is newer than the \
                        driver, of CUDA 12.0: install NVRTC 12 (the package libnvrtc of a toolkit of CUDA 12, or \
                        nvidia-cuda-nvrtc-cu12 for Python), or a driver for CUDA 13";
        assert!(error.starts_with(expected), "{error}");
        // The driver's message comes behind.
        assert!(error.contains("the PTX is of CUDA 13, and the driver of CUDA 12"), "{error}");
    });
}

/// NVRTC tells no patch level, so the cache knows it by its file.
#[test]
fn another_file_of_the_compiler_compiles_anew() {
    let name = "missing::another_file_of_the_compiler_compiles_anew";
    let compile = || CudaDevice::new().unwrap().compile(&KERNEL).map(|_| ()).unwrap();
    if std::env::var_os(MARK).is_some() {
        return compile();
    }
    let folder = tempfile::tempdir().unwrap();
    let (compiler, cache) = (folder.path().join("libnvrtc.so"), folder.path().join("cache"));
    std::fs::copy(driver(), &compiler).unwrap();
    let [compiler_path, cache_path] = [&compiler, &cache].map(|path| path.to_str().unwrap());
    let variables = [("HALOPORT_NVRTC", compiler_path), ("HALOPORT_CACHE_DIR", cache_path)];
    let kernels = || {
        recorded_with(name, &["libcuda.so.1"], &variables, |_| {});
        files_in(&cache)
    };
    assert_eq!([kernels(), kernels()], [1, 1]);
    let changed = std::time::SystemTime::now() + std::time::Duration::from_secs(100);
    std::fs::File::options().write(true).open(&compiler).unwrap().set_modified(changed).unwrap();
    assert_eq!(kernels(), 2);
}

/// The number of files in a folder and all folders within.
fn files_in(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files_in(&path) } else { 1 }).sum()
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
