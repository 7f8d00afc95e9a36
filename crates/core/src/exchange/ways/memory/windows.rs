//! Windows: memory that ranks lend each other in an exchange. From a window on fields, the neighbour copies straight
//! into its halo; from a window on a message in shared memory, it unpacks.

use std::sync::Arc;

use super::LentWindow;
use crate::device::{Device, DeviceError};
use crate::exchange::options::ExchangeError;
use crate::exchange::work::HostWay;
use crate::exchange::work::copy_list::{CopyList, Lane};
use crate::exchange::work::trace::TransferTrace;
use crate::transport::{Lent, Transport, TransportError, Window};

/// All windows of a part.
pub(crate) struct Windows<D: Device> {
    /// Lent to neighbours.
    pub(crate) lent: Vec<LentWindow<D>>,
    /// Borrowed from neighbours.
    pub(crate) borrowed: Vec<BorrowedWindow<D>>,
}

/// A window that a neighbour lends, and the copies from it.
pub(crate) struct BorrowedWindow<D: Device> {
    peer: usize,
    windows: [Arc<Window>; 2],
    /// One list, or one for even exchanges and one for odd ones.
    copies: Vec<CopyList<D>>,
    /// The copies from the message that the owner may leave in place of its fields; `None` if it leaves none.
    message: Option<CopyList<D>>,
    copied: D::Event,
    /// Whether only `finish` may copy, since the copies go to borrowed memory.
    only_in_finish: bool,
    reading: Reading,
    transfer: TransferTrace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The neighbour has not opened the window yet.
    Waiting,
    /// The window can be read; `finish` copies.
    Ready(Lent),
    Copying(Lent),
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

    /// Opens all windows to neighbours: the memory is ready to be read.
    pub(crate) fn open(&mut self, round: usize, transport: &dyn Transport) -> Result<(), ExchangeError> {
        self.lent.iter_mut().try_for_each(|lent| lent.open(round, transport))?;
        // The spans of borrowed windows begin here: before, nothing was waited for.
        self.borrowed.iter_mut().for_each(|borrowed| borrowed.transfer.begin());
        Ok(())
    }

    /// Copies from the windows that neighbours have opened; to borrowed memory only if `finishing`. Returns whether no
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
            complete &= lent.returned(lane, round, transport, finishing)?;
        }
        Ok(complete)
    }

    /// Blocks until the copies from neighbours are done, unless a neighbour has not opened its window yet.
    pub(crate) fn wait_for_copies(&self, device: &D) -> Result<(), DeviceError> {
        if self.borrowed.iter().any(|borrowed| borrowed.reading == Reading::Waiting) {
            return Ok(());
        }
        self.borrowed.iter().try_for_each(|borrowed| borrowed.wait_for_copies(device))
    }

    /// Does the copies that are left to `finish`.
    pub(crate) fn finish(
        &mut self,
        lane: &Lane<'_, D>,
        round: usize,
        transport: &dyn Transport,
    ) -> Result<(), ExchangeError> {
        self.borrowed.iter_mut().try_for_each(|borrowed| borrowed.finish(lane, round, transport))
    }

    /// The neighbours that are waited for, each also in words.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (usize, String)> {
        let borrowed = self.borrowed.iter().filter_map(BorrowedWindow::missing);
        borrowed.chain(self.lent.iter().filter_map(LentWindow::missing))
    }

    /// Ends the spans of windows under way in the time line as failed.
    pub(crate) fn fail(&mut self) {
        self.lent.iter_mut().for_each(LentWindow::fail);
        self.borrowed.iter_mut().for_each(|borrowed| borrowed.transfer.fail());
    }

    /// Closes the lent windows and leaves the borrowed ones, for good.
    pub(crate) fn close(&self, transport: &dyn Transport) {
        self.borrowed.iter().for_each(|borrowed| borrowed.leave(transport));
        self.lent.iter().for_each(|lent| lent.close(transport));
    }
}

impl<D: Device> HostWay<D> for Windows<D> {
    fn begin(&mut self) {
        Windows::begin(self);
    }

    unsafe fn start(
        &mut self,
        _lane: &Lane<'_, D>,
        round: usize,
        transport: &dyn Transport,
    ) -> Result<(), ExchangeError> {
        self.open(round, transport)
    }

    unsafe fn advance(
        &mut self,
        lane: &Lane<'_, D>,
        round: usize,
        transport: &dyn Transport,
        finishing: bool,
    ) -> Result<bool, ExchangeError> {
        Windows::advance(self, lane, round, transport, finishing)
    }

    unsafe fn finish(
        &mut self,
        lane: &Lane<'_, D>,
        round: usize,
        transport: &dyn Transport,
    ) -> Result<(), ExchangeError> {
        Windows::finish(self, lane, round, transport)
    }

    fn missing(&self) -> Vec<(usize, String)> {
        Windows::missing(self).collect()
    }

    fn fail(&mut self) {
        Windows::fail(self);
    }

