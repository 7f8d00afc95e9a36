//! A transport that counts the messages of another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haloport_core::comm::Communicator;
use haloport_core::transport::{Idle, Transport, TransportError, TransportInfo, Window};

/// Counts the messages of sparse exchanges with other ranks.
#[derive(Debug)]
pub(crate) struct Counting {
    inner: Arc<dyn Transport>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    sent: AtomicUsize,
    received: AtomicUsize,
}

/// Messages so far.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) sent: usize,
    pub(crate) received: usize,
}

impl Counting {
    /// The same ranks, with their messages counted.
    pub(crate) fn around(comm: &Communicator) -> (Communicator, Arc<Counters>) {
        let counters = Arc::new(Counters::default());
        // SAFETY: meanwhile the tests use the communicator within for nothing else.
        let inner = Arc::clone(unsafe { comm.raw_transport() });
        let counted = Communicator::new(Counting { inner, counters: Arc::clone(&counters) });
        counted.set_time_limit(comm.time_limit());
        (counted, counters)
    }
}

impl Counters {
    pub(crate) fn take(&self) -> Counts {
        Counts {
            sent: self.sent.swap(0, Ordering::Relaxed),
            received: self.received.swap(0, Ordering::Relaxed),
        }
    }
}

// SAFETY: every call goes to the transport within.
unsafe impl Transport for Counting {
    haloport_conformance::unaltered_messages!();
    haloport_conformance::unaltered_channels!();

    fn info(&self) -> TransportInfo {
        self.inner.info()
    }

    fn publish(&self, peer: usize, tag: u32, window: &Arc<Window>) -> Result<bool, TransportError> {
        self.inner.publish(peer, tag, window)
    }

    fn attach(&self, peer: usize, tag: u32) -> Result<Option<Arc<Window>>, TransportError> {
        self.inner.attach(peer, tag)
    }

    fn sparse_exchange(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
        idle: Idle<'_>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError> {
        let others = |messages: &[(usize, Vec<u8>)]| {
            messages.iter().filter(|(peer, _)| *peer != self.inner.rank()).count()
        };
        self.counters.sent.fetch_add(others(&messages), Ordering::Relaxed);
        let received = self.inner.sparse_exchange(messages, idle)?;
        self.counters.received.fetch_add(others(&received), Ordering::Relaxed);
        Ok(received)
    }
}
