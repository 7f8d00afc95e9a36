//! The transport itself.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use haloport_core::TransportError;
use haloport_core::device::{MemoryRange, Pointer};
use haloport_core::transport::{
    Channel, Direction, Idle, Incoming, Lease, Reduction, SharedMemory, Transport, TransportInfo,
};

use crate::endpoint::{Endpoint, Locked};
use crate::finalize;
use crate::node::{in_place, segment};
use crate::raw::{Comm, Mpi};
use crate::requests::messages::FIRST_TAG;

/// Ranks as MPI processes. Safe code cannot reach it: the transport of a communicator belongs to its exchanges.
///
/// If the two ends of a channel disagree about its length, the receiver gets an error, the sender does not. That error
/// only helps to find mistakes: Open MPI 4.1 itself writes beyond the receiver's memory if a message of more than some
/// kilobytes is longer than the receiver expects. Before they open channels, ranks that bind an exchange agree on
/// lengths.
pub(crate) struct MpiTransport {
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
    /// # Safety
    /// As for [`Endpoint::new`].
    pub(crate) unsafe fn new(mpi: &'static Mpi, comm: Comm) -> Result<MpiTransport, TransportError> {
        // SAFETY: the caller's promise.
        let endpoint = unsafe { Endpoint::new(mpi, comm)? };
        finalize::register(&endpoint)?;
        Ok(MpiTransport { endpoint })
    }

    /// The number of ranks of the job. This transport may have only some of them.
    pub(crate) fn world_size(&self) -> Result<usize, TransportError> {
        self.endpoint.world_size()
    }

    fn check(&self, peer: usize) -> Result<(), TransportError> {
        let size = self.endpoint.size;
        if peer < size { Ok(()) } else { Err(TransportError::NoSuchRank { peer, size }) }
    }
}

impl Drop for MpiTransport {
    fn drop(&mut self) {
        // Requests that cannot be ended now are ended when MPI is finalised.
        if self.endpoint.retire() {
            finalize::unregister(&self.endpoint);
        }
    }
}

// SAFETY: MPI uses the memory of a started request only until the request is complete, and a channel that is closed
// earlier keeps the owner of the memory until then.
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

    fn largest_tag(&self) -> u32 {
        self.endpoint.tag_bound - FIRST_TAG
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
        let Locked { state, permit, .. } = &mut self.endpoint.lock()?;
        // SAFETY: the caller's promise.
        unsafe { state.channels.open(permit, self.endpoint.channels, (direction, peer, tag), parts) }
    }

    unsafe fn post(&self, channel: Channel) -> Result<(), TransportError> {
        let mut locked = self.endpoint.lock()?;
        let Locked { state, permit, .. } = &mut locked;
        // SAFETY: the caller's promise.
        let peer = unsafe { state.channels.post(permit, channel)? };
        drop(locked);
        self.endpoint.waiting.wake(peer);
        Ok(())
    }

    fn test(&self, channel: Channel) -> Result<bool, TransportError> {
        let mut locked = self.endpoint.lock()?;
        let Locked { state, permit, .. } = &mut locked;
        let ended = state.channels.test(permit, channel)?;
        drop(locked);
        if let Some(peer) = ended {
            // The end of a message at one rank may let it end at the other.
            self.endpoint.waiting.wake(peer);
        }
        Ok(ended.is_some())
    }

    unsafe fn close(&self, channel: Channel, keep: Arc<dyn Any + Send + Sync>) {
        self.endpoint.close(channel, keep);
    }

    fn is_near(&self, peer: usize) -> bool {
        self.endpoint.is_near(peer)
    }

    fn notify(&self, peer: usize) {
        self.endpoint.waiting.wake(peer);
    }

    fn share_parts(&self, bytes: usize, parts: &[Range<usize>]) -> Option<Lease> {
        if self.endpoint.has_near_ranks() { segment::share(bytes, parts) } else { None }
    }

    unsafe fn share_in_place(&self, ranges: &[(Pointer, usize)]) -> Result<Option<Lease>, String> {
        if !self.endpoint.has_near_ranks() {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { in_place::share(ranges) }
    }

    fn map(&self, peer: usize, token: &[u8]) -> Result<Option<SharedMemory>, TransportError> {
        self.check(peer)?;
        Ok(if self.is_near(peer) { segment::map(token) } else { None })
    }

    fn send_message(&self, peer: usize, tag: u32, bytes: Vec<u8>) -> Result<(), TransportError> {
        self.check(peer)?;
        let mut locked = self.endpoint.lock()?;
        let Locked { state, permit, .. } = &mut locked;
        state.messages.send(permit, self.endpoint.setup, (peer, tag), bytes)?;
        drop(locked);
        self.endpoint.waiting.wake(peer);
        Ok(())
    }

    fn receive_message(&self, tag: u32) -> Result<Incoming, TransportError> {
        let mut locked = self.endpoint.lock()?;
        let Locked { state, permit, .. } = &mut locked;
        let incoming = state.messages.receive(permit, self.endpoint.setup, tag)?;
        drop(locked);
        if let Incoming::Message { sender, .. } = &incoming {
            self.endpoint.waiting.wake(*sender);
        }
        Ok(incoming)
    }

    fn unreceived(&self, tag: u32) -> Result<Vec<usize>, TransportError> {
        let Locked { state, permit, .. } = &mut self.endpoint.lock()?;
        state.messages.unreceived(permit, tag)
    }

    fn discard_messages(&self, tag: u32) {
        self.endpoint.discard_messages(tag);
    }

    fn check_thread(&self) -> Result<(), TransportError> {
        self.endpoint.check_thread()
    }

    fn relax(&self, round: u32) -> Result<(), TransportError> {
        self.endpoint.waiting.relax(round);
        Ok(())
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
