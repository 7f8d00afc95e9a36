//! The transport of a simulated rank: it returns the known outcomes of the first collectives, and stops its rank at
//! the next.

use std::any::Any;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haloport::comm::TransportError;
use haloport_core::device::MemoryRange;
use haloport_core::transport::{
    Channel, Direction, Idle, Incoming, Reach, Reduction, Transport, TransportInfo,
};

use super::loggp::Message;

/// One rank's part in a collective.
#[derive(Debug)]
pub(super) enum Part {
    Reduce(Vec<u64>, Reduction),
    /// The root, and the bytes if this is the root.
    Broadcast(usize, Vec<u8>),
    /// The messages to each receiver.
    Messages(Vec<(usize, Vec<u8>)>),
}

/// The outcome of a collective for one rank.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Values(Arc<[u64]>),
    Bytes(Arc<[u8]>),
    /// The messages from each sender.
    Messages(Vec<(usize, Vec<u8>)>),
}

/// One simulated rank, on which no exchange runs. A clone is another handle to the same rank.
#[derive(Debug, Clone)]
pub(super) struct Simulated {
    rank: usize,
    size: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The outcomes of the first collectives.
    outcomes: Vec<Outcome>,
    /// The number of collectives that the rank has reached in this run.
    met: usize,
    /// The rank's part in the collective at which it was stopped.
    part: Option<Part>,
    /// Channels opened for sending in this run.
    sends: Vec<Message>,
    opened: u64,
}

impl Simulated {
    pub(super) fn new(rank: usize, size: usize) -> Simulated {
        Simulated { rank, size, state: Arc::default() }
    }

    /// Starts a run from the beginning.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        let outcomes = mem::take(&mut state.outcomes);
        *state = State { outcomes, ..State::default() };
    }

    /// Takes the rank's part in the collective at which it was stopped; `None` if it was not stopped.
    pub(super) fn take_part(&self) -> Option<Part> {
        self.state().part.take()
    }

    /// Sets the outcome of the collective at which the rank was stopped.
    pub(super) fn learn(&self, outcome: Outcome) {
        self.state().outcomes.push(outcome);
    }

    /// Takes the channels that the last run opened for sending: the peer and the bytes of each.
    pub(super) fn take_sends(&self) -> Vec<Message> {
        mem::take(&mut self.state().sends)
    }

    /// The outcome of the next collective, or the error that stops the rank.
    fn meet(&self, part: Part) -> Result<Outcome, TransportError> {
        let mut state = self.state();
        let known = state.outcomes.get(state.met).cloned();
        state.met += 1;
        known.ok_or_else(|| {
            state.part = Some(part);
            TransportError::Broken("the simulated rank is stopped here".into())
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_simulated(what: &'static str) -> TransportError {
    TransportError::Layer { call: what, message: "simulated ranks set exchanges up and run none".into() }
}

/// The error if the outcome is of another kind than the rank's part.
fn mixed_up() -> TransportError {
    TransportError::Broken("simulated ranks are at different collectives".into())
}

// SAFETY: no memory is ever accessed, and nothing is sent, through any handle.
unsafe impl Transport for Simulated {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn info(&self) -> TransportInfo {
        TransportInfo {
            name: "simulated",
            implementation: "one rank after the other".into(),
            reach: Reach::Own { reason: "simulated ranks hold no cells".into() },
            device_memory: Vec::new(),
            any_thread: true,
        }
    }

    unsafe fn open_parts(
        &self,
        direction: Direction,
        peer: usize,
        _tag: u32,
        parts: &[MemoryRange],
    ) -> Result<Channel, TransportError> {
        let mut state = self.state();
        if direction == Direction::Send {
            state.sends.extend(parts.iter().map(|part| (peer, part.bytes)));
        }
        state.opened += 1;
        Ok(Channel(state.opened))
    }

    unsafe fn post(&self, _channel: Channel) -> Result<(), TransportError> {
        Err(not_simulated("posting a message"))
    }

    fn test(&self, _channel: Channel) -> Result<bool, TransportError> {
        Err(not_simulated("testing a channel"))
    }

    unsafe fn close(&self, _channel: Channel, _keep: Arc<dyn Any + Send + Sync>) {}

    fn send_message(&self, _peer: usize, _tag: u32, _bytes: Vec<u8>) -> Result<(), TransportError> {
        Err(not_simulated("sending a message"))
    }

    fn receive_message(&self, _tag: u32) -> Result<Incoming, TransportError> {
        Err(not_simulated("receiving a message"))
    }

    fn unreceived(&self, _tag: u32) -> Result<Vec<usize>, TransportError> {
        Err(not_simulated("asking for messages"))
    }

    fn discard_messages(&self, _tag: u32) {}

    fn relax(&self, _round: u32) -> Result<(), TransportError> {
        Err(not_simulated("waiting"))
    }

    fn all_reduce(
        &self,
        values: &mut [u64],
        reduction: Reduction,
        _idle: Idle<'_>,
    ) -> Result<(), TransportError> {
        match self.meet(Part::Reduce(values.to_vec(), reduction))? {
            Outcome::Values(all) if all.len() == values.len() => {
                values.copy_from_slice(&all);
                Ok(())
            }
            _ => Err(mixed_up()),
        }
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>, _idle: Idle<'_>) -> Result<(), TransportError> {
        match self.meet(Part::Broadcast(root, bytes.clone()))? {
            Outcome::Bytes(told) => {
                *bytes = told.to_vec();
                Ok(())
            }
            _ => Err(mixed_up()),
        }
    }

    fn sparse_exchange(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
        _idle: Idle<'_>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError> {
        match self.meet(Part::Messages(messages))? {
            Outcome::Messages(received) => Ok(received),
            _ => Err(mixed_up()),
        }
    }
}
