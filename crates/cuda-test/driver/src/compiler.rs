//! The run-time compiler: accepts every source, and returns it as PTX for a device that is newer than all that it
//! knows.

#![allow(clippy::missing_safety_doc, reason = "the contracts are those of NVRTC's functions of these names")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use crate::settings::settings;

/// The compute capabilities that it knows, all older than that of the devices.
const KNOWN: [c_int; 3] = [75, 80, 90];

/// A program: its text.
type Program = *mut c_char;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { (*major, *minor) = (settings().compiler / 1000, settings().compiler % 1000 / 10) };
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvrtcGetNumSupportedArchs(count: *mut c_int) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { *count = KNOWN.len() as c_int };
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvrtcGetSupportedArchs(known: *mut c_int) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { known.copy_from_nonoverlapping(KNOWN.as_ptr(), KNOWN.len()) };
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut Program,
    text: *const c_char,
    _name: *const c_char,
    _count: c_int,
    _headers: *const *const c_char,
    _names: *const *const c_char,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { *program = CStr::from_ptr(text).to_owned().into_raw() };
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvrtcDestroyProgram(program: *mut Program) -> u32 {
    // SAFETY: the caller's promise; the text came from `into_raw`.
    unsafe {
        drop(CString::from_raw(*program));
        *program = ptr::null_mut();
    }
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvrtcCompileProgram(_: Program, _: c_int, _: *const *const c_char) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvrtcGetPTXSize(program: Program, bytes: *mut usize) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { *bytes = CStr::from_ptr(program).count_bytes() + 1 };
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvrtcGetPTX(program: Program, ptx: *mut c_char) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { ptx.copy_from_nonoverlapping(program, CStr::from_ptr(program).count_bytes() + 1) };
    0
}

/// There is no machine code of a device that is newer than the compiler.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvrtcGetCUBINSize(_: Program, _: *mut usize) -> u32 {
    4
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvrtcGetCUBIN(_: Program, _: *mut c_char) -> u32 {
    4
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvrtcGetProgramLogSize(_: Program, bytes: *mut usize) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { *bytes = 1 };
    0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nvrtcGetProgramLog(_: Program, log: *mut c_char) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { *log = 0 };
    0
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvrtcGetErrorString(_: u32) -> *const c_char {
    c"an error of the recording compiler".as_ptr()
}
