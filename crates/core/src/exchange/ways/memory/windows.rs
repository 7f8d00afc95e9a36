//! Windows: memory that ranks lend each other in an exchange. From a window on fields, the neighbour copies straight
//! into its halo; from a window on a message in shared memory, it unpacks.
//!
//! An owner waits for its neighbour to copy from a field only about as long as it takes to pack the cells. Then it packs
//! them into memory kept for that, and has its field back: once a neighbour has started, an exchange needs nothing more
//! from it. On devices that work asynchronously the progress thread of the neighbour copies instead. Where a message in place
//! of the fields is quicker anyway, the owner leaves it at once.

use std::sync::Arc;

use super::lent::{LentWindow, twice};
use crate::device::{Device, DeviceError};
use crate::exchange::options::ExchangeError;
use crate::exchange::work::copy_list::CopyList;
use crate::exchange::work::trace::TransferTrace;
use crate::exchange::work::{HostWay, Lane};
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

    /// Opens all windows to neighbours: the memory is ready to be read.
    pub(crate) fn open(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        self.lent.iter_mut().try_for_each(|lent| lent.open(lane))?;
        // The spans of borrowed windows begin here: before, nothing was waited for.
        self.borrowed.iter_mut().for_each(|borrowed| borrowed.transfer.begin());
        Ok(())
    }

    /// Copies from the windows that neighbours have opened; to borrowed memory only if `finishing`. Returns whether no
    /// neighbour is waited for.
    pub(crate) fn advance(&mut self, lane: &Lane<'_, D>, finishing: bool) -> Result<bool, ExchangeError> {
        let mut complete = true;
        for borrowed in &mut self.borrowed {
            complete &= borrowed.advance(lane, finishing)?;
        }
        for lent in &mut self.lent {
            complete &= lent.returned(lane, finishing)?;
        }
        Ok(complete)
    }

    /// Blocks until the copies from neighbours are done, unless a neighbour has not opened its window yet.
    pub(crate) fn wait_for_copies(&self, device: &D) -> Result<(), DeviceError> {
        if self.borrowed.iter().any(|borrowed| borrowed.reading == Reading::Waiting) {
            return Ok(());
        }
        let mut copying = self.borrowed.iter().filter(|it| matches!(it.reading, Reading::Copying(_)));
        copying.try_for_each(|borrowed| device.host_wait(&borrowed.copied))
    }

    /// Tells neighbours that neither they nor this rank begin to read any more. Those that read go on.
    pub(crate) fn shut(&self, transport: &dyn Transport) {
        let lent = self.lent.iter().map(|lent| (&lent.windows[..], lent.peer));
        let borrowed = self.borrowed.iter().map(|borrowed| (&borrowed.windows[..], borrowed.peer));
        for (windows, peer) in lent.chain(borrowed) {
            windows.iter().for_each(|window| window.shut());
            transport.notify(peer);
        }
    }

    /// Whether a neighbour still reads, so that closing them waits.
    pub(crate) fn are_being_read(&self) -> bool {
        self.lent.iter().flat_map(|lent| &lent.windows).any(|window| window.is_being_read())
    }

    /// Does the copies that are left to `finish`.
    pub(crate) fn finish(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        self.borrowed.iter_mut().try_for_each(|borrowed| borrowed.finish(lane))
    }
}

impl<D: Device> HostWay<D> for Windows<D> {
    fn begin(&mut self) {
        self.lent.iter_mut().for_each(LentWindow::begin);
        self.borrowed.iter_mut().for_each(BorrowedWindow::begin);
    }

    unsafe fn start(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        self.open(lane)
    }

    unsafe fn advance(&mut self, lane: &Lane<'_, D>, finishing: bool) -> Result<bool, ExchangeError> {
        Windows::advance(self, lane, finishing)
    }

    unsafe fn finish(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        Windows::finish(self, lane)
    }

    fn missing(&self) -> Vec<(usize, String)> {
        let borrowed = self.borrowed.iter().filter_map(BorrowedWindow::missing);
        borrowed.chain(self.lent.iter().filter_map(LentWindow::missing)).collect()
    }

