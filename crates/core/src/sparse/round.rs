//! One round of a sparse exchange, as its callers see it.

use std::fmt;
use std::sync::Arc;

use super::shared::Shared;
use super::{SparseError, SparseExchange};
use crate::comm::Communicator;
use crate::log;
use crate::transport::TransportError;

/// A round of a [`SparseExchange`] under way.
///
/// Messages are inserted here, through an [`Inserter`] or through [`Slot`]s, from any thread. They are sent, and others
/// arrive, whenever a rank waits or calls [`is_ready`](Round::is_ready) or [`try_next`](Round::try_next); with
/// [`Progress::Thread`](crate::Progress::Thread), at any time.
///
/// Dropping a round first completes it, within the time limit, and discards its messages. If its thread is panicking,
/// the round is given up instead, and the exchange is poisoned.
#[must_use = "dropping a round waits for it and discards its messages; call `wait`"]
#[derive(Debug)]
pub struct Round<'e> {
    exchange: &'e mut SparseExchange,
    inserter: Inserter,
    open: bool,
}

impl<'e> Round<'e> {
    pub(super) fn new(exchange: &'e mut SparseExchange, round: u64) -> Round<'e> {
        let inserter = Inserter { comm: exchange.comm.clone(), shared: Arc::clone(&exchange.shared), round };
        Round { exchange, inserter, open: true }
    }

    /// Sends a message, which may be empty, to any rank, including this one. Does not block.
    ///
    /// # Errors
    /// As for [`Inserter::send`].
    pub fn send(&self, peer: usize, bytes: impl Into<Vec<u8>>) -> Result<(), SparseError> {
        self.inserter.send(peer, bytes)
    }

    /// Reserves the next position among the messages for `peer`. Does not block.
    ///
    /// # Errors
    /// As for [`Inserter::send`].
    pub fn reserve(&self, peer: usize) -> Result<Slot, SparseError> {
        self.inserter.reserve(peer)
    }

    /// Returns a handle that inserts messages, for other threads.
    pub fn inserter(&self) -> Inserter {
        self.inserter.clone()
    }

    /// Ends the insertions of this rank; reserved slots can still be filled. Does not block.
    pub fn finish(&self) {
        self.inserter.shared.finish();
        self.serve();
    }

    /// Whether [`wait`](Round::wait) would return without waiting (also because the round has failed). Makes progress;
    /// does not block.
    pub fn is_ready(&self) -> bool {
        self.serve();
        !self.inserter.shared.is_travelling()
    }

    /// Takes the next message that has come, with its sender. Messages of one sender are in order, those of different
    /// senders in the order of their arrival. Makes progress; does not block.
    ///
    /// # Errors
    /// The error of the round, and [`TransportError::WrongThread`].
    pub fn try_next(&self) -> Result<Option<(usize, Vec<u8>)>, SparseError> {
        self.serve();
        let shared = &self.inserter.shared;
        shared.progress(&**self.exchange.comm.transport())?;
        match (shared.next(), shared.failure()) {
            (None, Some(error)) => Err(error),
            (message, _) => Ok(message),
        }
    }

    /// Ends the insertions of this rank, waits until the round is complete, and returns the messages that were not
    /// taken yet, with their senders: in the order of the senders, and those of one sender in order.
    ///
    /// # Errors
    /// [`SparseError::TimeLimit`], which names the missing ranks; [`SparseError::GivenUp`] if a slot was dropped before
    /// it was filled, on this rank or on another, usually at once; [`SparseError::Transport`]. The exchange is then
    /// poisoned.
    pub fn wait(mut self) -> Result<Vec<(usize, Vec<u8>)>, SparseError> {
        self.open = false;
        self.exchange.end_round()
    }

    fn serve(&self) {
        self.exchange.serve();
    }
}

impl SparseExchange {
    /// Waits until the round is complete, and ends it.
    pub(super) fn end_round(&mut self) -> Result<Vec<(usize, Vec<u8>)>, SparseError> {
        let (comm, shared) = (&self.comm, &self.shared);
        let transport = &**comm.transport();
        shared.finish();
        let waited = comm.wait(
            || shared.missing(transport),
            || {
                shared.progress(transport)?;
                Ok(!shared.is_travelling())
            },
        );
        if let Err(error) = waited {
            let error = match error {
                TransportError::TimeLimit { what, ranks, limit } => {
                    SparseError::TimeLimit { missing: what, ranks, limit }
                }
                other => other.into(),
            };
            shared.abandon(transport, error);
        }
        comm.engine().remove(shared);
        shared.conclude(transport)
    }

