//! Arrays of devices in programs in C: on an OpenCL driver, by queues of SYCL, and on a driver that plays CUDA's.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The driver, which cargo builds for the tests.
use haloport_cuda_test_driver as _;

/// The folder of `haloport-c`.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The folder of the shared libraries and of this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.parent().expect("a folder").to_owned()
}

/// Compiles a program into the folder `name`, and returns both; `None`, with a line, if there is no compiler.
fn compiled(source: &str, name: &str) -> Option<(PathBuf, PathBuf)> {
    let folder = libraries().join(format!("devices-{name}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    // The name that the library is installed under, by which programs look for it.
    link(&libraries().join("libhaloport_c.so"), &folder.join("libhaloport.so.1"));
    let program = folder.join(source);
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .arg(&program)
        .arg(format!("{HERE}/tests/programs/{source}.c"))
        .args(["-I", &format!("{HERE}/include")])
        .arg(folder.join("libhaloport.so.1"))
        .args([&format!("-Wl,-rpath,{}", folder.display()), "-lpthread", "-ldl"]);
    if compiler.output().is_err() {
        println!("skipped: no cc");
        return None;
    }
    run(&mut compiler);
    Some((program, folder))
}

/// Makes a link in the place of an earlier one.
fn link(to: &Path, at: &Path) {
    let _ = std::fs::remove_file(at);
    symlink(to, at).expect("a link");
}

/// Runs a command; panics with its output if it fails.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    print!("{text}");
    text
}

#[test]
fn arrays_of_opencl_are_exchanged_on_queues_of_the_program_or_refused() {
    let Some((program, _)) = compiled("devices", "opencl") else { return };
    let said = run(Command::new(program)
        .arg("opencl")
        .env_remove("LD_LIBRARY_PATH")
        .env("HALOPORT_TIME_LIMIT", "60"));
    let is_required = std::env::var_os("HALOPORT_SYCL").is_some();
    assert!(!(is_required && said.starts_with("skipped")), "{said}");
}

#[test]
fn arrays_of_sycl_are_exchanged_on_queues_of_the_program_or_refused() {
    // With the OpenCL driver that its SYCL works on.
    let Some(dpctl) = std::env::var_os("HALOPORT_DPCTL").filter(|path| !path.is_empty()) else {
        return println!("skipped: HALOPORT_DPCTL does not name a libDPCTLSyclInterface.so");
    };
    let Some((program, _)) = compiled("devices", "sycl") else { return };
    run(Command::new(program)
        .arg("sycl")
        .arg(dpctl)
        .env_remove("LD_LIBRARY_PATH")
        .env("HALOPORT_TIME_LIMIT", "60"));
}

#[test]
fn memory_of_cuda_is_known_by_its_address() {
    let Some((program, folder)) = compiled("cuda", "cuda") else { return };
    for name in ["libcuda.so.1", "libnvrtc.so.12"] {
        link(&libraries().join("libhaloport_cuda_test_driver.so"), &folder.join(name));
    }
    run(Command::new(program)
        .env("LD_LIBRARY_PATH", &folder)
        .env("HALOPORT_DRIVER_RECORDS", "1")
        .env("HALOPORT_DRIVER_DEVICES", "2")
        .env("HALOPORT_CACHE_DIR", "")
        .env_remove("HALOPORT_NVRTC")
        .env("HALOPORT_TIME_LIMIT", "60"));
}
