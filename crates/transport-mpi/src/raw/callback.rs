//! The functions that MPI calls: those of the attribute that notices `MPI_Finalize`.

use std::ffi::{c_int, c_void};

use super::abi::SUCCESS;

/// The function that copies an attribute, for handles of the type `H`.
pub(super) type CopyFunction<H> =
    unsafe extern "C" fn(H, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;

/// The function that deletes an attribute.
pub(super) type DeleteFunction<H> = unsafe extern "C" fn(H, c_int, *mut c_void, *mut c_void) -> c_int;

/// Leaves the attribute out of a copy.
///
/// # Safety
/// `wanted` is the address of an integer.
pub(super) unsafe extern "C" fn do_not_copy<H>(
    _comm: H,
    _keyval: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    wanted: *mut c_int,
) -> c_int {
    // SAFETY: by the contract; MPI passes the address of its flag.
    unsafe { *wanted = 0 };
    SUCCESS
}

/// Calls the value of the attribute.
///
/// # Safety
/// `value` is a `fn()`.
pub(super) unsafe extern "C" fn call_value<H>(
    _comm: H,
    _keyval: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: by the contract.
    let callback = unsafe { std::mem::transmute::<*mut c_void, fn()>(value) };
    callback();
    SUCCESS
}
