//! Cells that go in messages that streams send and receive, without the host.
//!
//! Once: `join` forms the groups of ranks. `run`: binding the copies, and what is done every time. Here: a group of ranks
//! whose streams send each other messages, which all exchanges of a communicator on one device share; and neighbours that
//! watch each other through the transport meanwhile.
//!
//! To watch, a part has two channels with each neighbour, for messages of one byte. The one to receive is posted all the
//! time. The other is used once: by a rank whose exchange has failed. A transport that knows that a neighbour has closed its
//! channels, or has ended, says so, too. A neighbour that has left may have sent its messages before. So a rank still waits
//! for them, a short time.

pub(crate) mod join;
pub(crate) mod run;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::device::{Device, DeviceError, DeviceId, MemoryRange, Pointer, StreamMessage, StreamMessages};
use crate::exchange::options::ExchangeError;
use crate::transport::{Channel, Direction, Transport, TransportError};

/// A group that this rank has joined with a device of type `D`.
pub(crate) struct SharedGroup<D: Device> {
    messages: Box<dyn StreamMessages<D::Stream>>,
    /// Set before the group is aborted, and so before the streams that wait in it go on.
    is_aborted: AtomicBool,
}

/// A [`SharedGroup`], independent of the device's type.
pub(crate) trait AnyGroup: Send + Sync {
    fn is_aborted(&self) -> bool;
    /// Ends all exchanges of the group, those of other flights, too. Does not block.
    fn abort(&self);
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<D: Device> SharedGroup<D> {
    pub(crate) fn new(messages: Box<dyn StreamMessages<D::Stream>>) -> SharedGroup<D> {
        SharedGroup { messages, is_aborted: AtomicBool::new(false) }
    }

    /// As [`StreamMessages::exchange`].
    ///
    /// # Safety
    /// As for [`StreamMessages::exchange`].
    pub(crate) unsafe fn exchange(
        &self,
        sends: &[StreamMessage],
        receives: &[StreamMessage],
        stream: &D::Stream,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller guarantees it.
        unsafe { self.messages.exchange(sends, receives, stream) }
    }

    /// Returns the first error of all exchanges of the group. Does not block.
    pub(crate) fn check(&self) -> Result<(), DeviceError> {
        self.messages.check()
    }
}

impl<D: Device> AnyGroup for SharedGroup<D> {
    fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::Acquire)
    }

    fn abort(&self) {
        self.is_aborted.store(true, Ordering::Release);
        self.messages.abort();
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl<D: Device> fmt::Debug for SharedGroup<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedGroup { messages, is_aborted } = self;
        f.debug_struct("SharedGroup").field("messages", messages).field("is_aborted", is_aborted).finish()
    }
}

/// The neighbours of a part.
#[derive(Default)]
pub(crate) struct Watch {
    neighbours: Vec<Neighbour>,
    /// Whether the channels to receive are posted.
    is_posted: bool,
    /// The first neighbour that was found to have left in this exchange, and when.
    left: Option<(TransportError, Instant)>,
    /// Two bytes for each neighbour, which nobody reads. Atomics, since the transport writes them without a borrow.
    memory: Arc<[AtomicU8]>,
}

struct Neighbour {
    peer: usize,
    /// To tell it.
    to: Channel,
    /// To hear from it.
    from: Channel,
}

/// How long a rank waits for messages that a neighbour may have sent before it left.
const LAST_MESSAGES: Duration = Duration::from_secs(2);

impl Watch {
    /// Opens the channels with all `peers`, which open theirs with the same tag. If one cannot be opened, closes those
    /// that are open.
    pub(crate) fn open(
        transport: &dyn Transport,
        device: DeviceId,
        peers: &[usize],
        tag: u32,
    ) -> Result<Watch, TransportError> {
        let memory: Arc<[AtomicU8]> = (0..2 * peers.len()).map(|_| AtomicU8::new(0)).collect();
        let mut watch =
            Watch { neighbours: Vec::with_capacity(peers.len()), is_posted: false, left: None, memory };
        let open = |direction, peer, at: usize| {
            let pointer = Pointer::new(watch.memory[at].as_ptr());
            let range = MemoryRange { device, pointer, bytes: 1 };
            // SAFETY: the memory is kept by the watch, which closes the channel before it drops it, and handed over to
            // the transport then.
            unsafe { transport.open(direction, peer, tag, range) }
        };
        let mut opened = Vec::with_capacity(peers.len());
        let mut failed = None;
        for (number, &peer) in peers.iter().enumerate() {
            let to = open(Direction::Send, peer, 2 * number);
            let from = open(Direction::Receive, peer, 2 * number + 1);
            match (to, from) {
                (Ok(to), Ok(from)) => opened.push(Neighbour { peer, to, from }),
                (to, from) => {
                    for channel in [&to, &from].into_iter().flatten() {
                        // SAFETY: the channel is ours, and was not used.
                        unsafe { transport.close(*channel, Arc::new(Arc::clone(&watch.memory)) as _) };
                    }
                    failed = to.err().or(from.err());
                    break;
                }
            }
        }
        watch.neighbours = opened;
        match failed {
            None => Ok(watch),
            Some(error) => {
                watch.close(transport, false);
                Err(error)
            }
        }
    }

    /// Begins an exchange.
    pub(crate) fn begin(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        self.left = None;
        if !std::mem::replace(&mut self.is_posted, true) {
            for neighbour in &self.neighbours {
                // SAFETY: nobody uses the byte.
                match unsafe { transport.post(neighbour.from) } {
                    // Found again by `check`, which waits a short time: it may have sent its last messages.
                    Err(TransportError::PeerGaveUp { .. } | TransportError::PeerEnded { .. }) => {}
                    posted => posted?,
                }
            }
        }
        Ok(())
    }

    /// An error if a neighbour has left, and its last messages have had the time to arrive. Called repeatedly while
    /// messages are missing. Does not block.
    pub(crate) fn check(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        if self.left.is_none() {
            self.left = self.find_left(transport)?.map(|error| (error, Instant::now()));
        }
        match &self.left {
            Some((error, since)) if since.elapsed() > LAST_MESSAGES => Err(error.clone().into()),
            _ => Ok(()),
        }
    }

    /// Why a neighbour will send nothing more, if one has left. It may have sent its last messages before.
    pub(crate) fn find_left(
        &self,
        transport: &dyn Transport,
    ) -> Result<Option<TransportError>, TransportError> {
        for neighbour in &self.neighbours {
            match transport.test(neighbour.from) {
                Ok(false) => {}
                Ok(true) => return Ok(Some(TransportError::PeerGaveUp { peer: neighbour.peer })),
                Err(error @ (TransportError::PeerGaveUp { .. } | TransportError::PeerEnded { .. })) => {
                    return Ok(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Closes all channels. If this rank's exchange `has_failed`, tells the neighbours before. Does not block.
    pub(crate) fn close(&mut self, transport: &dyn Transport, has_failed: bool) {
        let memory: Arc<dyn Any + Send + Sync> = Arc::new(Arc::clone(&self.memory));
        for Neighbour { to, from, .. } in self.neighbours.drain(..) {
            if has_failed {
                // A neighbour that hears nothing ends at its time limit.
                // SAFETY: nobody writes the byte.
                let _ = unsafe { transport.post(to) };
            }
            for channel in [to, from] {
                // SAFETY: the channel is ours, and `memory` owns its byte.
                unsafe { transport.close(channel, Arc::clone(&memory)) };
            }
        }
    }
}
