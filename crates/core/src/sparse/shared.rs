//! The state of a sparse exchange behind a lock, shared by the exchange, its inserters and the engine.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::SparseError;
use super::complaint::Complaint;
use super::consensus::Consensus;
use super::notices::Notices;
use super::outbox::Outbox;
use super::state::{Ending, Message, SparseState, Status, Tags};
use crate::callback::{self, Callback};
use crate::comm::{Engine, Missing, Served, is_meanwhile};
use crate::log;
use crate::transport::{Transport, TransportError};

/// Called when a round is complete, or has failed.
pub(super) type Completion = callback::Completion<SparseError>;

/// One sparse exchange of one rank.
pub(super) struct Shared {
    state: Mutex<SparseState>,
    on_complete: Callback<SparseError>,
}

impl Shared {
    /// Makes an exchange. `neighbours` are the fixed senders and receivers.
    pub(super) fn new(
        (rank, size): (usize, usize),
        tags: Tags,
        neighbours: Option<(&[usize], &[usize])>,
        on_complete: Option<Completion>,
    ) -> Shared {
        let ending = match neighbours {
            None => Ending::Consensus(Consensus::new(rank, size)),
            Some((senders, receivers)) => Ending::Notices(Notices::new(rank, senders, receivers)),
        };
        let state = SparseState {
            rank,
            size,
            tags,
            status: Status::Idle,
            round: 0,
            outbox: Outbox::default(),
            finished: false,
            complaint: None,
            ending,
            received: VecDeque::new(),
            panicked: None,
        };
        Shared { state: Mutex::new(state), on_complete: Callback::new(on_complete) }
    }

    /// Begins a round and returns its number. The last round is over.
    pub(super) fn begin(&self) -> Result<u64, SparseError> {
        let mut state = self.lock();
        if let Status::Poisoned(error) = &state.status {
            return Err(error.poison());
        }
        state.status = Status::Travelling;
        state.round += 1;
        state.outbox = Outbox::default();
        state.finished = false;
        state.complaint = None;
        state.received.clear();
        let (rank, size) = (state.rank, state.size);
        match &mut state.ending {
            Ending::Consensus(consensus) => *consensus = Consensus::new(rank, size),
            Ending::Notices(notices) => notices.reset(),
        }
        Ok(state.round)
    }

    /// Inserts a message into a round.
    pub(super) fn insert(&self, round: u64, peer: usize, bytes: Vec<u8>) -> Result<(), SparseError> {
        let mut state = self.lock();
        state.check(round, peer)?;
        state.outbox.insert(peer, bytes);
        Ok(())
    }

    /// Whether messages for `peer` may be inserted into a round.
    pub(super) fn check_receiver(&self, peer: usize) -> Result<(), SparseError> {
        self.lock().check_receiver(peer)
    }

    /// Reserves a position for a message in a round, and returns its number.
    pub(super) fn reserve(&self, round: u64, peer: usize) -> Result<u64, SparseError> {
        let mut state = self.lock();
        state.check(round, peer)?;
        Ok(state.outbox.reserve(peer))
    }

    /// Fills a reserved position.
    pub(super) fn fill(
        &self,
        round: u64,
        peer: usize,
        position: u64,
        bytes: Vec<u8>,
    ) -> Result<(), SparseError> {
        let mut state = self.lock();
        state.check_round(round)?;
        state.outbox.fill(peer, position, bytes);
        Ok(())
    }

    /// Notes that a reserved position will never be filled: the rank gives up the round.
    pub(super) fn leave_empty(&self, round: u64, peer: usize) {
        let mut state = self.lock();
        if state.check_round(round).is_ok() {
            let why = format!("a message reserved for rank {peer} was dropped before it was filled");
            state.complaint = Some(Complaint { rank: state.rank, why });
        }
    }

    /// Ends the insertions into the current round.
    pub(super) fn finish(&self) {
        self.lock().finished = true;
    }

    /// Takes the next message that has come in this round.
    pub(super) fn next(&self) -> Option<Message> {
        self.lock().received.pop_front()
    }

