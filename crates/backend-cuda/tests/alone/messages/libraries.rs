//! The libraries for tests: a test runs itself again in a process of its own, in which the loader finds them first.

use std::ffi::c_void;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use haloport_cuda::CudaDevice;
use libloading::Library;

/// Set in the processes of tests, to the name of the test.
const MARK: &str = "HALOPORT_MESSAGES_TEST";

/// How long a test may take: one that hangs fails.
const LIMIT: Duration = Duration::from_secs(90);

/// The number of devices of the driver.
const DEVICES: usize = 4;

const DRIVER: (&str, &str) = ("libcuda.so.1", "libhaloport_cuda_test_driver.so");
const NCCL: (&str, &str) = ("libnccl.so.2", "libhaloport_cuda_test_nccl.so");

/// Runs the body of the test `name` of the module `messages` on both libraries, with these environment variables.
pub(crate) fn with_both(name: &str, variables: &[(&str, &str)], test: impl FnOnce()) {
    with(name, &[DRIVER, NCCL], variables, test);
}

/// As [`with_both`], without an NCCL where the loader looks.
pub(crate) fn without_nccl(name: &str, variables: &[(&str, &str)], test: impl FnOnce()) {
    with(name, &[DRIVER], variables, test);
}

fn with(name: &str, libraries: &[(&str, &str)], variables: &[(&str, &str)], test: impl FnOnce()) {
    if std::env::var(MARK).is_ok_and(|running| running == name) {
        return test();
    }
    let folder = tempfile::tempdir().unwrap();
    for (link, file) in libraries {
        symlink(built(file), folder.path().join(link)).unwrap();
    }
    let [out, err] = ["out", "err"].map(|name| folder.path().join(name));
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([&format!("messages::{name}"), "--exact", "--nocapture", "--test-threads=1"])
        .env(MARK, name)
        .env("LD_LIBRARY_PATH", folder.path())
        .env("HALOPORT_DRIVER_DEVICES", DEVICES.to_string())
        .env_remove("HALOPORT_NCCL")
        .envs(variables.iter().copied())
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let end = Instant::now() + LIMIT;
    let status = loop {
        match process.try_wait().unwrap() {
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            status => break status,
        }
    };
    if status.is_none() {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let [out, err] = [out, err].map(|file| std::fs::read_to_string(file).unwrap());
    let passed = status.is_some_and(|status| status.success()) && out.contains("1 passed");
    assert!(passed, "{name}: {status:?} within {LIMIT:?}\n{out}{err}");
}

/// A library that cargo has put beside the tests.
pub(crate) fn built(file: &str) -> PathBuf {
    std::env::current_exe().unwrap().parent().map(Path::to_path_buf).unwrap().join(file)
}

/// All devices.
pub(crate) fn devices() -> Vec<CudaDevice> {
    (0..DEVICES).map(|number| CudaDevice::select(&format!("cuda:{number}")).unwrap()).collect()
}

/// Takes the calls of this thread that the driver has recorded, one per line.
pub(crate) fn take_calls() -> Vec<String> {
    type Receiver = unsafe extern "C" fn(*const u8, usize, *mut c_void);

    unsafe extern "C" fn take(bytes: *const u8, length: usize, text: *mut c_void) {
        // SAFETY: the driver passes a text of that length, and the string below.
        unsafe {
            let bytes = std::slice::from_raw_parts(bytes, length);
            (*text.cast::<String>()).push_str(&String::from_utf8_lossy(bytes));
        }
    }

    let mut text = String::new();
    // SAFETY: it is the driver for tests, whose function has this type and calls `take` before it returns.
    unsafe {
        let driver = Library::new(DRIVER.0).unwrap();
        let calls =
            driver.get::<unsafe extern "C" fn(Receiver, *mut c_void)>(b"driver_take_calls\0").unwrap();
        calls(take, (&raw mut text).cast());
    }
    text.lines().map(str::to_string).collect()
}
