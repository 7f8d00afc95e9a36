//! The OpenCL library, and the results of its calls.

use std::cell::Cell;

use cl3::OpenClRuntime;
use cl3::types::{cl_int, cl_uint};
use haloport_core::device::{DeviceError, DeviceId};
use opencl3::device::Device;
use opencl3::error_codes::{ClError, DLOPEN_FUNCTION_NOT_AVAILABLE};

/// The device that errors name before one is chosen.
pub(crate) const ANY: DeviceId = DeviceId { backend: "sycl", index: 0, context: 0 };

/// The library, loaded once.
pub(crate) fn library() -> Result<&'static OpenClRuntime, DeviceError> {
    cl3::load_library().as_ref().map_err(|error| DeviceError::NotFound {
        what: "the OpenCL library".into(),
        looked_for: format!("libOpenCL.so.1 and the files in OPENCL_DYLIB_PATH ({error})"),
        advice: "install an OpenCL loader, for example Debian's package ocl-icd-libopencl1".into(),
    })
}

thread_local! {
    static BLOCKING_CALLS: Cell<u64> = const { Cell::new(0) };
}

/// The number of driver calls so far that have made this thread wait for a device. For tests that something does not
/// wait.
pub fn blocking_calls() -> u64 {
    BLOCKING_CALLS.get()
}

/// Counts a call that makes this thread wait for a device.
pub(crate) fn count_blocking_call() {
    BLOCKING_CALLS.set(BLOCKING_CALLS.get() + 1);
}

/// Makes an error of the code that a call has returned.
pub(crate) fn failed<E: Into<ClError>>(call: &'static str, device: DeviceId) -> impl Fn(E) -> DeviceError {
    move |error| {
        let error: ClError = error.into();
        DeviceError::Driver { call, device, message: format!("{error} ({})", error.0) }
    }
}

/// Makes a result of the status that a function of the loaded library has returned; `None`: the library lacks the
/// function.
///
/// `cl3` declares the functions of [`library`] safe, which they are not: each call stands in an unsafe function, or
/// beside a comment that says why its handles and pointers are valid. They are called where `cl3`'s own functions would
/// make an unused event, which costs as much as the command.
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

/// A text of the driver without the spaces around it; empty if the driver has returned an error.
pub(crate) fn text<E>(found: Result<impl Into<String>, E>) -> String {
    found.map_or(String::new(), |text| text.into().trim().into())
}

pub(crate) fn has_extension(device: Device, name: &str) -> bool {
    text(device.extensions()).split_whitespace().any(|extension| extension == name)
}

/// The length of a list as OpenCL takes it; the lists of this crate are short.
pub(crate) fn length<T>(list: &[T]) -> cl_uint {
    list.len() as cl_uint
}
