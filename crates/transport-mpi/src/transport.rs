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

use crate::endpoint::Endpoint;
use crate::finalize;
use crate::raw::Comm;
use crate::segment;

/// Ranks as MPI processes. Safe code has none of it: that of a communicator belongs to its exchanges.
///
/// Where the two ends of a channel disagree about its length, the receiver is told, the sender is not. It is never
/// more than a help in finding mistakes: Open MPI 4.1 itself writes beyond the receiver's memory when a message above
/// some kilobytes is longer than the receiver expects. What binds exchanges agrees on lengths first.
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
    pub(crate) unsafe fn new(comm: Comm) -> Result<MpiTransport, TransportError> {
        // SAFETY: the caller's promise.
        let endpoint = unsafe { Endpoint::new(comm)? };
        Ok(MpiTransport { endpoint })
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
