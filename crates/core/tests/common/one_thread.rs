//! A transport that only one thread may call, like MPI below `MPI_THREAD_SERIALIZED`.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

use haloport_core::comm::Communicator;
use haloport_core::device::MemoryRange;
use haloport_core::transport::{
    Channel, Direction, Idle, Incoming, Reduction, Transport, TransportError, TransportInfo,
};

/// Passes calls of the thread that made it on to the transport within.
#[derive(Debug)]
pub(crate) struct OneThread {
    inner: Arc<dyn Transport>,
    home: ThreadId,
    /// The number of messages that may still be posted.
    posts: AtomicUsize,
    largest_tag: u32,
}

impl OneThread {
    /// A communicator of the same ranks, for this thread.
    pub(crate) fn around(comm: &Communicator) -> Communicator {
        OneThread::failing_after(comm, usize::MAX)
    }

    /// The same, on a transport that fails once this number of messages has been posted.
    pub(crate) fn failing_after(comm: &Communicator, posts: usize) -> Communicator {
        OneThread::of(comm, posts, u32::MAX)
    }

    /// The same, on a transport with few tags.
    pub(crate) fn with_tags(comm: &Communicator, largest_tag: u32) -> Communicator {
        OneThread::of(comm, usize::MAX, largest_tag)
    }

    fn of(comm: &Communicator, posts: usize, largest_tag: u32) -> Communicator {
        // SAFETY: meanwhile the tests use the communicator within for nothing else.
        let inner = Arc::clone(unsafe { comm.raw_transport() });
        Communicator::new(OneThread { inner, home: thread::current().id(), posts: posts.into(), largest_tag })
    }

    fn here(&self) -> Result<&dyn Transport, TransportError> {
        if thread::current().id() == self.home {
            return Ok(&*self.inner);
        }
        Err(TransportError::WrongThread {
            what: "the transport".into(),
            advice: "call it from its own thread",
        })
    }
}

// SAFETY: every call goes to the transport within, or is refused.
unsafe impl Transport for OneThread {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn info(&self) -> TransportInfo {
        TransportInfo { any_thread: false, ..self.inner.info() }
    }

    fn largest_tag(&self) -> u32 {
        self.largest_tag
    }

    unsafe fn open_parts(
        &self,
        direction: Direction,
        peer: usize,
        tag: u32,
        parts: &[MemoryRange],
    ) -> Result<Channel, TransportError> {
        assert!(tag <= self.largest_tag, "{tag}");
        // SAFETY: the caller's promise.
        unsafe { self.here()?.open_parts(direction, peer, tag, parts) }
    }

    unsafe fn post(&self, channel: Channel) -> Result<(), TransportError> {
        if self.posts.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.posts.store(0, Ordering::Relaxed);
            return Err(TransportError::Broken("the cable is cut".into()));
        }
        // SAFETY: the caller's promise.
        unsafe { self.here()?.post(channel) }
    }

    fn test(&self, channel: Channel) -> Result<bool, TransportError> {
        self.here()?.test(channel)
    }

    unsafe fn close(&self, channel: Channel, keep: Arc<dyn Any + Send + Sync>) {
        // SAFETY: the caller's promise.
        unsafe { self.inner.close(channel, keep) }
    }

    fn notify(&self, peer: usize) {
        self.inner.notify(peer);
    }

    fn send_message(&self, peer: usize, tag: u32, bytes: Vec<u8>) -> Result<(), TransportError> {
        self.here()?.send_message(peer, tag, bytes)
    }

    fn receive_message(&self, tag: u32) -> Result<Incoming, TransportError> {
        self.here()?.receive_message(tag)
    }

    fn unreceived(&self, tag: u32) -> Result<Vec<usize>, TransportError> {
        self.here()?.unreceived(tag)
    }

    fn discard_messages(&self, tag: u32) {
        self.inner.discard_messages(tag);
    }

    fn check_thread(&self) -> Result<(), TransportError> {
        self.here().map(|_| ())
    }

    fn relax(&self, round: u32) -> Result<(), TransportError> {
        self.inner.relax(round)
    }

    fn ended_ranks(&self) -> Vec<usize> {
        self.inner.ended_ranks()
    }

    fn all_reduce(
        &self,
        values: &mut [u64],
        reduction: Reduction,
        idle: Idle<'_>,
    ) -> Result<(), TransportError> {
        self.here()?.all_reduce(values, reduction, idle)
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>, idle: Idle<'_>) -> Result<(), TransportError> {
        self.here()?.broadcast(root, bytes, idle)
    }

    fn sparse_exchange(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
        idle: Idle<'_>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError> {
        self.here()?.sparse_exchange(messages, idle)
    }
}