    fn fail(&mut self) {
        self.lent.iter_mut().for_each(LentWindow::fail);
        self.borrowed.iter_mut().for_each(|borrowed| borrowed.transfer.fail());
    }

    /// Closes the lent windows and leaves the borrowed ones.
    fn close(&mut self, transport: &dyn Transport) {
        self.borrowed.iter().for_each(|borrowed| borrowed.leave(transport));
        self.lent.iter().for_each(|lent| lent.close(transport));
    }
}

impl<D: Device> BorrowedWindow<D> {
    /// Borrows fields; `message` copies from the message that their owner may leave in their place.
    pub(crate) fn fields(
        peer: usize,
        window: &Arc<Window>,
        (copies, message): (CopyList<D>, Option<CopyList<D>>),
        copied: D::Event,
        transfer: TransferTrace,
    ) -> BorrowedWindow<D> {
        let (windows, copies, reading) = (twice(window), vec![copies], Reading::Done);
        BorrowedWindow { peer, windows, copies, message, copied, only_in_finish: false, reading, transfer }
    }

    /// Borrows two messages, used in turn, with the copies from each. `only_in_finish`: these go to borrowed memory.
    pub(crate) fn message(
        peer: usize,
        windows: [Arc<Window>; 2],
        copies: Vec<CopyList<D>>,
        copied: D::Event,
        only_in_finish: bool,
        transfer: TransferTrace,
    ) -> BorrowedWindow<D> {
        let (message, reading) = (None, Reading::Done);
        BorrowedWindow { peer, windows, copies, message, copied, only_in_finish, reading, transfer }
    }

    pub(crate) fn begin(&mut self) {
        self.reading = Reading::Waiting;
        self.transfer.open();
    }

    /// Copies from the window once it is open, unless that is left to `finish`, and returns the window once the copies
    /// are done. Returns whether the neighbour is no longer waited for.
    pub(crate) fn advance(&mut self, lane: &Lane<'_, D>, finishing: bool) -> Result<bool, ExchangeError> {
        if self.reading == Reading::Waiting {
            match self.windows[lane.round].begin_read() {
                Some(lent) => self.reading = Reading::Ready(lent),
                None if self.windows[lane.round].is_withdrawn() => {
                    return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
                }
                None => return Ok(false),
            }
        }
        if let Reading::Ready(lent) = self.reading
            && (finishing || !self.only_in_finish)
        {
            self.copy(lent, lane)?;
        }
        if let Reading::Copying(lent) = self.reading
            && lane.device.query(&self.copied)?
        {
            self.give_back(lent, lane)?;
        }
        Ok(matches!(self.reading, Reading::Ready(_) | Reading::Done))
    }

    /// Does the copies that are left to `finish`.
    pub(crate) fn finish(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        if let Reading::Ready(lent) = self.reading {
            self.copy(lent, lane)?;
            self.give_back(lent, lane)?;
        }
        Ok(())
    }

    /// Leaves the window for good: this rank no longer reads it.
    pub(crate) fn leave(&self, transport: &dyn Transport) {
        self.windows.iter().for_each(|window| window.leave());
        transport.notify(self.peer);
    }

    fn copy(&mut self, lent: Lent, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        self.reading = Reading::Copying(lent);
        let copies = match lent {
            Lent::Memory => Some(&self.copies[lane.round % self.copies.len()]),
            Lent::Message => self.message.as_ref(),
        };
        // Both ends have bound their copies from the same memory for the message, so there are copies.
        let copies = copies.ok_or(TransportError::PeerGaveUp { peer: self.peer })?;
        // SAFETY: the window is open to us or has a message, so its owner neither writes nor frees what we read until we
        // have returned it; the targets are the cells of our own fields that are filled, which are in flight, and only
        // `finish` touches borrowed fields.
        unsafe { copies.run(lane)? };
        lane.device.record(&self.copied, lane.stream)?;
        Ok(())
    }

    fn give_back(&mut self, lent: Lent, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        self.reading = Reading::Done;
        let was_whole = match lent {
            Lent::Memory => self.windows[lane.round].end_read(),
            Lent::Message => {
                self.windows[lane.round].end_message();
                true
            }
        };
        lane.transport.notify(self.peer);
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
