//! Plain calls of MPI, as a program makes them by itself: for the benchmarks and tests of this repository.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

use haloport_core::TransportError;

use super::chosen::{chosen, chosen_running};
use super::comm::Comm;
use super::handle::{HandleArray, RawComm};
use super::library;
pub use super::library::ThreadLevel;
use super::mpi::MpiState;
use super::permit::{Permit, check};
use crate::error::failed;

/// Initialises MPI with this thread level, or the highest that the library has below it.
///
/// # Safety
/// No other thread initialises MPI meanwhile.
///
/// # Errors
/// [`TransportError::Layer`] if there is no MPI, if it was initialised before, and if `MPI_Init_thread` fails.
pub unsafe fn initialize(level: ThreadLevel) -> Result<(), TransportError> {
    const CALL: &str = "MPI_Init_thread";
    let mpi = chosen()?;
    if mpi.state() != MpiState::NotInitialized {
        return Err(failed(CALL, "MPI was initialised before"));
    }
    // SAFETY: MPI was not initialised, as was just checked; the caller's promise.
    unsafe { library::initialize(mpi, level) }
}

/// Finalises MPI.
///
/// # Safety
/// This thread has initialised MPI, and no other thread calls it any more.
///
/// # Errors
/// [`TransportError::Layer`] if MPI is not running.
pub unsafe fn finalize() -> Result<(), TransportError> {
    let mpi = chosen_running("MPI_Finalize")?;
    // SAFETY: MPI is running, as was just checked; the caller's promise.
    unsafe { library::finalize(mpi) };
    Ok(())
}

/// The thread level of MPI.
///
/// # Errors
/// [`TransportError::Layer`] if MPI is not running.
pub fn thread_level() -> Result<ThreadLevel, TransportError> {
    chosen_running("MPI_Query_thread").map(library::thread_level)
}

/// The communicator of all ranks of the job.
///
/// # Errors
/// [`TransportError::Layer`] if there is no MPI.
pub fn world() -> Result<RawComm, TransportError> {
    let mpi = chosen()?;
    Ok(mpi.abi.number(Comm::world(mpi).handle()))
}

/// Collective: makes a communicator of the ranks of the world with the same colour, in the order of their keys.
///
/// # Safety
/// This thread may call MPI.
///
/// # Errors
/// [`TransportError::Layer`] if MPI is not running or the call fails.
pub unsafe fn split_world(colour: i32, key: i32) -> Result<RawComm, TransportError> {
    // SAFETY: the caller's promise.
    let permit = unsafe { permit("MPI_Comm_split")? };
    let part = Comm::world(permit.mpi).split(&permit, colour, key)?;
    Ok(permit.mpi.abi.number(part.handle()))
}

/// Collective: sends a word to each rank of the world, and receives one of each.
///
/// # Safety
/// This thread may call MPI.
///
/// # Errors
/// [`TransportError::Layer`] if MPI is not running, if there is not one word for each rank, or if the call fails.
pub unsafe fn all_to_all(words: &[u64], received: &mut [u64]) -> Result<(), TransportError> {
    const CALL: &str = "MPI_Alltoall";
    // SAFETY: the caller's promise.
    let permit = &unsafe { permit(CALL)? };
    let comm = Comm::world(permit.mpi);
    let ranks = comm.size(permit)?;
    if [words.len(), received.len()] != [ranks; 2] {
        return Err(failed(CALL, format!("expected {ranks} words, one for each rank")));
    }
    let (from, to, byte) = (words.as_ptr().cast(), received.as_mut_ptr().cast(), permit.constants().byte);
    // SAFETY: MPI is running by the permit; both lists have 8 bytes for each rank.
    let code = unsafe { permit.functions().MPI_Alltoall(from, 8, byte, to, 8, byte, comm.handle()) };
    check(permit, CALL, code)
}

/// Persistent messages on a duplicate of the world. Receives are added first, so that they can be started first.
pub struct PersistentMessages {
    requests: HandleArray,
    receives: usize,
    comm: Comm,
    permit: Permit,
    /// Not `Send`: the permit is for one thread.
    _this_thread: PhantomData<*const ()>,
}

