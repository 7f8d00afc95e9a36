//! The transport itself.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use haloport_core::TransportError;
use haloport_core::device::MemoryRange;
use haloport_core::transport::{
    Channel, Direction, Idle, Incoming, Lease, Reduction, SharedMemory, Transport, TransportInfo,
};
use mpi::ffi::{self, MPI_Comm};

use crate::endpoint::Endpoint;
use crate::finalize;
use crate::raw::Comm;
use crate::segment;

/// Ranks as MPI processes.
///
/// It works on duplicates of the communicator that it is made from, so its messages and the caller's never mix, and
/// the caller may free the original. If MPI is finalised before it is dropped, what is under way is ended first, and
/// later calls return errors.
///
/// Which threads may call it is up to the level with which MPI was initialised
/// ([`TransportInfo::any_thread`]): with `MPI_THREAD_MULTIPLE` and `MPI_THREAD_SERIALIZED` any, else only the one that
/// initialised MPI. With `MPI_THREAD_SERIALIZED`, transports keep out of each other's way; keeping the caller's own
/// calls of MPI out of theirs is up to the caller.
///
/// Where the two ends of a channel disagree about its length, the receiver is told, the sender is not. It is never
/// more than a help in finding mistakes: Open MPI 4.1 itself writes beyond the receiver's memory when a message above
/// some kilobytes is longer than the receiver expects. What binds exchanges agrees on lengths first.
pub struct MpiTransport {
    endpoint: Arc<Endpoint>,
}

impl fmt::Debug for MpiTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MpiTransport(rank {} of {})", self.endpoint.rank, self.endpoint.size)
    }
}

impl MpiTransport {
    /// Collective: a transport between the ranks of `comm`, which is duplicated.
    ///
    /// # Errors
    /// [`TransportError::Layer`] where `comm` joins two groups or MPI fails, [`TransportError::WrongThread`] where this
    /// thread may not call MPI.
    pub fn from_communicator(comm: &impl mpi::traits::Communicator) -> Result<MpiTransport, TransportError> {
        // SAFETY: a communicator of rsmpi is valid as long as it is borrowed.
        unsafe { MpiTransport::from_raw(comm.as_raw()) }
    }

    /// Collective: as [`from_communicator`](MpiTransport::from_communicator), from a handle of the C interface, such
    /// as the one that a communicator of mpi4py points to.
    ///
    /// # Safety
    /// `comm` is a handle of the MPI library that this crate was built for: null, or of a communicator that is valid
    /// until this returns. MPI is not finalised before this returns.
    ///
    /// # Errors
    /// As for [`from_communicator`](MpiTransport::from_communicator), and where the handle is null or MPI is not
    /// initialised or was finalised.
    pub unsafe fn from_raw(comm: MPI_Comm) -> Result<MpiTransport, TransportError> {
        // SAFETY: the caller's promise.
        let endpoint = unsafe { Endpoint::new(Comm::new(comm))? };
        Ok(MpiTransport { endpoint })
    }

    /// Collective: as [`from_raw`](MpiTransport::from_raw), from a handle of the Fortran interface
    /// (`MPI_Comm_c2f`, `Comm.py2f()` in mpi4py).
    ///
    /// # Safety
    /// As for [`from_raw`](MpiTransport::from_raw).
    ///
    /// # Errors
    /// As for [`from_raw`](MpiTransport::from_raw).
    pub unsafe fn from_fortran(comm: i32) -> Result<MpiTransport, TransportError> {
        crate::session::require_running("MPI_Comm_f2c")?;
        // SAFETY: MPI is running, as was just asked, and stays so by the caller's promise.
        let comm = unsafe { ffi::RSMPI_Comm_f2c(comm) };
        // SAFETY: the caller's promise.
        unsafe { MpiTransport::from_raw(comm) }
    }

    fn check(&self, peer: usize) -> Result<(), TransportError> {
        let size = self.endpoint.size;
        if peer < size { Ok(()) } else { Err(TransportError::NoSuchRank { peer, size }) }
    }
}

