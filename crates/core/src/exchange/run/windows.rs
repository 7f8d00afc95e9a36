//! Memory that ranks lend each other in an exchange: windows on fields, from which a neighbour copies straight into its halo,
//! and on messages, which it unpacks where they lie.
//!
//! Messages in shared memory come in pairs, used in turn: an exchange ends when the neighbour has read the message of the
//! one before, so that the next one finds its message free.

use std::sync::Arc;

use super::message::OwnCopies;
use super::trace::{PartTrace, Wire};
use crate::comm::drive_meanwhile;
use crate::device::{Device, DeviceError};
use crate::exchange::options::ExchangeError;
use crate::trace::Phase;
use crate::transport::{Transport, TransportError, Window, WindowState};

/// What is lent to a neighbour.
#[derive(Debug)]
pub(crate) struct Lent {
    peer: usize,
    /// For the even exchanges and for the odd ones.
    windows: [Arc<Window>; 2],
    /// Whether the two are on messages, of which one may be read while the other is written.
    in_turn: bool,
    returned: bool,
    wire: Wire,
}

/// What a neighbour lends, and what is copied from it.
pub(crate) struct Borrowed<D: Device> {
    peer: usize,
    windows: [Arc<Window>; 2],
    /// One list, or one for the even exchanges and one for the odd ones.
    copies: Vec<OwnCopies<D>>,
    copied: D::Event,
    /// Whether it is copied while the caller waits in `finish` alone, as to memory that is merely borrowed.
    late: bool,
    progress: Progress,
    wire: Wire,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The window is the neighbour's still.
    Waiting,
    /// The window is ours; `finish` copies.
    Ready,
    Copying,
    Done,
}

impl Lent {
    /// Fields, which the neighbour must have copied before an exchange ends.
    pub(crate) fn fields(peer: usize, window: Arc<Window>, wire: Wire) -> Lent {
        Lent { peer, windows: [Arc::clone(&window), window], in_turn: false, returned: true, wire }
    }

    /// Two messages, used in turn.
    pub(crate) fn message(peer: usize, windows: [Arc<Window>; 2], wire: Wire) -> Lent {
        Lent { peer, windows, in_turn: true, returned: true, wire }
    }

    pub(crate) fn begin(&mut self) {
        self.returned = false;
        self.wire.open();
    }

    /// Has the neighbour copy: what is lent is ready to be read.
    pub(crate) fn open(&mut self, round: usize, transport: &dyn Transport) -> Result<(), ExchangeError> {
        self.wire.begin();
        if !self.windows[round].open() {
            return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
        }
        transport.notify(self.peer);
        if self.in_turn {
            // A message is where it should be: nobody waits for it to be read.
            self.wire.end();
        }
        Ok(())
    }

    /// Whether the neighbour has copied what must be free for the next exchange.
    pub(crate) fn returned(&mut self, round: usize) -> Result<bool, ExchangeError> {
        if !self.returned {
            let window = &self.windows[if self.in_turn { 1 - round } else { round }];
            // The first exchange has no other before.
            self.returned = window.settle() || self.in_turn && window.state() == WindowState::Idle;
            if self.returned {
                self.wire.end();
            } else if window.is_refused() {
                return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
            }
        }
        Ok(self.returned)
    }

    /// What the time line is told of its way.
    pub(crate) fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Takes it away from the neighbour, for ever.
    pub(crate) fn close(&self, transport: &dyn Transport) {
        // A neighbour that is a thread of this process may have been reading through this very thread.
        self.windows.iter().for_each(|window| window.close(drive_meanwhile));
        transport.notify(self.peer);
    }

    pub(crate) fn missing(&self) -> Option<String> {
        let what = if self.in_turn { "our message of the exchange before" } else { "our field" };
        (!self.returned).then(|| format!("rank {}, which has not copied {what} yet", self.peer))
    }
}

impl<D: Device> Borrowed<D> {
    /// Fields.
    pub(crate) fn fields(
        peer: usize,
        window: Arc<Window>,
        copies: OwnCopies<D>,
        copied: D::Event,
        wire: Wire,
    ) -> Borrowed<D> {
        let windows = [Arc::clone(&window), window];
        Borrowed { peer, windows, copies: vec![copies], copied, late: false, progress: Progress::Done, wire }
    }