    fn close(&mut self, transport: &dyn Transport) {
        Windows::close(self, transport);
    }
}

impl<D: Device> BorrowedWindow<D> {
    /// Borrows fields; `message` copies from the message that their owner may leave in their place.
    pub(crate) fn fields(
        peer: usize,
        window: Arc<Window>,
        (copies, message): (CopyList<D>, Option<CopyList<D>>),
        copied: D::Event,
        transfer: TransferTrace,
    ) -> BorrowedWindow<D> {
        let windows = [Arc::clone(&window), window];
        BorrowedWindow {
            peer,
            windows,
            copies: vec![copies],
            message,
            copied,
            only_in_finish: false,
            reading: Reading::Done,
            transfer,
        }
    }

    /// Borrows two messages, used in turn, with the copies from each.
    pub(crate) fn message(
        peer: usize,
        windows: [Arc<Window>; 2],
        copies: Vec<CopyList<D>>,
        copied: D::Event,
        only_in_finish: bool,
        transfer: TransferTrace,
    ) -> BorrowedWindow<D> {
        BorrowedWindow {
            peer,
            windows,
            copies,
            message: None,
            copied,
            only_in_finish,
            reading: Reading::Done,
            transfer,
        }
    }

    pub(crate) fn begin(&mut self) {
        self.reading = Reading::Waiting;
        self.transfer.open();
    }

    /// Blocks until the copies are done, if they have begun.
    fn wait_for_copies(&self, device: &D) -> Result<(), DeviceError> {
        if matches!(self.reading, Reading::Copying(_)) { device.host_wait(&self.copied) } else { Ok(()) }
    }

    /// Copies from the window once it is open, unless that is left to `finish`, and returns the window once the copies
    /// are done. Returns whether the neighbour is no longer waited for.
    pub(crate) fn advance(
        &mut self,
        lane: &Lane<'_, D>,
        round: usize,
        transport: &dyn Transport,
        finishing: bool,
    ) -> Result<bool, ExchangeError> {
        if self.reading == Reading::Waiting {
            match self.windows[round].begin_read() {
                Some(lent) => self.reading = Reading::Ready(lent),
                None if self.windows[round].is_withdrawn() => {
                    return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
                }
                None => return Ok(false),
            }
        }
        if let Reading::Ready(lent) = self.reading
            && (finishing || !self.only_in_finish)
        {
            self.copy(lent, lane, round)?;
        }
        if let Reading::Copying(lent) = self.reading
            && lane.device.query(&self.copied)?
        {
            self.give_back(lent, round, transport)?;
        }
        Ok(matches!(self.reading, Reading::Ready(_) | Reading::Done))
    }

    /// Does the copies that are left to `finish`.
    pub(crate) fn finish(
        &mut self,
        lane: &Lane<'_, D>,
        round: usize,
        transport: &dyn Transport,
    ) -> Result<(), ExchangeError> {
        if let Reading::Ready(lent) = self.reading {
            self.copy(lent, lane, round)?;
            self.give_back(lent, round, transport)?;
        }
        Ok(())
    }

    /// Leaves the window for good: this rank no longer reads it.
    pub(crate) fn leave(&self, transport: &dyn Transport) {
        self.windows.iter().for_each(|window| window.leave());
        transport.notify(self.peer);
    }

    fn copy(&mut self, lent: Lent, lane: &Lane<'_, D>, round: usize) -> Result<(), ExchangeError> {
        self.reading = Reading::Copying(lent);
        let copies = match lent {
            Lent::Memory => Some(&self.copies[round % self.copies.len()]),
            Lent::Message => self.message.as_ref(),
        };
        // Both ends have bound their copies from the same memory for the message, so there are copies.
        let copies = copies.ok_or(TransportError::PeerGaveUp { peer: self.peer })?;
        // SAFETY: the window is open to us or has a message, so its owner neither writes nor frees what we read until we
        // have returned it; the targets are halo cells of our own fields, which are in flight, and only `finish` touches
        // borrowed fields.
        unsafe { copies.run(lane)? };
        lane.device.record(&self.copied, lane.stream)?;
        Ok(())
    }

    fn give_back(
        &mut self,
        lent: Lent,
        round: usize,
        transport: &dyn Transport,
    ) -> Result<(), ExchangeError> {
        self.reading = Reading::Done;
        let was_whole = match lent {
            Lent::Memory => self.windows[round].end_read(),
            Lent::Message => {
                self.windows[round].end_message();
                true
            }
        };
        transport.notify(self.peer);
        if !was_whole {
            return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
        }
        self.transfer.end();
        Ok(())
    }

    pub(crate) fn missing(&self) -> Option<(usize, String)> {
        let what = if self.windows[0].lasts() { "message" } else { "field" };
        let missing = matches!(self.reading, Reading::Waiting | Reading::Copying(_));
        missing.then(|| (self.peer, format!("the {what} of rank {}", self.peer)))
    }
}
