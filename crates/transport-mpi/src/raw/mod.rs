//! The raw layer: what rsmpi's safe interface lacks, each call with its error as a value.
//!
//! A [`Permit`] proves that MPI may be called here and now, so that calls that touch no memory of ours are safe.
//! Requests are made by unsafe functions, whose contracts say how long the memory must live.

mod comm;
mod library;
mod request;
mod span;

use std::ffi::c_int;

use haloport_core::TransportError;
use mpi::ffi;

pub(crate) use comm::Comm;
pub(crate) use library::{
    Phase, ThreadLevel, abort, cuda_support, finalize, initialize, is_main_thread, phase,
    set_finalize_callback, tag_bound, thread_level, version,
};
pub(crate) use request::{Arrival, Progress, Request};

/// Proof that MPI is initialised and not finalised, and that this thread may call it.
pub(crate) struct Permit(());

impl Permit {
    /// # Safety
    /// As long as the permit lives, MPI is initialised, `MPI_Finalize` does not run (but for the callbacks that it
    /// calls first), and the thread level allows calls from this thread.
    pub(crate) unsafe fn new() -> Permit {
        Permit(())
    }
}

/// The result of a call as a value.
fn check(permit: &Permit, call: &'static str, code: c_int) -> Result<(), TransportError> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    Err(TransportError::Layer { call, message: message(permit, code) })
}

/// What MPI says about an error code.
fn message(_permit: &Permit, code: c_int) -> String {
    let mut text = vec![0u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut length: c_int = 0;
    // SAFETY: MPI is running by the permit; the text has the length that MPI asks for.
    let told = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &mut length) };
    if told != ffi::MPI_SUCCESS as c_int {
        return format!("error code {code}");
    }
    text.truncate(usize::try_from(length).unwrap_or(0));
    String::from_utf8_lossy(&text).trim().to_string()
}
