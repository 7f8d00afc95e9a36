//! Haloport's communicators, made from communicators of MPI.

use haloport_core::{Communicator, TransportError};
use mpi::ffi::{self, MPI_Comm};

use crate::raw::{Comm, require_running};
use crate::transport::MpiTransport;

/// Collective: makes a communicator of the ranks of `comm`.
///
/// It works on duplicates of `comm`, so its messages and the caller's never mix, and the caller may free the original.
/// If MPI is finalised before the communicator is dropped, everything under way is ended first, and later calls return
/// errors.
///
/// The level with which MPI was initialised decides which threads may call it
/// ([`TransportInfo::any_thread`](haloport_core::transport::TransportInfo)): any thread with `MPI_THREAD_MULTIPLE` and
/// `MPI_THREAD_SERIALIZED`, else only the thread that initialised MPI. With `MPI_THREAD_SERIALIZED`, communicators take
/// turns among themselves; the caller must not call MPI itself while one of them does.
///
/// # Errors
/// [`TransportError::Layer`] if `comm` joins two groups or MPI fails; [`TransportError::WrongThread`] if this thread
/// may not call MPI.
pub fn from_communicator(comm: &impl mpi::traits::Communicator) -> Result<Communicator, TransportError> {
    // SAFETY: a communicator of rsmpi is valid as long as it is borrowed.
    unsafe { from_raw(comm.as_raw()) }
}

/// Collective: like [`from_communicator`], from a handle of the C interface, such as the one that a communicator of
/// mpi4py points to.
///
/// # Safety
/// `comm` is a handle of the MPI library that this crate was built for: null, or of a communicator that is valid until
/// this returns. MPI is not finalised before this returns.
///
/// # Errors
/// As for [`from_communicator`]; [`TransportError::Layer`] also if the handle is null, and if MPI is not initialised or
/// was finalised.
pub unsafe fn from_raw(comm: MPI_Comm) -> Result<Communicator, TransportError> {
    // SAFETY: the caller's promise.
    let transport = unsafe { MpiTransport::new(Comm::new(comm))? };
    Communicator::try_new(transport)
}

/// Collective: like [`from_raw`], from a handle of the Fortran interface (`MPI_Comm_c2f`, `Comm.py2f()` in mpi4py).
///
/// # Safety
/// As for [`from_raw`].
///
/// # Errors
/// As for [`from_raw`].
pub unsafe fn from_fortran(comm: i32) -> Result<Communicator, TransportError> {
    require_running("MPI_Comm_f2c")?;
    // SAFETY: MPI is running, as was just checked, and stays so by the caller's promise.
    let comm = unsafe { ffi::RSMPI_Comm_f2c(comm) };
    // SAFETY: the caller's promise.
    unsafe { from_raw(comm) }
}
