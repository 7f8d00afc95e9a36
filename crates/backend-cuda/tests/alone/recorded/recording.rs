//! The driver for tests, in a process of its own where it records: a test runs itself again with a library path on which the loader
//! finds that driver first.

use std::ffi::c_void;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use libloading::{Library, Symbol};

type Receiver = unsafe extern "C" fn(*const u8, usize, *mut c_void);

/// Set in the processes in which the driver records.
pub(crate) const MARK: &str = "HALOPORT_DRIVER_RECORDS";

/// The functions that control the driver.
pub(crate) struct Recording(Library);

/// A call that was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// Runs `test`, the body of the test `name` of the module `recorded`, on the driver for tests and its compiler.
pub(crate) fn recorded(name: &str, test: impl FnOnce(&Recording)) {
    recorded_with(name, &["libcuda.so.1", "libnvrtc.so.12"], &[], test);
}

/// As [`recorded`], with the driver under these file names, and with these environment variables.
pub(crate) fn recorded_with(
    name: &str,
    libraries: &[&str],
    variables: &[(&str, &str)],
    test: impl FnOnce(&Recording),
) {
    if std::env::var_os(MARK).is_some() {
        // SAFETY: it is the driver for tests, whose initialisers do nothing.
        let library = unsafe { Library::new("libcuda.so.1") }.unwrap();
        return test(&Recording(library));
    }
    let folder = tempfile::tempdir().unwrap();
    libraries.iter().for_each(|name| symlink(driver(), folder.path().join(name)).unwrap());
    let output = Command::new(std::env::current_exe().unwrap())
        .args([&format!("recorded::{name}"), "--exact", "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        .env("LD_LIBRARY_PATH", folder.path())
        // Without a cache on disk and without another compiler.
        .env("HALOPORT_CACHE_DIR", "")
        .env_remove("HALOPORT_NVRTC")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && out.contains("1 passed"),
        "{name} on the driver for tests:\n{out}{err}"
    );
}

/// The library of the driver, which cargo puts beside the tests.
pub(crate) fn driver() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let folder = tests.parent().map(Path::to_path_buf).unwrap();
    folder.join("libhaloport_cuda_test_driver.so")
}

impl Recording {
    /// Takes the calls of this thread since the last call of this function, in order.
    pub(crate) fn take_calls(&self) -> Vec<Call> {
        let text = self.text(b"driver_take_calls\0");
        text.lines().map(Call::of).collect()
    }

    /// Takes the calls of all threads that were not taken before.
    pub(crate) fn take_all_calls(&self) -> Vec<Call> {
        let text = self.text(b"driver_take_all_calls\0");
        text.lines().map(Call::of).collect()
    }

    /// Takes the calls of this thread, without those that set or query the current context.
    pub(crate) fn take_work(&self) -> Vec<Call> {
        let mut calls = self.take_calls();
        calls.retain(|call| !call.name.starts_with("cuCtx"));
        calls
    }

    /// The objects and memory that were created and not destroyed, one per line.
    pub(crate) fn living(&self) -> String {
        self.text(b"driver_living\0")
    }

    /// Makes the call after the next `after` calls fail; if `for_ever`, all later calls as well.
    pub(crate) fn fail(&self, after: u64, status: u32, for_ever: bool) {
        // SAFETY: the function has this type.
        unsafe {
            let fail: Symbol<unsafe extern "C" fn(u64, u32, u32)> = self.0.get(b"driver_fail\0").unwrap();
            fail(after, status, u32::from(for_ever));
        }
    }

    /// Makes no call fail any more; returns whether the call that was to fail has failed.
    pub(crate) fn has_failed(&self) -> bool {
        // SAFETY: the function has this type.
        unsafe {
            let stop: Symbol<unsafe extern "C" fn() -> u32> = self.0.get(b"driver_fail_no_more\0").unwrap();
            stop() != 0
        }
    }

    /// Adds the call `mark` to those of this thread; it does not count for failures.
    pub(crate) fn mark(&self) {
        // SAFETY: the function has this type.
        unsafe {
            let mark: Symbol<unsafe extern "C" fn()> = self.0.get(b"driver_mark\0").unwrap();
            mark();
        }
    }

    /// The current context of this thread.
    pub(crate) fn current_context(&self) -> usize {
        // SAFETY: the function has this type.
        unsafe {
            let current: Symbol<unsafe extern "C" fn() -> usize> = self.0.get(b"driver_current\0").unwrap();
            current()
        }
    }

    /// Makes a context of another program current in this thread.
    pub(crate) fn enter_foreign(&self) -> usize {
        // SAFETY: the function has this type.
        unsafe {
            let enter: Symbol<unsafe extern "C" fn() -> usize> =
                self.0.get(b"driver_enter_foreign\0").unwrap();
            enter()
        }
    }

