//! The library of the functions in `shim/haloport_sycl.h`.
//!
//! It is written in C++ against the headers of a SYCL library, so there is one for each major version of libsycl.
//! Looked for in this order: the file or the folder that `HALOPORT_SYCL_SHIM` names, the folder of the program or the
//! library that this code is part of, `../lib` beside it, the folder where cargo has built it (`HALOPORT_SYCL_INCLUDE`), and the
//! folders of the dynamic linker.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use haloport_core::device::{DeviceError, DeviceId};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// The version of the interface that this file declares.
const VERSION: c_int = 3;

/// The major versions of libsycl that the library can be built for, the newest first.
const MAJORS: [u32; 2] = [9, 8];

/// The major versions of libsycl with the functions of `native`.
const KNOWN: [u32; 3] = [9, 8, 7];

/// The variable that names the library or its folder.
const VARIABLE: &str = "HALOPORT_SYCL_SHIM";

/// The folder where the build script has put the library, if it has made one.
const BUILT: Option<&str> = option_env!("HALOPORT_SYCL_BUILT");

pub(super) const OK: c_int = 0;
pub(super) const NO_MEMORY: c_int = 2;
pub(super) const NOT_SUPPORTED: c_int = 3;
pub(super) const NOT_BUILT: c_int = 4;

/// `hs_place_info`.
#[repr(C)]
pub(super) struct PlaceInfo {
    pub(super) backend: i32,
    pub(super) kind: i32,
    pub(super) host_memory: i32,
    pub(super) shared_memory: i32,
    pub(super) double_precision: i32,
    pub(super) half_precision: i32,
    pub(super) integrated: i32,
    pub(super) number: i32,
    pub(super) default_context: i32,
    pub(super) memory_export: i32,
    pub(super) memory_bytes: u64,
    pub(super) compute_units: u64,
    pub(super) name: [c_char; 256],
    pub(super) driver: [c_char; 256],
}

/// `hs_queue_info`.
#[repr(C)]
#[derive(Default)]
pub(super) struct QueueInfo {
    pub(super) in_order: i32,
    pub(super) profiling: i32,
}

/// `hs_argument`: an address if `bytes` is 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Argument {
    pub(super) value: *const c_void,
    pub(super) bytes: usize,
}

/// An object of the library.
pub(super) type Object = *mut c_void;

macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library, each of the type in the header.
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// # Safety
            /// `library` is one of the functions in the header, of this version.
            unsafe fn of(library: &Library) -> Result<Functions, String> {
                Ok(Functions {
                    $($name: {
                        let symbol = concat!("hs_", stringify!($name));
                        // SAFETY: the caller's promise.
                        *unsafe { library.get(symbol.as_bytes()) }.map_err(|error| error.to_string())?
                    },)*
                })
            }
        }
    };
}

functions! {
    message() -> *const c_char;
    place_of_filter(*const c_char, *mut Object) -> c_int;
    place_of_queue(*const c_void, *mut Object) -> c_int;
    place_of_context(*const c_void, *mut Object) -> c_int;
    place_equal(Object, Object) -> c_int;
    place_about(Object, *mut PlaceInfo) -> c_int;
    place_opencl(Object, *mut *mut c_void, *mut *mut c_void) -> c_int;
    place_level_zero(Object, *mut *mut c_void) -> c_int;
    place_release(Object);
    allocate(Object, i32, usize, *mut *mut c_void) -> c_int;
    free(Object, *mut c_void);
    memory_at(Object, *const c_void, *mut i32, *mut i32) -> c_int;
    export_create(Object, *mut c_void, *mut Object) -> c_int;
    export_token(Object, *mut usize) -> *const c_void;
    export_release(Object);
    import_open(Object, *const c_void, usize, *mut *mut c_void) -> c_int;
    import_close(Object, *mut c_void);
    queue_create(Object, i32, i32, *mut Object) -> c_int;
    queue_of_opencl(Object, *mut c_void, *mut Object) -> c_int;
    queue_adopt(*const c_void, *mut Object) -> c_int;
    queue_opencl(Object, *mut *mut c_void) -> c_int;
    queue_is_of(Object, Object) -> c_int;
    queue_about(Object, *mut QueueInfo) -> c_int;
    queue_handle(Object) -> *const c_void;
    queue_flush(Object) -> c_int;
    queue_wait(Object) -> c_int;
    queue_settle(Object, i32) -> c_int;
    queue_release(Object);
    copy(Object, *mut c_void, *const c_void, usize) -> c_int;
    fill(Object, *mut c_void, i32, usize) -> c_int;
    launch(Object, Object, *const usize, *const usize, *const Argument, usize) -> c_int;
    barrier(Object, *const Object, usize, *mut Object) -> c_int;
    mark(Object, *mut c_void, *const Object, usize, *mut Object) -> c_int;
    event_wait(Object) -> c_int;
    event_is_reached(Object, *mut i32) -> c_int;
    event_time(Object, *mut u64) -> c_int;
    event_handle(Object) -> *const c_void;
    event_of_opencl(Object, *mut c_void, *mut Object) -> c_int;
    event_of_level_zero(Object, *mut c_void, *mut Object) -> c_int;
    event_release(Object);
    program_of_spirv(Object, *const c_void, usize, *mut Object) -> c_int;
    program_of_opencl_c(Object, *const c_char, *const c_char, *mut Object) -> c_int;
    program_release(Object);
    kernel_of(Object, *const c_char, *mut Object) -> c_int;
    kernel_of_opencl(Object, *mut c_void, *mut Object) -> c_int;
    kernel_handle(Object) -> *const c_void;
    kernel_parameters(Object, *mut u32) -> c_int;
    kernel_release(Object);
}

