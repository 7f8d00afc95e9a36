//! Windows: memory that ranks lend each other in an exchange. From a window on fields, the neighbour copies straight
//! into its halo; from a window on a message in shared memory, it unpacks.
//!
//! An owner waits for its neighbour to copy from a field only about as long as it takes to pack the cells. Then it packs
//! them into memory kept for that, and has its field back: once a neighbour has started, an exchange needs nothing more
//! from it. On devices that work asynchronously the progress thread of the neighbour copies instead. Where a message in place
//! of the fields is quicker anyway, the owner leaves it at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::comm::drive_meanwhile;
use crate::device::{Device, DeviceError};
use crate::exchange::options::ExchangeError;
use crate::exchange::work::copy_list::CopyList;
use crate::exchange::work::trace::TransferTrace;
use crate::exchange::work::{HostWay, Lane};
use crate::transport::{Lent, Transport, TransportError, Window, WindowState};

/// All windows of a part.
pub(crate) struct Windows<D: Device> {
    /// Lent to neighbours.
    pub(crate) lent: Vec<LentWindow<D>>,
    /// Borrowed from neighbours.
    pub(crate) borrowed: Vec<BorrowedWindow<D>>,
}

/// A window that is lent to a neighbour.
pub(crate) struct LentWindow<D: Device> {
    peer: usize,
    /// What is lent, in words: the field or the halo.
    what: &'static str,
    /// For even exchanges and for odd ones.
    windows: [Arc<Window>; 2],
    /// Whether the two are on different messages, so that one may be read while the other is written.
    in_turn: bool,
    returned: bool,
    claim: Option<Claim<D>>,
    transfer: TransferTrace,
}

/// How an owner takes its fields back from a neighbour that has not begun to copy: it packs a message.
pub(crate) struct Claim<D: Device> {
    pack: CopyList<D>,
    packed: D::Event,
    /// The time that the owner waits for the neighbour before.
    patience: Duration,
    /// Whether a message is quicker than the fields. The device works synchronously then.
    at_once: bool,
    stage: ClaimStage,
}

#[derive(Debug, Clone, Copy)]
enum ClaimStage {
    /// The owner does not wait for the neighbour yet.
    Before,
    WaitingSince(Instant),
    Packing,
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

/// The time that an owner waits for a neighbour before it packs even the smallest message: some changes of the thread on
/// a core.
const LEAST_PATIENCE: Duration = Duration::from_micros(20);

/// The bytes that are packed in one nanosecond, roughly.
const PACKED_IN_A_NANOSECOND: u64 = 4;

impl<D: Device> Claim<D> {
    /// `pack` packs the message, `at_once` on a device that works synchronously.
    pub(crate) fn new(pack: CopyList<D>, packed: D::Event, at_once: bool) -> Claim<D> {
        let packing = Duration::from_nanos(pack.bytes as u64 / PACKED_IN_A_NANOSECOND);
        Claim { pack, packed, patience: LEAST_PATIENCE + packing, at_once, stage: ClaimStage::Before }
    }

    /// Leaves the message in `window` in place of the fields, if that is quicker and the neighbour has read the last one.
    /// Returns whether it is there.
    fn leave_at_once(&self, lane: &Lane<'_, D>, window: &Window) -> Result<bool, DeviceError> {
        if !self.at_once || !window.takes_message() {
            return Ok(false);
        }
        // SAFETY: the cells belong to this rank, and nothing else writes them meanwhile; the reader has read the last message.
        unsafe { self.pack.run(lane)? };
        Ok(window.leave_instead())
    }

