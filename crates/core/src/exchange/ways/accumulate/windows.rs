//! Windows on halos of neighbours of the node, and on their messages in shared memory.

use std::sync::Arc;

use crate::device::Device;
use crate::exchange::ways::memory::SharedMessage;
use crate::exchange::ways::memory::lent::twice;
use crate::exchange::work::Lane;
use crate::exchange::work::trace::TransferTrace;
use crate::transport::{Lent, Transport, TransportError, Window};

/// A window on the halo of a neighbour, or two on its messages in shared memory.
pub(crate) struct HaloWindow {
    peer: usize,
    /// For even exchanges and for odd ones.
    windows: [Arc<Window>; 2],
    /// Whether they are on two messages. Otherwise the sources are the halo and, if there `may_be_message`, the message that
    /// its rank leaves in its place.
    in_turn: bool,
    may_be_message: bool,
    /// What is read.
    reading: Option<Lent>,
    pub(super) transfer: TransferTrace,
}

impl HaloWindow {
    /// On a halo that a neighbour lends. `may_be_message`: the neighbour may leave a message in its place.
    pub(crate) fn halo(
        peer: usize,
        window: &Arc<Window>,
        may_be_message: bool,
        transfer: TransferTrace,
    ) -> HaloWindow {
        let windows = twice(window);
        HaloWindow { peer, windows, in_turn: false, may_be_message, reading: None, transfer }
    }

    /// On two messages in shared memory, used in turn.
    pub(crate) fn messages(peer: usize, pair: &[SharedMessage; 2], transfer: TransferTrace) -> HaloWindow {
        let windows = pair.each_ref().map(|message| Arc::clone(&message.window));
        HaloWindow { peer, windows, in_turn: true, may_be_message: false, reading: None, transfer }
    }

    /// Whether the neighbour has lent its halo, or left a message.
    pub(super) fn is_here(&self, round: usize) -> Result<bool, TransportError> {
        let window = &self.windows[round];
        match self.reading.is_some() || window.is_readable() {
            false if window.is_withdrawn() => Err(TransportError::PeerGaveUp { peer: self.peer }),
            is_here => Ok(is_here),
        }
    }

    /// Begins to read. Returns `false` while the neighbour takes its halo back to leave a message.
    pub(super) fn begin_read(&mut self, round: usize) -> Result<bool, TransportError> {
        let window = &self.windows[round];
        if self.reading.is_none() {
            self.reading = window.begin_read();
        }
        let is_unknown = self.reading == Some(Lent::Message) && !self.may_be_message;
        if is_unknown || self.reading.is_none() && window.is_withdrawn() {
            return Err(TransportError::PeerGaveUp { peer: self.peer });
        }
        Ok(self.reading.is_some())
    }

    /// The number of the source that is read.
    pub(super) fn source(&self, round: usize) -> usize {
        if self.in_turn { round } else { usize::from(self.reading == Some(Lent::Message)) }
    }

    pub(super) fn end_read<D: Device>(&mut self, lane: &Lane<'_, D>) -> Result<(), TransportError> {
        let window = &self.windows[lane.round];
        let was_whole = match self.reading.take() {
            Some(Lent::Memory) => window.end_read(),
            Some(Lent::Message) => {
                window.end_message();
                true
            }
            None => return Ok(()),
        };
        lane.transport.notify(self.peer);
        if !was_whole {
            return Err(TransportError::PeerGaveUp { peer: self.peer });
        }
        self.transfer.end();
        Ok(())
    }

    /// Leaves the window for good: this rank no longer reads it.
    pub(super) fn leave(&mut self, transport: &dyn Transport) {
        self.reading = None;
        self.windows.iter().for_each(|window| window.leave());
        transport.notify(self.peer);
    }

    pub(super) fn missing(&self) -> Option<(usize, String)> {
        // Both are the same window, or on two messages: while one is waited for, the other is read already.
        let is_here = self.windows.iter().any(|window| window.is_readable());
        (!is_here).then(|| (self.peer, format!("the halo of rank {}", self.peer)))
    }
}
