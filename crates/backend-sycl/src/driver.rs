//! The OpenCL library, and what its calls say.

use std::ffi::c_void;

use cl3::OpenClRuntime;
use cl3::error_codes::{DLOPEN_FUNCTION_NOT_AVAILABLE, error_text};
use cl3::types::{cl_int, cl_uint};
use haloport_core::device::{DeviceError, DeviceId};

/// The name that errors have before a device is chosen.
pub(crate) const ANY: DeviceId = DeviceId { backend: "sycl", index: 0, context: 0 };

/// The library, loaded once.
pub(crate) fn library() -> Result<&'static OpenClRuntime, DeviceError> {
    cl3::load_library().as_ref().map_err(|error| DeviceError::NotFound {
        what: "the OpenCL library".into(),
        looked_for: format!("libOpenCL.so.1 and the files in OPENCL_DYLIB_PATH ({error})"),
        advice: "install an OpenCL loader, for example Debian's package ocl-icd-libopencl1".into(),
    })
}

/// What a failed call becomes.
pub(crate) fn failed(call: &'static str, device: DeviceId) -> impl Fn(cl_int) -> DeviceError {
    move |code| DeviceError::Driver { call, device, message: format!("{} ({code})", error_text(code)) }
}

/// Makes the status of a function of the loaded table a result: `None` is a function that the library lacks.
///
/// `cl3` calls the functions of that table safe, which they are not: a call stands in a function that is unsafe itself, or
/// beside the reason why its handles and pointers are good. They are used where `cl3`'s own functions would make an event
/// that nobody wants, which costs as much as the command.
pub(crate) fn checked(
    status: Option<cl_int>,
    call: &'static str,
    device: DeviceId,
) -> Result<(), DeviceError> {
    match status.unwrap_or(DLOPEN_FUNCTION_NOT_AVAILABLE) {
        0 => Ok(()),
        code => Err(failed(call, device)(code)),
    }
}

/// A number that a call of OpenCL gives as bytes; 0 where it gives none.
pub(crate) fn number(bytes: Result<Vec<u8>, cl_int>) -> u64 {
    let bytes = bytes.unwrap_or_default();
    let mut wide = [0; 8];
    let size = bytes.len().min(8);
    wide[..size].copy_from_slice(&bytes[..size]);
    u64::from_le_bytes(wide)
}

/// A text that a call of OpenCL gives as bytes.
pub(crate) fn text(bytes: Result<Vec<u8>, cl_int>) -> String {
    let bytes = bytes.unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ', '\n']).to_string()
}

/// A handle that a call of OpenCL gives as bytes.
pub(crate) fn handle(bytes: Result<Vec<u8>, cl_int>) -> *mut c_void {
    number(bytes) as usize as *mut c_void
}

/// The length of a list as OpenCL takes it; the lists of this crate are short.
pub(crate) fn count<T>(list: &[T]) -> cl_uint {
    list.len() as cl_uint
}