    /// Completes a round that is dropped, and discards its messages. If the thread is panicking, gives up the round
    /// instead.
    pub(super) fn drop_round(&mut self) {
        if std::thread::panicking() {
            let error = SparseError::Poisoned("its thread panicked".into());
            self.shared.abandon(&**self.comm.transport(), error);
            self.comm.engine().remove(&self.shared);
        } else if let Err(error) = self.end_round()
            && !matches!(error, SparseError::Transport(TransportError::Interrupted { .. }))
        {
            // Not lost: the exchange is poisoned, and its next use returns an error.
            log::error(format_args!("a round of a sparse exchange failed while it was dropped: {error}"));
        }
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        if self.open {
            self.exchange.drop_round();
        }
    }
}

/// Inserts messages into one round, from any thread.
#[derive(Clone)]
pub struct Inserter {
    comm: Communicator,
    shared: Arc<Shared>,
    round: u64,
}

impl fmt::Debug for Inserter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inserter(round {} of rank {})", self.round, self.comm.rank())
    }
}

impl Inserter {
    /// Sends a message, after all messages and slots for this receiver so far. Does not block.
    ///
    /// # Errors
    /// [`SparseError::Finished`], [`SparseError::NotADestination`], [`SparseError::Poisoned`] and, within
    /// [`SparseError::Transport`], [`TransportError::NoSuchRank`].
    pub fn send(&self, peer: usize, bytes: impl Into<Vec<u8>>) -> Result<(), SparseError> {
        self.shared.insert(self.round, peer, bytes.into())?;
        self.wake();
        Ok(())
    }

    /// Reserves the next position among the messages for `peer`, to be filled later. Messages after it wait for it.
    /// Does not block.
    ///
    /// # Errors
    /// As for [`send`](Inserter::send).
    pub fn reserve(&self, peer: usize) -> Result<Slot, SparseError> {
        let position = self.shared.reserve(self.round, peer)?;
        Ok(Slot { inserter: self.clone(), peer, position, filled: false })
    }

    /// Wakes this rank, which may sleep until a message is inserted.
    fn wake(&self) {
        self.comm.transport().notify(self.comm.rank());
    }
}

/// A reserved position among the messages for one receiver. Slots can be filled on any thread, in any order.
///
/// If a slot is dropped before it is filled, the round fails: with fixed neighbours on this rank and its neighbours,
/// otherwise on all ranks.
#[must_use = "a slot that is dropped before it is filled fails the round"]
#[derive(Debug)]
pub struct Slot {
    inserter: Inserter,
    peer: usize,
    position: u64,
    filled: bool,
}

impl Slot {
    /// The rank that the message is for.
    pub fn peer(&self) -> usize {
        self.peer
    }

    /// Sends the message of this position. Does not block.
    ///
    /// # Errors
    /// [`SparseError::Poisoned`] if the round has failed.
    pub fn send(mut self, bytes: impl Into<Vec<u8>>) -> Result<(), SparseError> {
        self.filled = true;
        let Inserter { shared, round, .. } = &self.inserter;
        shared.fill(*round, self.peer, self.position, bytes.into())?;
        self.inserter.wake();
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.filled {
            self.inserter.shared.leave_empty(self.inserter.round, self.peer);
            self.inserter.wake();
        }
    }
}
