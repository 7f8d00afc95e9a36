//! The calls of MPI that the safe interface of rsmpi lacks, each with its error as a value.
//!
//! A [`Permit`] proves that MPI may be called here and now, so that calls without memory of the caller are safe.
//! Requests are made by unsafe functions, whose contracts say how long the memory must live.
//!
//! - `library`: the library as a whole
//! - `comm`: communicators
//! - `request`: requests, for which `span` counts bytes

mod comm;
mod library;
mod request;
mod span;

use std::ffi::c_int;

use haloport_core::TransportError;
use mpi::ffi;

use crate::error::failed;

pub(crate) use comm::Comm;
pub(crate) use library::{
    MpiState, abort, cuda_support, finalize, initialize, is_main_thread, mpi_state, require_running,
    set_finalize_callback, tag_bound, version,
};
pub(crate) use request::{Arrival, Progress, Request, SendMode};

/// Proof that MPI is initialised and not finalised, and that this thread may call it.
pub(crate) struct Permit(());

impl Permit {
    /// # Safety
    /// As long as the permit lives, MPI is initialised, `MPI_Finalize` does not run (except the callbacks that it calls
    /// first), and the thread level allows calls from this thread.
    pub(crate) unsafe fn new() -> Permit {
        Permit(())
    }
}

/// Makes a result of the code that a call has returned.
fn check(permit: &Permit, call: &'static str, code: c_int) -> Result<(), TransportError> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    Err(failed(call, message(permit, code)))
}

/// The text of MPI for an error code.
fn message(_permit: &Permit, code: c_int) -> String {
    let mut text = vec![0u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut length: c_int = 0;
    // SAFETY: MPI is running by the permit; the text has the length that MPI requires.
    let status = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &mut length) };
    if status != ffi::MPI_SUCCESS as c_int {
        return format!("error code {code}");
    }
    text.truncate(usize::try_from(length).unwrap_or(0));
    String::from_utf8_lossy(&text).trim().to_string()
}
