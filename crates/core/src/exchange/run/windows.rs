//! Memory that ranks lend each other in an exchange: windows on fields, from which a neighbour copies straight into its halo,
//! and on messages, which it unpacks where they lie.
//!
//! Messages in shared memory come in pairs, used in turn: an exchange ends when the neighbour has read the message of the
//! one before, so that the next one finds its message free.

use std::sync::Arc;

use super::copy_list::{CopyList, Lane};
use super::trace::Wire;
use crate::comm::drive_meanwhile;
use crate::device::{Device, DeviceError};
use crate::exchange::options::ExchangeError;
use crate::transport::{Transport, TransportError, Window, WindowState};

/// All windows of a part.
pub(crate) struct Windows<D: Device> {
    /// Lent to neighbours.
    pub(crate) lent: Vec<LentWindow>,
    /// Borrowed from neighbours.
    pub(crate) borrowed: Vec<BorrowedWindow<D>>,
}

/// What is lent to a neighbour.
#[derive(Debug)]
pub(crate) struct LentWindow {
    peer: usize,
    /// For the even exchanges and for the odd ones.
    windows: [Arc<Window>; 2],
    /// Whether the two are on messages, of which one may be read while the other is written.
    in_turn: bool,
    returned: bool,
    wire: Wire,
}

/// What a neighbour lends, and what is copied from it.
pub(crate) struct BorrowedWindow<D: Device> {
    peer: usize,
    windows: [Arc<Window>; 2],
    /// One list, or one for the even exchanges and one for the odd ones.
    copies: Vec<CopyList<D>>,
    copied: D::Event,
    /// Whether it is copied while the caller waits in `finish` alone, as to memory that is merely borrowed.
    late: bool,
    reading: Reading,
    wire: Wire,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The window is the neighbour's still.
    Waiting,
    /// The window is ours; `finish` copies.
    Ready,
    Copying,
    Done,
}

impl<D: Device> Windows<D> {
    pub(crate) fn are_none(&self) -> bool {
        self.lent.is_empty() && self.borrowed.is_empty()
    }

    /// Begins an exchange.
    pub(crate) fn begin(&mut self) {
        self.lent.iter_mut().for_each(LentWindow::begin);
        self.borrowed.iter_mut().for_each(BorrowedWindow::begin);
    }

    /// Lends all windows: what is lent is ready to be read.
    pub(crate) fn open(&mut self, round: usize, transport: &dyn Transport) -> Result<(), ExchangeError> {
        self.lent.iter_mut().try_for_each(|lent| lent.open(round, transport))?;
        // What comes counts from here on: before, nothing was waited for.
        self.borrowed.iter_mut().for_each(|borrowed| borrowed.wire.begin());
        Ok(())
    }

    /// Copies from the windows that neighbours have opened, those to borrowed memory only if `finishing`. Whether no
    /// neighbour is waited for.
    pub(crate) fn advance(
        &mut self,
        lane: &Lane<'_, D>,
        round: usize,
        transport: &dyn Transport,
        finishing: bool,
    ) -> Result<bool, ExchangeError> {
        let mut complete = true;
        for borrowed in &mut self.borrowed {
            complete &= borrowed.advance(lane, round, transport, finishing)?;
        }
        for lent in &mut self.lent {
            complete &= lent.returned(round)?;
        }
        Ok(complete)
    }

    /// Blocks until what is being copied from neighbours has been, unless a neighbour has still to open its window.
    pub(crate) fn wait_for_copies(&self, device: &D) -> Result<(), DeviceError> {
        if self.borrowed.iter().any(|borrowed| borrowed.reading == Reading::Waiting) {
            return Ok(());
        }
        self.borrowed.iter().try_for_each(|borrowed| borrowed.wait_for_copies(device))
    }

    /// Copies what was left to `finish`.
    pub(crate) fn finish(
        &mut self,
        lane: &Lane<'_, D>,
        round: usize,
        transport: &dyn Transport,
    ) -> Result<(), ExchangeError> {
        self.borrowed.iter_mut().try_for_each(|borrowed| borrowed.finish(lane, round, transport))
    }

    /// All lists of copies.
    pub(crate) fn lists_mut(&mut self) -> impl Iterator<Item = &mut CopyList<D>> {
        self.borrowed.iter_mut().flat_map(|borrowed| &mut borrowed.copies)
    }

    /// The neighbours that are still waited for, in words.
    pub(crate) fn missing(&self) -> impl Iterator<Item = String> {
        let borrowed = self.borrowed.iter().filter_map(BorrowedWindow::missing);
        borrowed.chain(self.lent.iter().filter_map(LentWindow::missing))
    }

    /// Tells the time line that what is under way has failed.
    pub(crate) fn fail(&mut self) {
        self.lent.iter_mut().for_each(|lent| lent.wire.fail());
        self.borrowed.iter_mut().for_each(|borrowed| borrowed.wire.fail());
    }

