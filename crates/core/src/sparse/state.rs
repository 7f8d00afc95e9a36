//! The state of a sparse exchange, shared between the exchange, those who insert messages, and the engine.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use serde::{Deserialize, Serialize};

use super::SparseError;
use super::consensus::Consensus;
use super::notices::Notices;
use super::outbox::Outbox;
use crate::exchange::Served;
use crate::transport::{Incoming, Transport, TransportError};

/// Called when a round is complete, or has failed.
pub(super) type Completion = Box<dyn FnMut(Result<(), &SparseError>) + Send>;

/// A sender and its message.
type Message = (usize, Vec<u8>);

/// A rank and why it gives up a round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Complaint {
    pub(super) rank: usize,
    pub(super) why: String,
}

/// One sparse exchange of one rank.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Locked while it runs, without the lock on the state, so that calls come one after another.
    on_complete: Mutex<Option<Completion>>,
}

struct State {
    rank: usize,
    size: usize,
    tags: Tags,
    status: Status,
    /// The number of the round that was begun last, from 1.
    round: u64,
    outbox: Outbox,
    /// Nothing more is inserted.
    finished: bool,
    /// Why this rank gives up.
    complaint: Option<Complaint>,
    ending: Ending,
    /// In the order of coming.
    received: VecDeque<Message>,
}

/// How it is known that a round is complete.
enum Ending {
    Consensus(Consensus),
    Notices(Notices),
}

/// How far a round is.
enum Status {
    /// Between rounds.
    Idle,
    /// Something is still missing.
    Travelling,
    /// `wait` would not wait.
    Arrived,
    /// It failed, for ever.
    Poisoned(SparseError),
}

/// The tags of an exchange. A rank can be in the next round while another still is in this one, never further, so
/// two in turn keep the rounds apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tags(pub(super) u32);

impl Tags {
    pub(super) const COUNT: u32 = 4;

    fn messages(self, round: u64) -> u32 {
        self.0 + (round % 2) as u32
    }

    fn ending(self, round: u64) -> u32 {
        self.0 + 2 + (round % 2) as u32
    }
}

impl Shared {
    /// An exchange whose neighbours are fixed: senders and receivers; or not.
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
        let state = State {
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
        };
        Shared { state: Mutex::new(state), on_complete: Mutex::new(on_complete) }
    }

    /// Begins a round, whose number is returned. The last one is over.
    pub(super) fn begin(&self) -> Result<u64, SparseError> {
        let mut state = self.lock();
        if let Status::Poisoned(error) = &state.status {
            return Err(SparseError::Poisoned(error.to_string()));
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

    /// Inserts a place for a message into a round.
    pub(super) fn reserve(&self, round: u64, peer: usize) -> Result<u64, SparseError> {
        let mut state = self.lock();
        state.check(round, peer)?;
        Ok(state.outbox.reserve(peer))
    }

    /// Fills a place.
    pub(super) fn fill(
        &self,
        round: u64,
        peer: usize,
        place: u64,
        bytes: Vec<u8>,
    ) -> Result<(), SparseError> {
        let mut state = self.lock();
        state.check_round(round)?;
        state.outbox.fill(peer, place, bytes);
        Ok(())
    }

    /// A place will never be filled.
    pub(super) fn leave_empty(&self, round: u64, peer: usize) {
        let mut state = self.lock();
        if state.check_round(round).is_ok() {
            let why = format!("a message reserved for rank {peer} was dropped before it was filled");
            state.complaint = Some(Complaint { rank: state.rank, why });
        }
    }

    /// Nothing more is inserted into the round that was begun last.
    pub(super) fn finish(&self) {
        self.lock().finished = true;
    }

    /// The next message that has come in this round.
    pub(super) fn next(&self) -> Option<Message> {
        self.lock().received.pop_front()
    }

    /// Whether something is still missing.
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

    /// Makes progress, and says what keeps this thread from it.
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
            // The round goes on, on a thread that may.
            Err(SparseError::Transport(error @ TransportError::WrongThread { .. })) => return Err(error),
            Err(error) => state.poison(transport, error),
        }
        self.report(state);
        Ok(())
    }

    /// Ends a round that is complete: what was not taken of it, sender by sender.
    pub(super) fn conclude(&self) -> Result<Vec<Message>, SparseError> {
        let mut state = self.lock();
        if let Status::Poisoned(error) = &state.status {
            return Err(error.clone());
        }
        state.status = Status::Idle;
        let mut received: Vec<Message> = std::mem::take(&mut state.received).into();
        // Stable: those of one sender stay in their order.
        received.sort_by_key(|(sender, _)| *sender);
        Ok(received)
    }

    /// Gives up.
    pub(super) fn abandon(&self, transport: &dyn Transport, error: SparseError) {
        let mut state = self.lock();
        match state.status {
            Status::Travelling => {
                state.poison(transport, error);
                self.report(state);
            }
            Status::Idle | Status::Arrived => state.status = Status::Poisoned(error),
            Status::Poisoned(_) => {}
        }
    }

    /// What is missing, in words.
    pub(super) fn missing(&self, transport: &dyn Transport) -> String {
        self.lock().missing(transport)
    }

    /// Throws away what came for this exchange.
    pub(super) fn discard(&self, transport: &dyn Transport) {
        let Tags(first) = self.lock().tags;
        (first..first + Tags::COUNT).for_each(|tag| transport.discard_messages(tag));
    }

    /// Runs the callback, with the state's lock released so that it may use other exchanges.
    fn report(&self, state: MutexGuard<'_, State>) {
        let error = match &state.status {
            Status::Poisoned(error) => Some(error.clone()),
            _ => None,
        };
        drop(state);
        let mut callback = self.on_complete.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = &mut *callback {
            call(error.as_ref().map_or(Ok(()), Err));
        }
    }

    /// Locks even after a panic: what the lock guards is never left half changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Served for Shared {
    fn poll(&self, transport: &dyn Transport) {
        // A thread that may not make progress makes none.
        let _ = self.progress(transport);
    }
}