impl Functions {
    /// Makes a result of a status.
    pub(super) fn checked(
        &self,
        status: c_int,
        call: &'static str,
        device: DeviceId,
    ) -> Result<(), DeviceError> {
        match status {
            OK => Ok(()),
            _ => Err(DeviceError::Driver { call, device, message: self.text() }),
        }
    }

    /// The text of this thread's last error.
    pub(super) fn text(&self) -> String {
        // SAFETY: the function has no condition, and returns a text that ends with 0 and is valid until the thread's next
        // error.
        unsafe { CStr::from_ptr((self.message)()) }.to_string_lossy().into_owned()
    }
}

/// The functions for the SYCL library that the process has loaded.
pub(super) fn functions() -> Result<&'static Functions, DeviceError> {
    found(|| {
        let (major, _library) = loaded()?;
        Ok(major)
    })
}

/// The same; if the process has loaded none, the newest one that there is is loaded, and stays so.
pub(super) fn functions_for_device() -> Result<&'static Functions, DeviceError> {
    found(|| match loaded() {
        Ok((major, _library)) => Ok(major),
        Err(error) if !matches!(error, DeviceError::NotFound { .. }) => Err(error),
        Err(_) => {
            // SAFETY: a SYCL library may be loaded at any time.
            let open = |major: &u32| unsafe { Library::open(Some(name_of(*major)), RTLD_NOW | RTLD_LOCAL) };
            let mut why = String::new();
            for major in &MAJORS {
                match open(major) {
                    Ok(library) => {
                        std::mem::forget(library);
                        return Ok(*major);
                    }
                    Err(error) => why = error.to_string(),
                }
            }
            Err(DeviceError::NotFound {
                what: "the SYCL library".into(),
                looked_for: format!("{} ({why})", MAJORS.map(name_of).join(", ")),
                advice: "install DPC++'s run-time libraries, for example PyPI's package intel-sycl-rt, and name their folder \
                         in LD_LIBRARY_PATH"
                    .into(),
            })
        }
    })
}

fn found(major: impl FnOnce() -> Result<u32, DeviceError>) -> Result<&'static Functions, DeviceError> {
    static FOUND: OnceLock<Functions> = OnceLock::new();

    if let Some(found) = FOUND.get() {
        return Ok(found);
    }
    // An error is not stored: the library may be loaded later.
    let major = major()?;
    if !MAJORS.contains(&major) {
        let expected = format!("{}, for queues that are not of OpenCL", MAJORS.map(name_of).join(" or "));
        return Err(DeviceError::invalid("the SYCL library", expected, name_of(major)));
    }
    let found = load(major)?;
    Ok(FOUND.get_or_init(|| found))
}

/// The SYCL library that the process has loaded, and its major version.
pub(super) fn loaded() -> Result<(u32, Library), DeviceError> {
    // SAFETY: with RTLD_NOLOAD nothing is loaded, so no code of the library runs.
    let open = |major| unsafe { Library::open(Some(name_of(major)), RTLD_NOW | libc::RTLD_NOLOAD) };
    let mut all: Vec<(u32, Library)> =
        KNOWN.into_iter().filter_map(|major| Some((major, open(major).ok()?))).collect();
    match (all.pop(), all.pop()) {
        (Some(only), None) => Ok(only),
        (Some((one, _)), Some((other, _))) => Err(DeviceError::invalid(
            "the SYCL library",
            "one version in a process, as objects of SYCL do not say of which they are",
            format!("{} and {}", name_of(one), name_of(other)),
        )),
        (None, _) => Err(DeviceError::NotFound {
            what: "the SYCL library".into(),
            looked_for: format!(
                "{} among the libraries that this process has loaded",
                KNOWN.map(name_of).join(", ")
            ),
            advice: "make the queue and the context with one of these, or pass their native OpenCL handles"
                .into(),
        }),
    }
}