    /// Called repeatedly while the owner waits. Returns whether the fields are the owner's again, and the message is left
    /// in `window`.
    fn advance(&mut self, lane: &Lane<'_, D>, window: &Window) -> Result<bool, DeviceError> {
        match self.stage {
            ClaimStage::Before => {
                self.stage = ClaimStage::WaitingSince(Instant::now());
                return Ok(false);
            }
            ClaimStage::WaitingSince(begin) => {
                if begin.elapsed() < self.patience || !window.claim() {
                    return Ok(false);
                }
                self.stage = ClaimStage::Packing;
                // SAFETY: the cells belong to this rank, and are not written while the exchange is in flight; the reader
                // has read the message of an exchange before, or the claim would have failed.
                unsafe { self.pack.run(lane)? };
                lane.device.record(&self.packed, lane.stream)?;
            }
            ClaimStage::Packing => {}
        }
        let is_packed = lane.device.query(&self.packed)?;
        if is_packed {
            window.leave_message();
        }
        Ok(is_packed)
    }
}

impl<D: Device> LentWindow<D> {
    /// Lends fields, which the neighbour must have copied before an exchange ends, unless they are claimed back.
    pub(crate) fn fields(
        (peer, what): (usize, &'static str),
        window: &Arc<Window>,
        claim: Option<Claim<D>>,
        transfer: TransferTrace,
    ) -> LentWindow<D> {
        LentWindow { peer, what, windows: twice(window), in_turn: false, returned: true, claim, transfer }
    }

    /// Lends two messages, used in turn.
    pub(crate) fn message(peer: usize, windows: [Arc<Window>; 2], transfer: TransferTrace) -> LentWindow<D> {
        let what = "message";
        LentWindow { peer, what, windows, in_turn: true, returned: true, claim: None, transfer }
    }

    pub(crate) fn begin(&mut self) {
        self.returned = false;
        if let Some(claim) = &mut self.claim {
            claim.stage = ClaimStage::Before;
        }
        self.transfer.open();
    }

    /// Opens the window to the neighbour: the memory is ready to be read.
    pub(crate) fn open(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        self.transfer.begin();
        let window = &self.windows[lane.round];
        if let Some(claim) = &self.claim
            && claim.leave_at_once(lane, window)?
        {
            self.returned = true;
            self.transfer.end();
        } else if !window.open() {
            return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
        }
        lane.transport.notify(self.peer);
        if self.in_turn {
            // The message is delivered: this exchange does not wait until it is read.
            self.transfer.end();
        }
        Ok(())
    }

    /// Whether the neighbour has returned the memory that must be free for the next exchange. If the caller waits in
    /// `finish`, takes fields back that it has not begun to copy for long.
    pub(crate) fn returned(&mut self, lane: &Lane<'_, D>, finishing: bool) -> Result<bool, ExchangeError> {
        if self.returned {
            return Ok(true);
        }
        let window = &self.windows[self.awaited(lane.round)];
        // At the first exchange, the window of the exchange before is idle.
        self.returned = window.reclaim() || self.in_turn && window.state() == WindowState::Idle;
        if !self.returned && window.is_refused() {
            return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
        }
        if !self.returned
            && finishing
            && let Some(claim) = &mut self.claim
            && claim.advance(lane, window)?
        {
            self.returned = true;
            lane.transport.notify(self.peer);
        }
        if self.returned {
            self.transfer.end();
        }
        Ok(self.returned)
    }

    /// The number of the window whose memory must be free for the next exchange.
    fn awaited(&self, round: usize) -> usize {
        if self.in_turn { 1 - round } else { round }
    }

    /// As [`returned`](LentWindow::returned), of memory that a neighbour which has given up need not read.
    pub(crate) fn returned_or_refused(
        &mut self,
        lane: &Lane<'_, D>,
        finishing: bool,
    ) -> Result<bool, ExchangeError> {
        let returned = self.returned(lane, finishing);
        if returned.is_err() && self.windows[self.awaited(lane.round)].is_refused() {
            Ok(true)
        } else {
            returned
        }
    }

    /// Whether the neighbour has read the message of the exchange before, so that the fields can be taken back at any time.
    pub(crate) fn is_level(&mut self, lane: &Lane<'_, D>) -> Result<bool, ExchangeError> {
        let window = &self.windows[lane.round];
        match self.in_turn {
            true => self.returned_or_refused(lane, false),
            false => Ok(self.returned || window.is_refused() || !window.has_message()),
        }
    }

    /// The neighbour, if it has not read the message of the exchange before.
    pub(crate) fn behind(&self) -> Option<(usize, String)> {
        self.missing().filter(|_| self.in_turn || self.windows[0].has_message())
    }

    /// Leaves a message to a neighbour that has not begun to read the fields, if there may be one. The device works
    /// synchronously.
    pub(crate) fn leave_message(&mut self, lane: &Lane<'_, D>) {
        let window = &self.windows[lane.round];
        let Some(claim) = self.claim.as_ref().filter(|_| !self.returned && window.claim()) else { return };
        // SAFETY: the cells belong to this rank, which has claimed them; the reader has read the message of an exchange
        // before, or the claim would have failed.
        if unsafe { claim.pack.run(lane) }.is_ok() {
            window.leave_message();
            self.returned = true;
        }
    }

    /// Closes the window for good: the neighbour can no longer read it.
    pub(crate) fn close(&self, transport: &dyn Transport) {
        // The reading neighbour may be driven by this very thread: other ranks of the process are driven meanwhile.
        for window in &self.windows {
            // A neighbour that still reads sees that the window is closed, and fails.
            let _ = window.close(drive_meanwhile);
        }
        transport.notify(self.peer);
    }

    /// Ends the span of the window in the time line as failed.
    pub(crate) fn fail(&mut self) {
        self.transfer.fail();
    }

    pub(crate) fn missing(&self) -> Option<(usize, String)> {
        let is_message = self.in_turn || self.windows[0].has_message();
        let what = if is_message { "message of the exchange before" } else { self.what };
        (!self.returned)
            .then(|| (self.peer, format!("rank {}, which has not copied our {what} yet", self.peer)))
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

/// A window on fields, for even exchanges and for odd ones.
pub(crate) fn twice(window: &Arc<Window>) -> [Arc<Window>; 2] {
    [Arc::clone(window), Arc::clone(window)]
}
