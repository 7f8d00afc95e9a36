//! The status codes of the driver, with their names and descriptions.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the driver's functions of these names"
)]

use std::ffi::{CStr, c_char};

/// A code of the driver.
pub(crate) type Status = u32;

pub(crate) const SUCCESS: Status = 0;
pub(crate) const INVALID_VALUE: Status = 1;
pub(crate) const OUT_OF_MEMORY: Status = 2;
pub(crate) const DEVICE_UNAVAILABLE: Status = 46;
pub(crate) const NO_DEVICE: Status = 100;
pub(crate) const INVALID_DEVICE: Status = 101;
pub(crate) const INVALID_CONTEXT: Status = 201;
pub(crate) const INVALID_PTX: Status = 218;
pub(crate) const INVALID_HANDLE: Status = 400;
pub(crate) const NOT_FOUND: Status = 500;
pub(crate) const NOT_READY: Status = 600;
pub(crate) const ILLEGAL_ADDRESS: Status = 700;
pub(crate) const PEER_ENABLED: Status = 704;
pub(crate) const HOST_MEMORY_ALREADY_REGISTERED: Status = 712;
pub(crate) const MISALIGNED_ADDRESS: Status = 716;
pub(crate) const LAUNCH_FAILED: Status = 719;
pub(crate) const NOT_PERMITTED: Status = 800;
pub(crate) const NOT_SUPPORTED: Status = 801;
pub(crate) const NOT_READY_SYSTEM: Status = 802;
pub(crate) const CAPTURE_UNSUPPORTED: Status = 900;
pub(crate) const CAPTURE_INVALIDATED: Status = 901;
pub(crate) const CAPTURE_ISOLATION: Status = 905;
pub(crate) const CAPTURE_IMPLICIT: Status = 906;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGetErrorName(status: Status, name: *mut *const c_char) -> Status {
    // SAFETY: the caller's promise.
    unsafe { describe(status, name, |(_, name, _)| name) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGetErrorString(status: Status, description: *mut *const c_char) -> Status {
    // SAFETY: the caller's promise.
    unsafe { describe(status, description, |(_, _, description)| description) }
}

/// A code with its name and its description.
type Description = (Status, &'static CStr, &'static CStr);

/// # Safety
/// `text` points to a variable for an address.
unsafe fn describe(status: Status, text: *mut *const c_char, of: fn(Description) -> &'static CStr) -> Status {
    const KNOWN: [Description; 9] = [
        (INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        (OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        (DEVICE_UNAVAILABLE, c"CUDA_ERROR_DEVICE_UNAVAILABLE", c"device(s) is/are busy or unavailable"),
        (INVALID_PTX, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
        (ILLEGAL_ADDRESS, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
        (MISALIGNED_ADDRESS, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
        (NOT_PERMITTED, c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted"),
        (LAUNCH_FAILED, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
        (
            CAPTURE_UNSUPPORTED,
            c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            c"operation not permitted when stream is capturing",
        ),
    ];
    match KNOWN.into_iter().find(|(code, ..)| *code == status) {
        Some(found) => {
            // SAFETY: the caller's promise.
            unsafe { *text = of(found).as_ptr() };
            SUCCESS
        }
        None => INVALID_VALUE,
    }
}
