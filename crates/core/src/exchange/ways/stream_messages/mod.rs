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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::device::{Device, DeviceId, MemoryRange, Pointer, StreamMessages};
use crate::exchange::options::ExchangeError;
use crate::transport::{Channel, Direction, Transport, TransportError};

/// A group that this rank has joined with a device of type `D`.
pub(crate) struct SharedGroup<D: Device> {
    messages: Box<dyn StreamMessages<D::Stream>>,
    /// Set before the group is aborted, and so before the streams that wait in it go on.
    is_aborted: AtomicBool,
}

/// A [`SharedGroup`], independent of the device's type.
pub(crate) trait AnyGroup: Any + Send + Sync {
    fn is_aborted(&self) -> bool;
    /// Ends all exchanges of the group, those of other flights, too. Does not block.
    fn abort(&self);
}

impl<D: Device> SharedGroup<D> {
    pub(crate) fn new(messages: Box<dyn StreamMessages<D::Stream>>) -> SharedGroup<D> {
        SharedGroup { messages, is_aborted: AtomicBool::new(false) }
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
}

/// The neighbours of a part.
#[derive(Default)]
pub(crate) struct Watch {
    peers: Vec<usize>,
    /// Two for each neighbour: to tell it, and to hear from it.
    channels: Vec<Channel>,
    /// Whether the channels to receive are posted.
    is_posted: bool,
    /// The first neighbour that was found to have left in this exchange, and when.
    left: Option<(TransportError, Instant)>,
    /// A byte for each channel, whose value means nothing. Atomics, since the transport writes them without a borrow.
    memory: Arc<[AtomicU8]>,
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
        let memory = (0..2 * peers.len()).map(|_| AtomicU8::new(0)).collect();
        let mut watch = Watch { peers: peers.to_vec(), memory, ..Watch::default() };
        for at in 0..2 * peers.len() {
            let direction = if at % 2 == 0 { Direction::Send } else { Direction::Receive };
            let range = MemoryRange { device, pointer: Pointer::new(watch.memory[at].as_ptr()), bytes: 1 };
            // SAFETY: the memory is kept by the watch, which closes the channel before it drops it, and handed over to
            // the transport then.
            match unsafe { transport.open(direction, peers[at / 2], tag, range) } {
                Ok(channel) => watch.channels.push(channel),
                Err(error) => {
                    watch.close(transport, false);
                    return Err(error);
                }
            }
        }
        Ok(watch)
    }

    pub(crate) fn begin(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        self.left = None;
        if !std::mem::replace(&mut self.is_posted, true) {
            for (_, from) in self.incoming() {
                // SAFETY: the byte is used by nothing else.
                match unsafe { transport.post(from) } {
                    // Found again by `check`, which waits a short time: it may have sent its last messages.
                    Err(TransportError::PeerGaveUp { .. } | TransportError::PeerEnded { .. }) => {}
                    posted => posted?,
                }
            }
        }
        Ok(())
    }

    /// Each neighbour with the channel to hear from it.
    fn incoming(&self) -> impl Iterator<Item = (usize, Channel)> {
        self.peers.iter().copied().zip(self.channels.iter().copied().skip(1).step_by(2))
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
        for (peer, from) in self.incoming() {
            match transport.test(from) {
                Ok(false) => {}
                Ok(true) => return Ok(Some(TransportError::PeerGaveUp { peer })),
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
        for (number, channel) in self.channels.drain(..).enumerate() {
            if has_failed && number % 2 == 0 {
                // A neighbour that hears nothing ends at its time limit.
                // SAFETY: the byte is never written.
                let _ = unsafe { transport.post(channel) };
            }
            // SAFETY: the channel is ours, and `memory` owns its byte.
            unsafe { transport.close(channel, Arc::clone(&memory)) };
        }
    }
}