    /// Takes the windows away from neighbours, and reads theirs no more, for ever.
    pub(crate) fn close(&self, transport: &dyn Transport) {
        self.borrowed.iter().for_each(|borrowed| borrowed.leave(transport));
        self.lent.iter().for_each(|lent| lent.close(transport));
    }
}

impl LentWindow {
    /// Fields, which the neighbour must have copied before an exchange ends.
    pub(crate) fn fields(peer: usize, window: Arc<Window>, wire: Wire) -> LentWindow {
        LentWindow { peer, windows: [Arc::clone(&window), window], in_turn: false, returned: true, wire }
    }

    /// Two messages, used in turn.
    pub(crate) fn message(peer: usize, windows: [Arc<Window>; 2], wire: Wire) -> LentWindow {
        LentWindow { peer, windows, in_turn: true, returned: true, wire }
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
            self.returned = window.reclaim() || self.in_turn && window.state() == WindowState::Idle;
            if self.returned {
                self.wire.end();
            } else if window.is_refused() {
                return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
            }
        }
        Ok(self.returned)
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

impl<D: Device> BorrowedWindow<D> {
    /// Fields.
    pub(crate) fn fields(
        peer: usize,
        window: Arc<Window>,
        copies: CopyList<D>,
        copied: D::Event,
        wire: Wire,
    ) -> BorrowedWindow<D> {
        let windows = [Arc::clone(&window), window];
        BorrowedWindow {
            peer,
            windows,
            copies: vec![copies],
            copied,
            late: false,
            reading: Reading::Done,
            wire,
        }
    }

    /// Two messages, used in turn, with the copies from each.
    pub(crate) fn message(
        peer: usize,
        windows: [Arc<Window>; 2],
        copies: Vec<CopyList<D>>,
        copied: D::Event,
        late: bool,
        wire: Wire,
    ) -> BorrowedWindow<D> {
        BorrowedWindow { peer, windows, copies, copied, late, reading: Reading::Done, wire }
    }

    pub(crate) fn begin(&mut self) {
        self.reading = Reading::Waiting;
        self.wire.open();
    }

    /// Blocks until what is being copied has been.
    fn wait_for_copies(&self, device: &D) -> Result<(), DeviceError> {
        if self.reading == Reading::Copying { device.host_wait(&self.copied) } else { Ok(()) }
    }

    /// Copies from the window once it is open, unless that is up to `finish`, and gives it back once that is done. Whether
    /// nobody is waited for any more.
    pub(crate) fn advance(
        &mut self,
        lane: &Lane<'_, D>,
        round: usize,
        transport: &dyn Transport,
        finishing: bool,
    ) -> Result<bool, ExchangeError> {
        if self.reading == Reading::Waiting {
            if !self.windows[round].begin_read() {
                if self.windows[round].is_withdrawn() {
                    return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
                }
                return Ok(false);
            }
            self.reading = Reading::Ready;
        }
        if self.reading == Reading::Ready && (finishing || !self.late) {
            self.copy(lane, round)?;
        }
        if self.reading == Reading::Copying && lane.device.query(&self.copied)? {
            self.give_back(round, transport)?;
        }
        Ok(matches!(self.reading, Reading::Ready | Reading::Done))
    }

    /// Copies what was left to `finish`.
    pub(crate) fn finish(
        &mut self,
        lane: &Lane<'_, D>,
        round: usize,
        transport: &dyn Transport,
    ) -> Result<(), ExchangeError> {
        if self.reading == Reading::Ready {
            self.copy(lane, round)?;
            self.give_back(round, transport)?;
        }
        Ok(())
    }

    /// Will not read it any more.
    pub(crate) fn leave(&self, transport: &dyn Transport) {
        self.windows.iter().for_each(|window| window.leave());
        transport.notify(self.peer);
    }

    fn copy(&mut self, lane: &Lane<'_, D>, round: usize) -> Result<(), ExchangeError> {
        self.reading = Reading::Copying;
        let copies = &self.copies[round % self.copies.len()];
        // SAFETY: the window is open to us, so its owner neither writes what it lent nor frees it until we say that we
        // have read; the targets are halo cells of our own fields, which are in flight, and are touched by `finish`
        // alone where the fields are merely borrowed.
        unsafe { copies.run(lane)? };
        lane.device.record(&self.copied, lane.stream)?;
        Ok(())
    }

    fn give_back(&mut self, round: usize, transport: &dyn Transport) -> Result<(), ExchangeError> {
        self.reading = Reading::Done;
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
        let missing = matches!(self.reading, Reading::Waiting | Reading::Copying);
        missing.then(|| format!("the {what} of rank {}", self.peer))
    }
}