    /// Whether a round has begun and not been ended.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.lock().status, Status::Travelling | Status::Arrived)
    }

    /// The number of rounds, if all have ended and none has failed.
    pub(super) fn completed(&self) -> Option<u64> {
        let state = self.lock();
        matches!(state.status, Status::Idle).then_some(state.round)
    }

    /// Whether the round is not complete yet.
    pub(super) fn is_travelling(&self) -> bool {
        matches!(self.lock().status, Status::Travelling)
    }

    /// The failure of the round, if it has failed.
    pub(super) fn failure(&self) -> Option<SparseError> {
        match &self.lock().status {
            Status::Poisoned(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// Makes progress. An error means that this thread may not; the round goes on.
    pub(super) fn progress(&self, transport: &dyn Transport) -> Result<(), TransportError> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        if !matches!(state.status, Status::Travelling) {
            return Ok(());
        }
        match state.advance(transport) {
            Ok(false) => return Ok(()),
            Ok(true) => state.status = Status::Arrived,
            // The round goes on, on a thread that may call the transport.
            Err(SparseError::Transport(error @ TransportError::WrongThread { .. })) => return Err(error),
            Err(error) => state.poison(transport, error),
        }
        self.report(transport, state);
        Ok(())
    }

    /// Ends a round that is complete, and returns the messages that were not taken yet, in the order of the senders.
    pub(super) fn conclude(&self, transport: &dyn Transport) -> Result<Vec<Message>, SparseError> {
        let mut state = self.lock();
        if let Status::Poisoned(error) = &state.status {
            return Err(error.clone());
        }
        if let Some(message) = state.panicked.take() {
            let error = SparseError::CallbackPanicked(message);
            state.poison(transport, error.clone());
            return Err(error);
        }
        state.status = Status::Idle;
        let mut received: Vec<Message> = std::mem::take(&mut state.received).into();
        // Stable: messages of one sender stay in order.
        received.sort_by_key(|(sender, _)| *sender);
        Ok(received)
    }

    /// Gives up the round, or poisons the exchange between rounds.
    pub(super) fn abandon(&self, transport: &dyn Transport, error: SparseError) {
        let mut state = self.lock();
        match state.status {
            Status::Travelling => {
                state.poison(transport, error);
                self.report(transport, state);
            }
            Status::Idle | Status::Arrived => state.status = Status::Poisoned(error),
            Status::Poisoned(_) => {}
        }
    }

    /// The ranks and messages that are missing.
    pub(super) fn missing(&self, transport: &dyn Transport) -> Missing {
        self.lock().missing(transport)
    }

    /// Discards the messages that have come for this exchange.
    pub(super) fn discard(&self, transport: &dyn Transport) {
        let Tags(first) = self.lock().tags;
        (first..first + Tags::COUNT).for_each(|tag| transport.discard_messages(tag));
    }

    /// Runs the callback without the lock of the state, so that it may use other exchanges. If it panics, the exchange
    /// is poisoned, during a round at the end of the round.
    fn report(&self, transport: &dyn Transport, state: MutexGuard<'_, SparseState>) {
        let error = match &state.status {
            Status::Poisoned(error) => Some(error.clone()),
            _ => None,
        };
        drop(state);
        if let Err(message) = self.on_complete.run(error.as_ref().map_or(Ok(()), Err)) {
            log::error(format_args!("the completion callback of a sparse exchange panicked: {message}"));
            let mut state = self.lock();
            match state.status {
                Status::Travelling | Status::Arrived => state.panicked = Some(message),
                Status::Idle => state.poison(transport, SparseError::CallbackPanicked(message)),
                Status::Poisoned(_) => {}
            }
        }
    }

    /// Locks, even after a panic: the state is never half changed.
    fn lock(&self) -> MutexGuard<'_, SparseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Served for Shared {
    fn poll(&self, transport: &dyn Transport, _engine: &Engine) {
        if is_meanwhile() || self.on_complete.may_wait_for_itself() {
            return;
        }
        // If this thread may not call the transport, another one makes progress.
        let _ = self.progress(transport);
    }

    fn give_up(&self, transport: &dyn Transport, why: String) {
        self.abandon(transport, SparseError::Poisoned(why));
    }

    fn is_under_way(&self) -> bool {
        self.is_travelling()
    }
}
