//! Memory that ranks lend each other in an exchange: windows on fields, from which a neighbour copies straight into its halo,
//! and on messages, which it unpacks where they lie.
//!
//! Messages in shared memory come in pairs, used in turn: an exchange ends when the neighbour has read the message of the
//! one before, so that the next one finds its message free.

use std::sync::Arc;

use super::ExchangeError;
use super::progress::drive_meanwhile;
use crate::device::{Device, DeviceError};
use crate::transport::{Transport, TransportError, Window, WindowState};

/// What is lent to a neighbour.
#[derive(Debug)]
pub(super) struct Lent {
    peer: usize,
    /// For the even exchanges and for the odd ones.
    windows: [Arc<Window>; 2],
    /// Whether the two are on messages, of which one may be read while the other is written.
    in_turn: bool,
    returned: bool,
}

/// What a neighbour lends, and what is copied from it.
pub(super) struct Borrowed<D: Device> {
    peer: usize,
    windows: [Arc<Window>; 2],
    /// One list, or one for the even exchanges and one for the odd ones.
    copies: Vec<D::Copies>,
    copied: D::Event,
    /// Whether it is copied while the caller waits in `finish` alone, as to memory that is merely borrowed.
    late: bool,
    progress: Progress,
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
    pub(super) fn fields(peer: usize, window: Arc<Window>) -> Lent {
        Lent { peer, windows: [Arc::clone(&window), window], in_turn: false, returned: true }
    }

    /// Two messages, used in turn.
    pub(super) fn message(peer: usize, windows: [Arc<Window>; 2]) -> Lent {
        Lent { peer, windows, in_turn: true, returned: true }
    }

    pub(super) fn begin(&mut self) {
        self.returned = false;
    }

    /// Has the neighbour copy: what is lent is ready to be read.
    pub(super) fn open(&self, round: usize, transport: &dyn Transport) -> Result<(), ExchangeError> {
        if !self.windows[round].open() {
            return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
        }
        transport.notify(self.peer);
        Ok(())
    }

    /// Whether the neighbour has copied what must be free for the next exchange.
    pub(super) fn returned(&mut self, round: usize) -> Result<bool, ExchangeError> {
        if !self.returned {
            let window = &self.windows[if self.in_turn { 1 - round } else { round }];
            // The first exchange has no other before.
            self.returned = window.settle() || self.in_turn && window.state() == WindowState::Idle;
            if !self.returned && window.is_refused() {
                return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
            }
        }
        Ok(self.returned)
    }

    /// Takes it away from the neighbour, for ever.
    pub(super) fn close(&self, transport: &dyn Transport) {
        // A neighbour that is a thread of this process may have been reading through this very thread.
        self.windows.iter().for_each(|window| window.close(drive_meanwhile));
        transport.notify(self.peer);
    }

    pub(super) fn missing(&self) -> Option<String> {
        let what = if self.in_turn { "our message of the exchange before" } else { "our field" };
        (!self.returned).then(|| format!("rank {}, which has not copied {what} yet", self.peer))
    }
}

impl<D: Device> Borrowed<D> {
    /// Fields.
    pub(super) fn fields(
        peer: usize,
        window: Arc<Window>,
        copies: D::Copies,
        copied: D::Event,
    ) -> Borrowed<D> {
        let windows = [Arc::clone(&window), window];
        Borrowed { peer, windows, copies: vec![copies], copied, late: false, progress: Progress::Done }
    }

    /// Two messages, used in turn, with the copies from each.
    pub(super) fn message(
        peer: usize,
        windows: [Arc<Window>; 2],
        copies: Vec<D::Copies>,
        copied: D::Event,
        late: bool,
    ) -> Borrowed<D> {
        Borrowed { peer, windows, copies, copied, late, progress: Progress::Done }
    }

    pub(super) fn begin(&mut self) {
        self.progress = Progress::Waiting;
    }

    /// Whether the neighbour has not opened the window yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.progress == Progress::Waiting
    }

    /// Blocks until what is being copied has been.
    pub(super) fn wait_for_copies(&self, device: &D) -> Result<(), DeviceError> {
        if self.progress == Progress::Copying { device.host_wait(&self.copied) } else { Ok(()) }
    }

    /// Copies from the window once it is open, unless that is up to `finish`, and gives it back once that is done. Whether
    /// nobody is waited for any more.
    pub(super) fn advance(
        &mut self,
        round: usize,
        device: &D,
        stream: &D::Stream,
        transport: &dyn Transport,
        finishing: bool,
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
            self.copy(round, device, stream)?;
        }
        if self.progress == Progress::Copying && device.query(&self.copied)? {
            self.give_back(round, transport)?;
        }
        Ok(matches!(self.progress, Progress::Ready | Progress::Done))
    }

    /// Copies what was left to `finish`.
    pub(super) fn finish(
        &mut self,
        round: usize,
        device: &D,
        stream: &D::Stream,
        transport: &dyn Transport,
    ) -> Result<(), ExchangeError> {
        if self.progress == Progress::Ready {
            self.copy(round, device, stream)?;
            self.give_back(round, transport)?;
        }
        Ok(())
    }

    /// Will not read it any more.
    pub(super) fn leave(&self, transport: &dyn Transport) {
        self.windows.iter().for_each(|window| window.leave());
        transport.notify(self.peer);
    }

    fn copy(&mut self, round: usize, device: &D, stream: &D::Stream) -> Result<(), ExchangeError> {
        self.progress = Progress::Copying;
        let copies = &self.copies[round % self.copies.len()];
        // SAFETY: the window is open to us, so its owner neither writes what it lent nor frees it until we say that we
        // have read; the targets are halo cells of our own fields, which are in flight, and are touched by `finish`
        // alone where the fields are merely borrowed.
        unsafe { device.run_copies(copies, stream)? };
        device.record(&self.copied, stream)?;
        Ok(())
    }

    fn give_back(&mut self, round: usize, transport: &dyn Transport) -> Result<(), ExchangeError> {
        self.progress = Progress::Done;
        let was_whole = self.windows[round].end_read();
        transport.notify(self.peer);
        if was_whole { Ok(()) } else { Err(TransportError::PeerGaveUp { peer: self.peer }.into()) }
    }

    pub(super) fn missing(&self) -> Option<String> {
        let what = if self.windows[0].lasts() { "message" } else { "field" };
        let missing = matches!(self.progress, Progress::Waiting | Progress::Copying);
        missing.then(|| format!("the {what} of rank {}", self.peer))
    }
}
