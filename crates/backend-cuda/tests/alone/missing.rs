//! Without a driver there is an error that says what was looked for, and what to install.

use std::path::{Path, PathBuf};

use haloport_conformance::backend::printed_by;
use haloport_cuda::CudaDevice;

/// Run by the tests below in a process of its own, whose environment says what is missing.
#[test]
#[ignore = "prints, for the other tests"]
fn prints_why_there_is_no_device() {
    for name in ["cuda", "cuda:7"] {
        match CudaDevice::select(name) {
            Ok(device) => println!("{name}: {device:?}"),
            Err(error) => println!("{name}: {error}\n{error:?}"),
        }
    }
    if let Err(error) = CudaDevice::list() {
        println!("list: {error}");
    }
}

#[test]
fn no_driver_is_an_error_value() {
    let text = errors("LD_LIBRARY_PATH", &folder_with("nothing", &[]));
    // A machine that has a driver where the loader looks by itself has it all the same; the other tests hide it.
    if text.contains("was not found") {
        assert_says_what_is_missing(
            &text,
            "libcuda.so.1 (cannot open shared object file: No such file or directory), ",
        );
    }
}

#[test]
fn a_file_that_is_no_library_is_an_error_value() {
    let files = ["libcuda.so.1", "libcuda.so"].map(|name| (name, &b"no library"[..]));
    let text = errors("LD_LIBRARY_PATH", &folder_with("text", &files));
    assert_says_what_is_missing(&text, "libcuda.so.1 (/");
    assert!(text.contains("/libcuda.so.1: file too short)"), "{text}");
}

#[test]
fn a_library_without_the_drivers_functions_is_an_error_value() {
    // A library that every process has, under the driver's name.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let Some(other) = maps
        .lines()
        .filter_map(|line| line.split_once('/'))
        .map(|(_, path)| format!("/{path}"))
        .find(|path| path.contains("libgcc_s"))
    else {
        eprintln!("skipped: no library to put in the driver's place");
        return;
    };
    let content = std::fs::read(other).unwrap();
    let folder = folder_with("other", &[("libcuda.so.1", &content)]);
    let text = errors("LD_LIBRARY_PATH", &folder);
    let expected = "cuda: a CUDA driver with the function cuInit was not found: looked for it in libcuda.so.1; install \
                    NVIDIA's driver, version 525 or newer";
    assert!(text.contains(expected), "{text}");
}

fn assert_says_what_is_missing(text: &str, looked_for: &str) {
    for name in ["cuda", "cuda:7", "list"] {
        let expected = format!("{name}: the CUDA driver was not found: looked for {looked_for}");
        assert!(text.contains(&expected), "{text}");
    }
    assert!(text.contains("; install NVIDIA's driver, version 525 or newer"), "{text}");
}

/// What the first test prints with this in its environment.
fn errors(variable: &str, value: &Path) -> String {
    let text = printed_by("prints_why_there_is_no_device", variable, value).unwrap();
    std::fs::remove_dir_all(value).unwrap();
    text
}

fn folder_with(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("haloport-cuda-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    files.iter().for_each(|(name, content)| std::fs::write(folder.join(name), content).unwrap());
    folder
}
