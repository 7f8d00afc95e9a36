//! The status codes of NCCL, with their descriptions.

use std::ffi::CStr;

/// A code of NCCL.
pub(crate) type Status = u32;

pub(crate) const SUCCESS: Status = 0;
pub(crate) const CUDA_ERROR: Status = 1;
pub(crate) const SYSTEM_ERROR: Status = 2;
pub(crate) const INVALID_ARGUMENT: Status = 4;
pub(crate) const INVALID_USAGE: Status = 5;
pub(crate) const REMOTE_ERROR: Status = 6;
pub(crate) const IN_PROGRESS: Status = 7;

/// The description of a code.
pub(crate) fn description(status: Status) -> &'static CStr {
    match status {
        SUCCESS => c"no error",
        CUDA_ERROR => c"unhandled cuda error",
        SYSTEM_ERROR => c"unhandled system error",
        INVALID_ARGUMENT => c"invalid argument",
        INVALID_USAGE => c"invalid usage",
        REMOTE_ERROR => c"remote process exited or there was a network error",
        IN_PROGRESS => c"NCCL operation in progress",
        _ => c"unknown result code",
    }
}
