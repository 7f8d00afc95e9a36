//! The transport of a simulated rank: it returns the known outcomes of the first collectives, and stops its rank at
//! the next.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haloport::comm::TransportError;
use haloport_core::device::MemoryRange;
use haloport_core::transport::{
    Channel, Direction, Idle, Incoming, Reach, Reduction, Transport, TransportInfo,
};

use super::loggp::Message;

/// One rank's part in a collective, or its outcome for one rank.
#[derive(Debug, Clone)]
pub(super) enum Collective {
    Reduce(Vec<u64>, Reduction),
    /// The root, and its bytes; in the parts of other ranks, any bytes.
    Broadcast(usize, Vec<u8>),
    /// The messages to each receiver, or from each sender.
    Messages(Vec<(usize, Vec<u8>)>),
}

/// The messages of one rank in one run.
#[derive(Debug, Clone, Default)]
pub(super) struct Log {
    /// The messages of one exchange to other ranks: the channels opened for sending.
    pub(super) sends: Vec<Message>,
    /// Messages to other ranks during set-up, and their bytes.
    pub(super) setup_messages: usize,
    pub(super) setup_bytes: usize,
    /// Messages from other ranks during set-up.
    pub(super) setup_received: usize,
    /// Collectives during set-up, including sparse exchanges.
    pub(super) collectives: usize,
}

/// One simulated rank, on which no exchange runs. A clone is another handle to the same rank.
#[derive(Debug, Clone)]
pub(super) struct Simulated {
    rank: usize,
    size: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// The outcomes of the first collectives.
    pub(super) outcomes: Vec<Collective>,
    /// The rank's part in the collective at which it was stopped; `None` if it was not stopped.
    pub(super) part: Option<Collective>,
    /// The messages of this run.
    pub(super) log: Log,
}

impl Simulated {
    pub(super) fn new(rank: usize, size: usize) -> Simulated {
        Simulated { rank, size, state: Arc::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcome of the next collective, or the error that stops the rank.
    fn meet(&self, part: Collective) -> Result<Collective, TransportError> {
        let mut state = self.state();
        let known = state.outcomes.get(state.log.collectives).cloned();
        state.log.collectives += 1;
        known.ok_or_else(|| {
            state.part = Some(part);
            TransportError::Broken("the simulated rank is stopped here".into())
        })
    }

    /// The number of messages with other ranks, and their bytes.
    fn with_others(&self, messages: &[(usize, Vec<u8>)]) -> (usize, usize) {
        let others = messages.iter().filter(|(peer, _)| *peer != self.rank);
        others.fold((0, 0), |(count, bytes), (_, message)| (count + 1, bytes + message.len()))
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
            crowded: false,
        }
    }

    fn all_reduce(
        &self,
        values: &mut [u64],
        reduction: Reduction,
        _idle: Idle<'_>,
    ) -> Result<(), TransportError> {
        match self.meet(Collective::Reduce(values.to_vec(), reduction))? {
            Collective::Reduce(all, _) if all.len() == values.len() => values.copy_from_slice(&all),
            _ => return Err(mixed_up()),
        }
        Ok(())
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>, _idle: Idle<'_>) -> Result<(), TransportError> {
        match self.meet(Collective::Broadcast(root, bytes.clone()))? {
            Collective::Broadcast(_, told) => *bytes = told,
            _ => return Err(mixed_up()),
        }
        Ok(())
    }

    fn sparse_exchange(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
        _idle: Idle<'_>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError> {
        let (sent, bytes) = self.with_others(&messages);
        let Collective::Messages(received) = self.meet(Collective::Messages(messages))? else {
            return Err(mixed_up());
        };
        let mut state = self.state();
        state.log.setup_messages += sent;
        state.log.setup_bytes += bytes;
        state.log.setup_received += self.with_others(&received).0;
        Ok(received)
    }

    unsafe fn open_parts(
        &self,
        direction: Direction,
        peer: usize,
        _tag: u32,
        parts: &[MemoryRange],
    ) -> Result<Channel, TransportError> {
        if direction == Direction::Send {
            self.state().log.sends.extend(parts.iter().map(|part| (peer, part.bytes)));
        }
        // No channel is ever used, so one number does for all.
        Ok(Channel(0))
    }

    unsafe fn close(&self, _channel: Channel, _keep: Arc<dyn Any + Send + Sync>) {}

    unsafe fn post(&self, _channel: Channel) -> Result<(), TransportError> {
        Err(not_simulated("posting a message"))
    }

    fn test(&self, _channel: Channel) -> Result<bool, TransportError> {
        Err(not_simulated("testing a channel"))
    }

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
}
