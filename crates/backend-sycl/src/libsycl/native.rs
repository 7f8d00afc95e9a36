//! The OpenCL objects behind objects of SYCL's OpenCL backend.
//!
//! All code that depends on the binary interface of a C++ library is here. The process has loaded that library already,
//! since it made the objects: it is looked for by its name, and never loaded here.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use haloport_core::device::DeviceError;

use super::shim::{loaded, name_of};
use crate::opencl::handles::{Context, QueueHandle};

/// For tests: `sycl` has queues of SYCL's OpenCL backend served through SYCL, `sycl-alone` as those of other backends.
const VARIABLE: &str = "HALOPORT_SYCL_DRIVER";

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

/// The OpenCL queue behind a `sycl::queue`; `None` if it is of another backend, or if
/// [`VARIABLE`] asks for commands through SYCL.
///
/// # Safety
/// `queue` is a live `sycl::queue` of the library that the process has loaded.
pub(crate) unsafe fn queue(queue: *mut c_void) -> Result<Option<QueueHandle>, DeviceError> {
    let functions = functions()?;
    // SAFETY: the caller's promise. Member functions take the object as their first argument.
    if unsafe { (functions.queue_backend)(queue) } != OPENCL || goes_through_sycl() {
        return Ok(None);
    }
    let mut kind = 0;
    // SAFETY: the same; the number is a local variable, and the returned reference to a `cl_command_queue` is the
    // caller's.
    let raw = unsafe { (functions.queue_native)(queue, &raw mut kind) };
    match raw.is_null() {
        true => Err(DeviceError::invalid("a `sycl::queue`", "a queue of OpenCL behind it", "null")),
        // SAFETY: as above.
        false => Ok(Some(unsafe { QueueHandle::own(raw) })),
    }
}

/// The OpenCL context behind a `sycl::context`; `None` as for [`queue`].
///
/// # Safety
/// `context` is a live `sycl::context` of the library that the process has loaded.
pub(crate) unsafe fn context(context: *mut c_void) -> Result<Option<Context>, DeviceError> {
    let functions = functions()?;
    // SAFETY: the caller's promise. Member functions take the object as their first argument.
    if unsafe { (functions.context_backend)(context) } != OPENCL || goes_through_sycl() {
        return Ok(None);
    }
    // SAFETY: the same; the returned reference to a `cl_context` is the caller's.
    let raw = unsafe { (functions.context_native)(context) };
    match raw.is_null() {
        true => Err(DeviceError::invalid("a `sycl::context`", "a context of OpenCL behind it", "null")),
        // SAFETY: as above.
        false => Ok(Some(unsafe { Context::own(raw) })),
    }
}

/// Whether queues and devices of the OpenCL backend are served through SYCL, too.
pub(crate) fn goes_through_sycl() -> bool {
    matches!(chosen(), Some("sycl" | "sycl-alone"))
}

/// Whether OpenCL behind a queue of SYCL is left alone, as if there were none.
pub(super) fn leaves_opencl_alone() -> bool {
    chosen() == Some("sycl-alone")
}

/// The value of [`VARIABLE`] when it was first asked for.
fn chosen() -> Option<&'static str> {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();

    CHOSEN.get_or_init(|| std::env::var(VARIABLE).ok()).as_deref()
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
        let (major, library) = loaded()?;
        let name = name_of(major);
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
