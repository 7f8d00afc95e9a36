//! The proof that MPI may be called, and the errors of calls.

use std::ffi::c_int;

use haloport_core::TransportError;

use super::abi::{Constants, SUCCESS, TEXT_BYTES};
use super::mpi::Mpi;
use super::table::Functions;
use crate::error::failed;

/// Proof that MPI is initialised and not finalised, and that this thread may call it.
pub(crate) struct Permit {
    pub(super) mpi: &'static Mpi,
}

impl Permit {
    /// # Safety
    /// As long as the permit lives, this library is initialised, `MPI_Finalize` does not run (except the callbacks that
    /// it calls first), and the thread level allows calls from this thread.
    pub(crate) unsafe fn new(mpi: &'static Mpi) -> Permit {
        Permit { mpi }
    }

    pub(super) fn functions(&self) -> &'static Functions {
        &self.mpi.functions
    }

    pub(super) fn constants(&self) -> &'static Constants {
        &self.mpi.constants
    }
}

/// Makes a result of the code that a call has returned.
pub(super) fn check(permit: &Permit, call: &'static str, code: c_int) -> Result<(), TransportError> {
    if code == SUCCESS { Ok(()) } else { Err(failed(call, message(permit, code))) }
}

/// The text of MPI for an error code.
pub(super) fn message(permit: &Permit, code: c_int) -> String {
    let mut text = vec![0u8; TEXT_BYTES];
    let mut length: c_int = 0;
    // SAFETY: MPI is running by the permit; the text has the length that MPI requires.
    let status = unsafe { permit.functions().MPI_Error_string(code, text.as_mut_ptr().cast(), &mut length) };
    if status != SUCCESS {
        return format!("error code {code}");
    }
    text.truncate(usize::try_from(length).unwrap_or(0));
    String::from_utf8_lossy(&text).trim().to_string()
}