    /// Two messages, used in turn, with the copies from each.
    pub(crate) fn message(
        peer: usize,
        windows: [Arc<Window>; 2],
        copies: Vec<OwnCopies<D>>,
        copied: D::Event,
        late: bool,
        wire: Wire,
    ) -> Borrowed<D> {
        Borrowed { peer, windows, copies, copied, late, progress: Progress::Done, wire }
    }

    pub(crate) fn begin(&mut self) {
        self.progress = Progress::Waiting;
        self.wire.open();
    }

    /// What the time line is told of its way.
    pub(crate) fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// What copies from it.
    pub(crate) fn copies(&mut self) -> impl Iterator<Item = &mut OwnCopies<D>> {
        self.copies.iter_mut()
    }

    /// Whether the neighbour has not opened the window yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.progress == Progress::Waiting
    }

    /// Blocks until what is being copied has been.
    pub(crate) fn wait_for_copies(&self, device: &D) -> Result<(), DeviceError> {
        if self.progress == Progress::Copying { device.host_wait(&self.copied) } else { Ok(()) }
    }

    /// Copies from the window once it is open, unless that is up to `finish`, and gives it back once that is done. Whether
    /// nobody is waited for any more.
    pub(crate) fn advance(
        &mut self,
        round: usize,
        on: (&D, &D::Stream),
        transport: &dyn Transport,
        finishing: bool,
        trace: &PartTrace<D>,
    ) -> Result<bool, ExchangeError> {
        if self.progress == Progress::Waiting {
            if !self.windows[round].begin_read() {
                if self.windows[round].is_withdrawn() {
                    return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
                }
                return Ok(false);
            }
            self.progress = Progress::Ready;
        }
        if self.progress == Progress::Ready && (finishing || !self.late) {
            self.copy(round, on, trace)?;
        }
        if self.progress == Progress::Copying && on.0.query(&self.copied)? {
            self.give_back(round, transport)?;
        }
        Ok(matches!(self.progress, Progress::Ready | Progress::Done))
    }

    /// Copies what was left to `finish`.
    pub(crate) fn finish(
        &mut self,
        round: usize,
        on: (&D, &D::Stream),
        transport: &dyn Transport,
        trace: &PartTrace<D>,
    ) -> Result<(), ExchangeError> {
        if self.progress == Progress::Ready {
            self.copy(round, on, trace)?;
            self.give_back(round, transport)?;
        }
        Ok(())
    }

    /// Will not read it any more.
    pub(crate) fn leave(&self, transport: &dyn Transport) {
        self.windows.iter().for_each(|window| window.leave());
        transport.notify(self.peer);
    }

    fn copy(
        &mut self,
        round: usize,
        (device, stream): (&D, &D::Stream),
        trace: &PartTrace<D>,
    ) -> Result<(), ExchangeError> {
        self.progress = Progress::Copying;
        let copies = &self.copies[round % self.copies.len()];
        // SAFETY: the window is open to us, so its owner neither writes what it lent nor frees it until we say that we
        // have read; the targets are halo cells of our own fields, which are in flight, and are touched by `finish`
        // alone where the fields are merely borrowed.
        unsafe { copies.run(Phase::Unpacking, device, stream, trace)? };
        device.record(&self.copied, stream)?;
        Ok(())
    }

    fn give_back(&mut self, round: usize, transport: &dyn Transport) -> Result<(), ExchangeError> {
        self.progress = Progress::Done;
        let was_whole = self.windows[round].end_read();
        transport.notify(self.peer);
        if !was_whole {
            return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
        }
        self.wire.end();
        Ok(())
    }

    pub(crate) fn missing(&self) -> Option<String> {
        let what = if self.windows[0].lasts() { "message" } else { "field" };
        let missing = matches!(self.progress, Progress::Waiting | Progress::Copying);
        missing.then(|| format!("the {what} of rank {}", self.peer))
    }
}