    /// Allocates device memory in a context of another program.
    pub(crate) fn allocate_foreign(&self, bytes: usize) -> usize {
        // SAFETY: the function has this type.
        unsafe {
            let allocate: Symbol<unsafe extern "C" fn(usize) -> usize> =
                self.0.get(b"driver_allocate_foreign\0").unwrap();
            allocate(bytes)
        }
    }

    /// Allocates device memory of a pool of device 0, as another program does. No work of the driver reaches it.
    pub(crate) fn allocate_in_pool(&self, bytes: usize) -> usize {
        // SAFETY: the function has this type.
        unsafe {
            let allocate: Symbol<unsafe extern "C" fn(usize) -> usize> =
                self.0.get(b"driver_allocate_in_pool\0").unwrap();
            allocate(bytes)
        }
    }

    /// Reserves addresses of pages of 2 MiB as another program does, and maps memory of each page's device there, 0 or 1, if it
    /// has one.
    pub(crate) fn reserve_foreign(&self, pages: &[Option<u32>]) -> usize {
        let of = |device: u32| {
            let bits = pages.iter().enumerate().map(|(page, of)| u64::from(*of == Some(device)) << page);
            bits.sum()
        };
        // SAFETY: the function has this type.
        unsafe {
            let reserve: Symbol<unsafe extern "C" fn(usize, u64, u64) -> usize> =
                self.0.get(b"driver_reserve_foreign\0").unwrap();
            reserve(pages.len(), of(0), of(1))
        }
    }

    /// Makes this context current in this thread, as a user of it does.
    pub(crate) fn enter(&self, context: usize) {
        // SAFETY: the function has this type, and refuses all but contexts.
        let status = unsafe {
            let push: Symbol<unsafe extern "C" fn(usize) -> u32> =
                self.0.get(b"cuCtxPushCurrent_v2\0").unwrap();
            push(context)
        };
        assert_eq!(status, 0);
    }

    /// Makes a stream that waits for the legacy default stream, as other programs do, in the current context.
    pub(crate) fn create_blocking_stream(&self) -> usize {
        let mut stream = 0;
        // SAFETY: the function has this type, and writes to a local variable.
        let status = unsafe {
            let create: Symbol<unsafe extern "C" fn(*mut usize, u32, i32) -> u32> =
                self.0.get(b"cuStreamCreateWithPriority\0").unwrap();
            create(&raw mut stream, 0, 0)
        };
        assert_eq!(status, 0);
        stream
    }

    /// Begins to capture a stream, as other programs do. Until [`end_capture`](Recording::end_capture), this thread makes no
    /// call that waits.
    pub(crate) fn begin_capture(&self, stream: usize) {
        let thread_local = 1;
        // SAFETY: the function has this type, and refuses all but streams.
        let status = unsafe {
            let begin: Symbol<unsafe extern "C" fn(usize, u32) -> u32> =
                self.0.get(b"cuStreamBeginCapture_v2\0").unwrap();
            begin(stream, thread_local)
        };
        assert_eq!(status, 0);
    }

    /// Ends the capture of a stream; returns whether no call has ended it before.
    pub(crate) fn end_capture(&self, stream: usize) -> bool {
        let mut graph = 0;
        // SAFETY: the function has this type, and writes to a local variable.
        let status = unsafe {
            let end: Symbol<unsafe extern "C" fn(usize, *mut usize) -> u32> =
                self.0.get(b"cuStreamEndCapture\0").unwrap();
            end(stream, &raw mut graph)
        };
        status == 0
    }

    fn text(&self, name: &[u8]) -> String {
        let mut text = String::new();
        // SAFETY: the functions of these names have this type, and call `take`, which accepts any text, before they
        // return.
        unsafe {
            let function: Symbol<unsafe extern "C" fn(Receiver, *mut c_void)> = self.0.get(name).unwrap();
            function(take, (&raw mut text).cast());
        }
        text
    }
}

unsafe extern "C" fn take(bytes: *const u8, length: usize, text: *mut c_void) {
    // SAFETY: the driver passes a text of that length, and the string that `Recording::text` passed.
    unsafe {
        (*text.cast::<String>()).push_str(&String::from_utf8_lossy(std::slice::from_raw_parts(bytes, length)))
    };
}

impl Call {
    fn of(line: &str) -> Call {
        let (name, arguments) = line.split_once(' ').unwrap_or((line, ""));
        Call { name: name.into(), arguments: arguments.into() }
    }

    /// Whether it creates or releases something.
    pub(crate) fn makes(&self) -> bool {
        ["Alloc", "Create", "Module", "Destroy", "Free"].iter().any(|part| self.name.contains(part))
    }

    /// Whether it blocks the host.
    pub(crate) fn waits(&self) -> bool {
        self.name.ends_with("Synchronize")
    }

    /// The value of an argument.
    pub(crate) fn argument(&self, name: &str) -> &str {
        let found =
            self.arguments.split(' ').find_map(|argument| argument.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("{name} in {self:?}"))
    }
}
