//! The OpenCL objects behind objects of a SYCL library.
//!
//! All code that depends on the binary interface of a C++ library is here. The process has loaded that library already,
//! since it made the objects: it is looked for by its name, and never loaded here.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use haloport_core::device::DeviceError;
use libloading::os::unix::{Library, RTLD_NOW};

use crate::opencl::handles::{Context, Queue};

/// The names of the library, one for each version of its binary interface that has the functions below.
const NAMES: [&str; 3] = ["libsycl.so.9", "libsycl.so.8", "libsycl.so.7"];

/// `sycl::backend::opencl`.
const OPENCL: c_char = 1;

/// `sycl::queue::get_backend() const` and `sycl::context::get_backend() const`: a `sycl::backend`, an enumeration of
/// one byte.
type BackendOf = unsafe extern "C" fn(object: *const c_void) -> c_char;

/// `sycl::queue::getNative(int &) const`: takes a reference for the caller, and writes the kind of the handle to the
/// number, which is always the same for OpenCL.
type NativeQueue = unsafe extern "C" fn(queue: *const c_void, kind: *mut c_int) -> *mut c_void;

/// `sycl::context::getNative() const`: takes a reference for the caller.
type NativeContext = unsafe extern "C" fn(context: *const c_void) -> *mut c_void;

/// The functions of the library.
struct Functions {
    queue_backend: BackendOf,
    queue_native: NativeQueue,
    context_backend: BackendOf,
    context_native: NativeContext,
}

/// The OpenCL queue behind a `sycl::queue`.
///
/// # Safety
/// `queue` is a live `sycl::queue` of the library that the process has loaded.
pub(crate) unsafe fn native_queue(queue: *mut c_void) -> Result<Queue, DeviceError> {
    let functions = functions()?;
    // SAFETY: the caller's promise. Member functions take the object as their first argument.
    on_opencl("a `sycl::queue`", unsafe { (functions.queue_backend)(queue) })?;
    let mut kind = 0;
    // SAFETY: the same; the number is a local variable, and the returned reference to a `cl_command_queue` is the
    // caller's.
    let raw = unsafe { (functions.queue_native)(queue, &raw mut kind) };
    match raw.is_null() {
        true => Err(DeviceError::invalid("a `sycl::queue`", "a queue of OpenCL behind it", "null")),
        // SAFETY: as above.
        false => Ok(unsafe { Queue::own(raw) }),
    }
}

/// The OpenCL context behind a `sycl::context`.
///
/// # Safety
/// `context` is a live `sycl::context` of the library that the process has loaded.
pub(crate) unsafe fn native_context(context: *mut c_void) -> Result<Context, DeviceError> {
    let functions = functions()?;
    // SAFETY: the caller's promise. Member functions take the object as their first argument.
    on_opencl("a `sycl::context`", unsafe { (functions.context_backend)(context) })?;
    // SAFETY: the same; the returned reference to a `cl_context` is the caller's.
    let raw = unsafe { (functions.context_native)(context) };
    match raw.is_null() {
        true => Err(DeviceError::invalid("a `sycl::context`", "a context of OpenCL behind it", "null")),
        // SAFETY: as above.
        false => Ok(unsafe { Context::own(raw) }),
    }
}

fn on_opencl(what: &'static str, backend: c_char) -> Result<(), DeviceError> {
    let expected = "one of SYCL's OpenCL backend: choose its device as `opencl:gpu` or `opencl:cpu`, or set \
                    ONEAPI_DEVICE_SELECTOR=opencl:gpu for the whole program";
    let found = match backend {
        OPENCL => return Ok(()),
        2 => "one of the Level Zero backend".into(),
        3 => "one of the CUDA backend".into(),
        6 => "one of the HIP backend".into(),
        other => format!("one of the backend with the number {other}"),
    };
    Err(DeviceError::invalid(what, expected, found))
}

/// The functions of the library that the process has loaded.
fn functions() -> Result<&'static Functions, DeviceError> {
    static FOUND: OnceLock<Functions> = OnceLock::new();

    if let Some(found) = FOUND.get() {
        return Ok(found);
    }
    // An error is not stored: the library may be loaded later.
    let found = Functions::load()?;
    Ok(FOUND.get_or_init(|| found))
}

impl Functions {
    fn load() -> Result<Functions, DeviceError> {
        // SAFETY: with RTLD_NOLOAD nothing is loaded, so no code of the library runs.
        let open = |name| unsafe { Library::open(Some(name), RTLD_NOW | libc::RTLD_NOLOAD) };
        let Some((name, library)) = NAMES.iter().find_map(|name| Some((name, open(*name).ok()?))) else {
            return Err(DeviceError::NotFound {
                what: "the SYCL library".into(),
                looked_for: format!("{} among the libraries that this process has loaded", NAMES.join(", ")),
                advice:
                    "make the queue and the context with one of these, or pass their native OpenCL handles"
                        .into(),
            });
        };
        macro_rules! function {
            ($symbol:literal) => {
                // SAFETY: the library exports the member function of this name, whose type is declared above; it stays
                // loaded, since it is never closed.
                *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }.map_err(|error| {
                    DeviceError::NotFound {
                        what: format!("a function of the SYCL library {name}"),
                        looked_for: format!("the symbol {} ({error})", $symbol),
                        advice: "pass the native OpenCL handles of the queue and the context".into(),
                    }
                })?
            };
        }
        let functions = Functions {
            queue_backend: function!("_ZNK4sycl3_V15queue11get_backendEv"),
            queue_native: function!("_ZNK4sycl3_V15queue9getNativeERi"),
            context_backend: function!("_ZNK4sycl3_V17context11get_backendEv"),
            context_native: function!("_ZNK4sycl3_V17context9getNativeEv"),
        };
        // Never closed: the functions are used as long as the process runs.
        std::mem::forget(library);
        Ok(functions)
    }
}

#[cfg(test)]
mod tests {
    use super::{OPENCL, on_opencl};

    #[test]
    fn a_queue_of_level_zero_is_refused_with_the_way_to_opencl() {
        assert!(on_opencl("a `sycl::queue`", OPENCL).is_ok());
        let error = on_opencl("a `sycl::queue`", 2).unwrap_err().to_string();
        assert!(error.contains("ONEAPI_DEVICE_SELECTOR=opencl:gpu"), "{error}");
        assert!(error.ends_with("found one of the Level Zero backend"), "{error}");
    }
}