impl State {
    /// Whether a message for `peer` may be inserted into a round.
    fn check(&self, round: u64, peer: usize) -> Result<(), SparseError> {
        self.check_round(round)?;
        if self.finished {
            return Err(SparseError::Finished);
        }
        if peer >= self.size {
            return Err(TransportError::NoSuchRank { peer, size: self.size }.into());
        }
        match &self.ending {
            Ending::Notices(notices) if !notices.receivers().contains(&peer) => {
                Err(SparseError::NotAReceiver { peer, receivers: notices.receivers().to_vec() })
            }
            _ => Ok(()),
        }
    }

    fn check_round(&self, round: u64) -> Result<(), SparseError> {
        match &self.status {
            Status::Poisoned(error) => Err(SparseError::Poisoned(error.to_string())),
            _ if self.round != round => Err(SparseError::Finished),
            _ => Ok(()),
        }
    }

    /// Makes whatever progress can be made now; `true` once the round is complete.
    fn advance(&mut self, transport: &dyn Transport) -> Result<bool, SparseError> {
        let (tag, ending_tag) = (self.tags.messages(self.round), self.tags.ending(self.round));
        self.outbox.send_ready(|peer, bytes| transport.send_message(peer, tag, bytes))?;
        let all_sent = self.finished && self.outbox.is_empty();
        // Asked before what has come is taken: afterwards it would say nothing about that.
        let was_over = matches!(&self.ending, Ending::Consensus(consensus) if consensus.is_over());
        let nothing_left = self.receive(transport, tag)?;
        match &mut self.ending {
            Ending::Consensus(consensus) => {
                let all_found = all_sent && transport.unreceived(tag)?.is_empty();
                if !consensus.has_entered() && (all_found || self.complaint.is_some()) {
                    consensus.enter(transport, ending_tag, self.complaint.take())?;
                }
                consensus.advance(transport, ending_tag)?;
                match consensus.complaint() {
                    Some(complaint) => Err(complaint.clone().into()),
                    None => Ok(was_over && nothing_left),
                }
            }
            Ending::Notices(notices) => {
                if let Some(complaint) = self.complaint.take() {
                    return Err(complaint.into());
                }
                if all_sent {
                    notices.tell(transport, ending_tag, &self.outbox)?;
                }
                if let Some(complaint) = notices.advance(transport, ending_tag)? {
                    return Err(complaint.into());
                }
                Ok(notices.is_over()
                    && transport.unreceived(tag)?.is_empty()
                    && transport.unreceived(ending_tag)?.is_empty())
            }
        }
    }

    /// Takes what has come; `true` if nothing more is here.
    fn receive(&mut self, transport: &dyn Transport, tag: u32) -> Result<bool, TransportError> {
        loop {
            match transport.receive_message(tag)? {
                Incoming::Nothing => return Ok(true),
                Incoming::Arriving => return Ok(false),
                Incoming::Message { sender, bytes } => {
                    if let Ending::Notices(notices) = &mut self.ending {
                        notices.count(sender);
                    }
                    self.received.push_back((sender, bytes));
                }
            }
        }
    }

    fn missing(&self, transport: &dyn Transport) -> String {
        let mut missing: Vec<String> = self
            .outbox
            .held_up()
            .map(|peer| format!("this rank's reserved message to rank {peer}"))
            .collect();
        let unreceived = transport.unreceived(self.tags.messages(self.round)).unwrap_or_default();
        missing
            .extend(unreceived.iter().map(|peer| format!("rank {peer}, which has not received a message")));
        match &self.ending {
            Ending::Consensus(consensus) if consensus.has_entered() && !consensus.is_over() => {
                missing.push(consensus.missing());
            }
            Ending::Consensus(_) => {}
            Ending::Notices(notices) => {
                let unheard = transport.unreceived(self.tags.ending(self.round)).unwrap_or_default();
                let unheard = unheard.iter().filter(|peer| !unreceived.contains(peer));
                missing.extend(unheard.map(|peer| format!("rank {peer}, which has not begun its round")));
                missing.extend(notices.missing());
            }
        }
        if missing.is_empty() { "nothing".into() } else { missing.join("; ") }
    }

    /// Fails for ever, and tells the neighbours if they are known.
    fn poison(&mut self, transport: &dyn Transport, error: SparseError) {
        if let Ending::Notices(notices) = &self.ending {
            let complaint = match &error {
                SparseError::GivenUp { rank, why } => Complaint { rank: *rank, why: why.clone() },
                other => Complaint { rank: self.rank, why: other.to_string() },
            };
            let tags = [0, 1].map(|round| self.tags.ending(round));
            notices.give_up(transport, tags, &complaint);
        }
        self.outbox = Outbox::default();
        self.status = Status::Poisoned(error);
    }
}

impl From<Complaint> for SparseError {
    fn from(complaint: Complaint) -> SparseError {
        SparseError::GivenUp { rank: complaint.rank, why: complaint.why }
    }
}