impl PersistentMessages {
    /// Collective: makes an empty list of messages.
    ///
    /// # Safety
    /// This thread may call MPI, which is not finalised before the list is dropped.
    ///
    /// # Errors
    /// [`TransportError::Layer`] if MPI is not running or the call fails.
    pub unsafe fn new() -> Result<PersistentMessages, TransportError> {
        // SAFETY: the caller's promise.
        let permit = unsafe { permit("MPI_Comm_dup")? };
        let comm = Comm::world(permit.mpi).duplicate(&permit)?;
        let requests = permit.functions().handle_array();
        Ok(PersistentMessages { requests, receives: 0, comm, permit, _this_thread: PhantomData })
    }

    /// Adds a message.
    ///
    /// # Safety
    /// From each start to the end of the wait, the memory is valid, and the program does not write it; nor does it read
    /// the memory of a receive.
    ///
    /// # Errors
    /// [`TransportError::Layer`] if the message is too long for one call, or if the call fails.
    pub unsafe fn add(
        &mut self,
        send: bool,
        (memory, bytes): (*mut u8, usize),
        peer: usize,
        tag: u32,
    ) -> Result<(), TransportError> {
        let permit = &self.permit;
        let call = if send { "MPI_Send_init" } else { "MPI_Recv_init" };
        let too_long = |_| failed(call, format!("a message of {bytes} bytes is too long for one call"));
        let count = c_int::try_from(bytes).map_err(too_long)?;
        let (functions, byte, comm) = (permit.functions(), permit.constants().byte, self.comm.handle());
        let (memory, peer, tag) = (memory.cast::<c_void>(), peer as c_int, tag as c_int);
        let mut request = permit.constants().request_null;
        // SAFETY: MPI is running by the permit; the caller's promise for the memory.
        let code = unsafe {
            match send {
                true => functions.MPI_Send_init(memory, count, byte, peer, tag, comm, &mut request),
                false => functions.MPI_Recv_init(memory, count, byte, peer, tag, comm, &mut request),
            }
        };
        check(permit, call, code)?;
        self.requests.push(request);
        self.receives += usize::from(!send);
        Ok(())
    }

    /// Starts all receives.
    ///
    /// # Safety
    /// As for [`add`](Self::add); none of the messages is under way.
    ///
    /// # Errors
    /// [`TransportError::Layer`] if the call fails.
    pub unsafe fn start_receives(&mut self) -> Result<(), TransportError> {
        // SAFETY: the caller's promise.
        unsafe { self.start(0, self.receives) }
    }

    /// Starts all sends.
    ///
    /// # Safety
    /// As for [`add`](Self::add); no send is under way.
    ///
    /// # Errors
    /// [`TransportError::Layer`] if the call fails.
    pub unsafe fn start_sends(&mut self) -> Result<(), TransportError> {
        // SAFETY: the caller's promise.
        unsafe { self.start(self.receives, self.requests.handles().len() - self.receives) }
    }

    /// Waits until all messages are complete.
    ///
    /// # Errors
    /// [`TransportError::Layer`] if the call fails.
    pub fn wait(&mut self) -> Result<(), TransportError> {
        let ignore = std::ptr::without_provenance_mut(self.permit.constants().statuses_ignore);
        let (count, requests) = (self.requests.handles().len() as c_int, self.requests.from(0));
        // SAFETY: MPI is running by the permit; the requests are valid.
        let code = unsafe { self.permit.functions().MPI_Waitall(count, requests, ignore) };
        check(&self.permit, "MPI_Waitall", code)
    }

    unsafe fn start(&mut self, first: usize, count: usize) -> Result<(), TransportError> {
        let requests = self.requests.from(first);
        // SAFETY: MPI is running by the permit; there are as many requests from the first on; the caller's promise for
        // their memory.
        let code = unsafe { self.permit.functions().MPI_Startall(count as c_int, requests) };
        check(&self.permit, "MPI_Startall", code)
    }
}

impl Drop for PersistentMessages {
    fn drop(&mut self) {
        for mut request in self.requests.handles().iter().copied() {
            // SAFETY: MPI is running by the permit; the request is valid, and freed once.
            let _ = unsafe { self.permit.functions().MPI_Request_free(&mut request) };
        }
        self.comm.free(&self.permit);
    }
}

/// The permit for a call of MPI.
///
/// # Safety
/// This thread may call MPI, which is not finalised as long as the permit lives.
unsafe fn permit(call: &'static str) -> Result<Permit, TransportError> {
    let mpi = chosen_running(call)?;
    // SAFETY: MPI is running, as was just checked; the caller's promise.
    Ok(unsafe { Permit::new(mpi) })
}