impl Drop for MpiTransport {
    fn drop(&mut self) {
        // What cannot be ended now is ended when MPI is finalised.
        if self.endpoint.retire() {
            finalize::unregister(&self.endpoint);
        }
    }
}

// SAFETY: MPI touches the memory of a request that was started until it says that it is complete, and channels that
// are closed before keep their keeper until then.
unsafe impl Transport for MpiTransport {
    fn rank(&self) -> usize {
        self.endpoint.rank
    }

    fn size(&self) -> usize {
        self.endpoint.size
    }

    fn info(&self) -> TransportInfo {
        self.endpoint.info.clone()
    }

    unsafe fn open_parts(
        &self,
        direction: Direction,
        peer: usize,
        tag: u32,
        parts: &[MemoryRange],
    ) -> Result<Channel, TransportError> {
        self.check(peer)?;
        if tag > self.endpoint.tag_bound {
            let bound = self.endpoint.tag_bound;
            return Err(TransportError::Channel(format!("tag {tag} is larger than MPI's largest, {bound}")));
        }
        self.endpoint.sweep();
        let mut entry = self.endpoint.enter()?;
        let (state, permit) = (&mut *entry.state, &entry.permit);
        // SAFETY: the caller's promise.
        unsafe { state.channels.open(permit, self.endpoint.channels, (direction, peer, tag), parts) }
    }

    unsafe fn post(&self, channel: Channel) -> Result<(), TransportError> {
        let mut entry = self.endpoint.enter()?;
        // SAFETY: the caller's promise.
        unsafe { entry.state.channels.post(&entry.permit, channel) }
    }

    fn test(&self, channel: Channel) -> Result<bool, TransportError> {
        let mut entry = self.endpoint.enter()?;
        entry.state.channels.test(&entry.permit, channel)
    }

    unsafe fn close(&self, channel: Channel, keep: Arc<dyn Any + Send + Sync>) {
        self.endpoint.close(channel, keep);
    }

    fn is_near(&self, peer: usize) -> bool {
        self.endpoint.is_near(peer)
    }

    fn share_parts(&self, bytes: usize, parts: &[Range<usize>]) -> Option<Lease> {
        if self.endpoint.has_near_ranks() { segment::share(bytes, parts) } else { None }
    }

    fn map(&self, peer: usize, token: &[u8]) -> Result<Option<SharedMemory>, TransportError> {
        self.check(peer)?;
        Ok(if self.is_near(peer) { segment::map(token) } else { None })
    }

    fn send_message(&self, peer: usize, tag: u32, bytes: Vec<u8>) -> Result<(), TransportError> {
        self.check(peer)?;
        self.endpoint.send_message(peer, tag, bytes)
    }

    fn receive_message(&self, tag: u32) -> Result<Incoming, TransportError> {
        self.endpoint.receive_message(tag)
    }

    fn unreceived(&self, tag: u32) -> Result<Vec<usize>, TransportError> {
        self.endpoint.unreceived(tag)
    }

    fn discard_messages(&self, tag: u32) {
        self.endpoint.discard_messages(tag);
    }

    fn relax(&self, round: u32) -> Result<(), TransportError> {
        self.endpoint.waiting.relax(round);
        Ok(())
    }

    fn barrier(&self, idle: Idle<'_>) -> Result<(), TransportError> {
        self.endpoint.barrier(idle)
    }

    fn all_reduce(
        &self,
        values: &mut [u64],
        reduction: Reduction,
        idle: Idle<'_>,
    ) -> Result<(), TransportError> {
        self.endpoint.all_reduce(values, reduction, idle)
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>, idle: Idle<'_>) -> Result<(), TransportError> {
        self.check(root)?;
        self.endpoint.broadcast(root, bytes, idle)
    }

    fn sparse_exchange(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
        idle: Idle<'_>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError> {
        messages.iter().try_for_each(|(peer, _)| self.check(*peer))?;
        self.endpoint.sparse_exchange(messages, idle)
    }
}
