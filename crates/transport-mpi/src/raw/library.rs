//! The MPI library as a whole: its state, its version, and what it supports.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use haloport_core::TransportError;
use mpi::environment::{is_finalized, is_initialized, library_version};
use mpi::ffi;
use mpi::ffi::MPI_Comm;

use super::{Permit, check};
use crate::error::failed;

/// Whether MPI is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MpiState {
    NotInitialized,
    Running,
    Finalized,
}

/// Whether MPI is running. May be called at any time, from any thread.
pub(crate) fn mpi_state() -> MpiState {
    match (is_initialized(), is_finalized()) {
        (_, true) => MpiState::Finalized,
        (false, _) => MpiState::NotInitialized,
        _ => MpiState::Running,
    }
}

/// Returns an error if MPI is not running.
pub(crate) fn require_running(call: &'static str) -> Result<(), TransportError> {
    match mpi_state() {
        MpiState::NotInitialized => Err(failed(call, "MPI is not initialised")),
        MpiState::Running => Ok(()),
        MpiState::Finalized => Err(failed(call, "MPI was finalised")),
    }
}

/// Initialises MPI with the highest thread level that the library has.
///
/// # Safety
/// MPI was not initialised before, and no other thread initialises it meanwhile.
pub(crate) unsafe fn initialize() -> Result<(), c_int> {
    let mut provided: c_int = 0;
    // SAFETY: the first initialisation, by the contract; the arguments of the command may be null since MPI-2.
    let code = unsafe {
        ffi::MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), ffi::RSMPI_THREAD_MULTIPLE, &mut provided)
    };
    if code == ffi::MPI_SUCCESS as c_int { Ok(()) } else { Err(code) }
}

/// Finalises MPI.
///
/// # Safety
/// MPI is running, this is the thread that initialised it, and no other thread calls MPI any more.
pub(crate) unsafe fn finalize() {
    // SAFETY: by the contract. After an error there is nothing to do.
    let _ = unsafe { ffi::MPI_Finalize() };
}

/// Ends all ranks of the job.
pub(crate) fn abort(_permit: &Permit, code: i32) {
    // SAFETY: MPI is running by the permit.
    let _ = unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, code) };
}

/// Whether this thread is the one that initialised MPI.
pub(crate) fn is_main_thread() -> bool {
    let mut main: c_int = 0;
    // SAFETY: may be called from any thread once MPI is initialised; writes one integer.
    unsafe { ffi::MPI_Is_thread_main(&mut main) };
    main != 0
}

/// The largest tag.
pub(crate) fn tag_bound(permit: &Permit) -> Result<u32, TransportError> {
    let (mut value, mut found) = (ptr::null_mut::<c_int>(), 0);
    // SAFETY: MPI is running by the permit; the attribute is a pointer to an integer, which MPI owns.
    let code = unsafe {
        let world = ffi::RSMPI_COMM_WORLD;
        ffi::MPI_Comm_get_attr(world, ffi::MPI_TAG_UB as c_int, (&raw mut value).cast(), &mut found)
    };
    check(permit, "MPI_Comm_get_attr", code)?;
    if found == 0 || value.is_null() {
        return Ok(32767); // The least value that the standard allows.
    }
    // SAFETY: MPI has just returned this address of an integer, which lives as long as MPI runs.
    Ok(u32::try_from(unsafe { *value }).unwrap_or(32767))
}

/// The first line of the library's version text.
pub(crate) fn version() -> String {
    let text = library_version().unwrap_or_default();
    let line = text.lines().next().unwrap_or("unknown");
    line.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches('\0').to_string()
}

/// Whether the library reports that it takes CUDA memory; `false` if it lacks the function to ask.
pub(crate) fn cuda_support(_permit: &Permit) -> bool {
    const NAME: &CStr = c"MPIX_Query_cuda_support";
    // SAFETY: the name ends with a zero byte; the symbols of the process can always be searched.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr()) };
    if symbol.is_null() {
        return false;
    }
    // SAFETY: in every library that has it, this symbol is `int MPIX_Query_cuda_support(void)`.
    let ask = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(symbol) };
    ask() == 1
}

/// Makes `MPI_Finalize` call `callback` first, while MPI still runs.
pub(crate) fn set_finalize_callback(permit: &Permit, callback: fn()) -> Result<(), TransportError> {
    let mut keyval: c_int = 0;
    // SAFETY: MPI is running by the permit; the functions have the signatures that MPI requires.
    let code = unsafe {
        ffi::MPI_Comm_create_keyval(Some(do_not_copy), Some(on_delete), &mut keyval, ptr::null_mut())
    };
    check(permit, "MPI_Comm_create_keyval", code)?;
    // SAFETY: as above. The value is the address of a function, which stays valid.
    let code = unsafe { ffi::MPI_Comm_set_attr(ffi::RSMPI_COMM_SELF, keyval, callback as *mut c_void) };
    check(permit, "MPI_Comm_set_attr", code)
}

unsafe extern "C" fn do_not_copy(
    _comm: MPI_Comm,
    _keyval: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    wanted: *mut c_int,
) -> c_int {
    // SAFETY: MPI passes the address of its flag.
    unsafe { *wanted = 0 };
    ffi::MPI_SUCCESS as c_int
}

unsafe extern "C" fn on_delete(
    _comm: MPI_Comm,
    _keyval: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: the value of the attribute is the function that `set_finalize_callback` stored.
    let callback = unsafe { std::mem::transmute::<*mut c_void, fn()>(value) };
    callback();
    ffi::MPI_SUCCESS as c_int
}
