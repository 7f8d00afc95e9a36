//! The MPI library as a whole: its start and end, its threads, and what it supports.

use std::ffi::c_int;
use std::ptr;

use haloport_core::TransportError;

use super::abi::SUCCESS;
use super::gtl;
use super::mpi::Mpi;
use super::permit::{Permit, check};
use super::table::{CallOnDelete, DoNotCopy};
use crate::error::failed;

/// The threads that may call MPI.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// There is one thread.
    Single,
    /// The thread that has initialised MPI.
    Funneled,
    /// Any thread, one at a time.
    Serialized,
    /// Any thread.
    Multiple,
}

/// Initialises MPI with this thread level, or the highest that the library has below it.
///
/// # Safety
/// MPI was not initialised before, and no other thread initialises it meanwhile.
///
/// # Errors
/// [`TransportError::Layer`] if `MPI_Init_thread` fails, or if it would end the process, since a library is missing that
/// MPI needs.
pub(crate) unsafe fn initialize(mpi: &Mpi, level: ThreadLevel) -> Result<(), TransportError> {
    const CALL: &str = "MPI_Init_thread";
    gtl::require(mpi, &|name| std::env::var(name).ok()).map_err(|why| failed(CALL, why))?;
    let mut provided: c_int = 0;
    let wanted = mpi.constants.thread_levels[level as usize];
    // SAFETY: the first initialisation, by the contract; the arguments of the command may be null since MPI-2.
    let code =
        unsafe { mpi.functions.MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), wanted, &mut provided) };
    if code == SUCCESS {
        return Ok(());
    }
    Err(failed(CALL, format!("error code {code}; is this run under mpirun?")))
}

/// Finalises MPI.
///
/// # Safety
/// MPI is running, this is the thread that initialised it, and no other thread calls MPI any more.
pub(crate) unsafe fn finalize(mpi: &Mpi) {
    // SAFETY: by the contract. After an error there is nothing to do.
    let _ = unsafe { mpi.functions.MPI_Finalize() };
}

/// Ends all ranks of the job.
pub(crate) fn abort(permit: &Permit, code: i32) {
    // SAFETY: MPI is running by the permit.
    let _ = unsafe { permit.functions().MPI_Abort(permit.constants().comm_world, code) };
}

/// Whether this thread is the one that initialised MPI, which is running.
pub(crate) fn is_main_thread(mpi: &Mpi) -> bool {
    let mut main: c_int = 0;
    // SAFETY: may be called from any thread once MPI is initialised; writes one integer.
    let _ = unsafe { mpi.functions.MPI_Is_thread_main(&mut main) };
    main != 0
}

/// The thread level of MPI, which is running.
pub(crate) fn thread_level(mpi: &Mpi) -> ThreadLevel {
    use ThreadLevel::{Funneled, Multiple, Serialized, Single};
    let mut level: c_int = 0;
    // SAFETY: may be called from any thread once MPI is initialised; writes one integer.
    let _ = unsafe { mpi.functions.MPI_Query_thread(&mut level) };
    let mut levels = [Single, Funneled, Serialized, Multiple].into_iter().zip(mpi.constants.thread_levels);
    levels.rfind(|(_, value)| *value <= level).map_or(Single, |(known, _)| known)
}

/// The largest tag.
pub(crate) fn tag_bound(permit: &Permit) -> Result<u32, TransportError> {
    let (mut value, mut found) = (ptr::null_mut::<c_int>(), 0);
    // SAFETY: MPI is running by the permit; the attribute is a pointer to an integer, which MPI owns.
    let code = unsafe {
        let (world, key) = (permit.constants().comm_world, permit.constants().tag_ub);
        permit.functions().MPI_Comm_get_attr(world, key, (&raw mut value).cast(), &mut found)
    };
    check(permit, "MPI_Comm_get_attr", code)?;
    if found == 0 || value.is_null() {
        return Ok(32767); // The least value that the standard allows.
    }
    // SAFETY: MPI has just returned this address of an integer, which lives as long as MPI runs.
    Ok(u32::try_from(unsafe { *value }).unwrap_or(32767))
}

/// The backends whose device memory the library says it takes.
pub(crate) fn device_memory(permit: &Permit) -> Vec<&'static str> {
    // SAFETY: MPI is running by the permit, and this thread may call it.
    unsafe { permit.mpi.device_memory() }
}

/// Makes `MPI_Finalize` call `callback` first, while MPI still runs.
pub(crate) fn set_finalize_callback(permit: &Permit, callback: fn()) -> Result<(), TransportError> {
    let mut keyval: c_int = 0;
    let functions = permit.functions();
    // SAFETY: MPI is running by the permit; it writes one integer.
    let code =
        unsafe { functions.MPI_Comm_create_keyval(DoNotCopy, CallOnDelete, &mut keyval, ptr::null_mut()) };
    check(permit, "MPI_Comm_create_keyval", code)?;
    let own = permit.constants().comm_self;
    // SAFETY: as above. The value is a `fn()`, as the function for deleting it requires, and stays valid.
    let code = unsafe { functions.MPI_Comm_set_attr(own, keyval, callback as *mut std::ffi::c_void) };
    check(permit, "MPI_Comm_set_attr", code)
}