/// The name of the SYCL library of a major version.
pub(super) fn name_of(major: u32) -> String {
    format!("libsycl.so.{major}")
}

fn load(major: u32) -> Result<Functions, DeviceError> {
    let name = format!("libhaloport_sycl_{major}.so");
    let mut tried = Vec::new();
    let chosen = std::env::var_os(VARIABLE);
    for path in places(&name, chosen.as_deref(), folder_of_this().as_deref(), BUILT) {
        // SAFETY: the file is a library of Haloport, which does nothing when it is loaded.
        match unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) } {
            Ok(library) => return functions_of(library, &path),
            Err(_) if path.components().count() > 1 && !path.exists() => {
                tried.push(format!("{}", path.display()));
            }
            Err(error) => tried.push(format!("{} ({error})", path.display())),
        }
    }
    Err(DeviceError::NotFound {
        what: format!("Haloport's library for libsycl.so.{major}"),
        looked_for: tried.join(", "),
        advice: format!(
            "build it with scripts/sycl-shim and set {VARIABLE} to its folder, or build Haloport with HALOPORT_SYCL_INCLUDE=…/include \
             of DPC++, or have the program use OpenCL: ONEAPI_DEVICE_SELECTOR=opencl:gpu"
        ),
    })
}

/// The functions of a library that was loaded, which stays loaded: it is used as long as the process runs.
fn functions_of(library: Library, path: &Path) -> Result<Functions, DeviceError> {
    let wrong = |expected: String, found: String| {
        DeviceError::invalid(
            "Haloport's library for SYCL",
            expected,
            format!("{found} in {}", path.display()),
        )
    };
    // SAFETY: all versions of the library have this function.
    let version = unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"hs_version") };
    let version = version.map_err(|error| wrong("a function `hs_version`".into(), error.to_string()))?;
    // SAFETY: the function has no condition.
    let version = unsafe { version() };
    if version != VERSION {
        return Err(wrong(
            format!("version {VERSION} of its functions: build it again with scripts/sycl-shim"),
            format!("version {version}"),
        ));
    }
    // SAFETY: it is this version.
    let functions = unsafe { Functions::of(&library) };
    std::mem::forget(library);
    functions.map_err(|error| wrong("all functions of its version".into(), error))
}

/// The files that may be the library, in the order in which they are tried.
fn places(name: &str, variable: Option<&OsStr>, beside: Option<&Path>, built: Option<&str>) -> Vec<PathBuf> {
    if let Some(chosen) = variable.filter(|chosen| !chosen.is_empty()).map(PathBuf::from) {
        return vec![if chosen.is_dir() { chosen.join(name) } else { chosen }];
    }
    let beside = beside.map(|folder| vec![folder.join(name), folder.join("../lib").join(name)]);
    let built = built.map(|folder| Path::new(folder).join(name));
    beside.into_iter().flatten().chain(built).chain([PathBuf::from(name)]).collect()
}

/// The folder of the program or the library that this code is part of.
fn folder_of_this() -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;

    // SAFETY: an all-zero `Dl_info` is valid; `dladdr` fills it for an address of this code.
    let name = unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        let here = folder_of_this as *const c_void;
        if libc::dladdr(here, &raw mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(found.dli_fname)
    };
    let path = std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()?;
    path.parent().map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_comes_first_and_then_the_folder_of_this_code() {
        let folder = tempfile::tempdir().unwrap();
        let beside = Path::new("/prefix/lib");
        assert_eq!(
            places("x.so", Some(folder.path().as_os_str()), Some(beside), None),
            [folder.path().join("x.so")]
        );
        assert_eq!(
            places("x.so", Some(OsStr::new("/y.so")), Some(beside), Some("/build")),
            [PathBuf::from("/y.so")]
        );
        assert_eq!(
            places("x.so", Some(OsStr::new("")), Some(beside), Some("/build")),
            ["/prefix/lib/x.so", "/prefix/lib/../lib/x.so", "/build/x.so", "x.so"].map(PathBuf::from)
        );
        assert!(folder_of_this().unwrap().is_dir());
    }
}
