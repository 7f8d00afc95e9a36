//! Haloport's communicators, made from communicators of MPI.

use haloport_core::{Communicator, TransportError};

use crate::error::failed;
use crate::job::Launchers;
use crate::raw::{self, Comm, Mpi, RawComm};
use crate::transport::MpiTransport;

/// Collective: makes a communicator of the ranks of `comm`, an `MPI_Comm` of the C interface (see [`RawComm`]).
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
/// # Safety
/// `comm` is a handle of the MPI library that this process has loaded and initialised: null, or of a communicator that
/// is valid until this returns. If the process has initialised several, or `HALOPORT_MPI` is set, it is a handle of the
/// one that Haloport [has chosen](crate#the-library). MPI is not finalised before this returns.
///
/// # Errors
/// [`TransportError::Layer`] if there is no MPI library, MPI is not initialised or was finalised, `comm` is null or
/// joins two groups, or MPI fails; [`TransportError::WrongThread`] if this thread may not call MPI;
/// [`TransportError::WrongLauncher`] if MPI's world has one rank, and a launcher has started several processes.
pub unsafe fn from_raw(comm: impl Into<RawComm>) -> Result<Communicator, TransportError> {
    let mpi = raw::chosen_running("MPI_Comm_dup")?;
    // SAFETY: the caller's promise.
    unsafe { duplicate(mpi, Comm::new(mpi.abi.handle(comm.into()))) }
}

/// Collective: like [`from_raw`], from a handle of the Fortran interface (`MPI_Comm_c2f`, `Comm.py2f()` in mpi4py).
///
/// # Safety
/// As for [`from_raw`].
///
/// # Errors
/// As for [`from_raw`].
pub unsafe fn from_fortran(comm: i32) -> Result<Communicator, TransportError> {
    const CALL: &str = "MPI_Comm_f2c";
    let mpi = raw::chosen_running(CALL)?;
    // SAFETY: MPI is running, as was just checked, and stays so by the caller's promise.
    let comm = unsafe { mpi.comm_from_fortran(comm) };
    let comm = comm.ok_or_else(|| failed(CALL, format!("{} lacks the function", mpi.file)))?;
    // SAFETY: the caller's promise.
    unsafe { duplicate(mpi, Comm::new(comm)) }
}

/// Collective: like [`from_raw`], from `MPI_COMM_WORLD`: all ranks of the job, in a program that runs MPI by itself.
///
/// # Safety
/// MPI is not finalised before this returns.
///
/// # Errors
/// As for [`from_raw`].
pub unsafe fn from_world() -> Result<Communicator, TransportError> {
    let mpi = raw::chosen_running("MPI_Comm_dup")?;
    // SAFETY: the world is valid while MPI runs, as was just checked, and it stays so by the caller's promise.
    unsafe { duplicate(mpi, Comm::world(mpi)) }
}

/// Collective: like [`from_raw`], from a communicator of the crate `mpi`, for whose MPI the program was built.
///
/// # Errors
/// As for [`from_raw`].
#[cfg(feature = "rsmpi")]
pub fn from_communicator(comm: &impl mpi::traits::Communicator) -> Result<Communicator, TransportError> {
    // SAFETY: a communicator of rsmpi is valid as long as it is borrowed, and its MPI is initialised and not finalised.
    unsafe { from_raw(comm.as_raw().0) }
}

/// Collective: makes a communicator of a duplicate of `comm`.
///
/// # Safety
/// As for [`MpiTransport::new`].
unsafe fn duplicate(mpi: &'static Mpi, comm: Comm) -> Result<Communicator, TransportError> {
    // SAFETY: the caller's promise.
    let transport = unsafe { MpiTransport::new(mpi, comm)? };
    Launchers::read(|name| std::env::var(name).ok()).check(transport.world_size()?, &mpi.version)?;
    Communicator::try_new(transport)
}
