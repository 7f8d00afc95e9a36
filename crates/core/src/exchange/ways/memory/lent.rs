//! Windows that a rank lends to its neighbours, and how it takes its fields back from one that does not come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::comm::drive_meanwhile;
use crate::device::{Device, DeviceError};
use crate::exchange::options::ExchangeError;
use crate::exchange::work::Lane;
use crate::exchange::work::copy_list::CopyList;
use crate::exchange::work::trace::TransferTrace;
use crate::transport::{Transport, TransportError, Window, WindowState};

/// The time that an owner waits for a neighbour before it packs even the smallest message: some changes of the thread on
/// a core.
const LEAST_PATIENCE: Duration = Duration::from_micros(20);

/// The looks at a window before the owner begins to measure time: a neighbour that starts at the same time has read the
/// fields by then.
const FIRST_LOOKS: u32 = 6;

/// The bytes that are packed in one nanosecond, roughly.
const PACKED_IN_A_NANOSECOND: u64 = 4;

/// A window that is lent to a neighbour.
pub(crate) struct LentWindow<D: Device> {
    pub(super) peer: usize,
    /// What is lent, in words: the field or the halo.
    what: &'static str,
    /// For even exchanges and for odd ones.
    pub(super) windows: [Arc<Window>; 2],
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
    /// The owner has looked as many times, and does not measure time yet.
    Looking(u32),
    WaitingSince(Instant),
    Packing,
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
            claim.stage = ClaimStage::Looking(0);
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

impl<D: Device> Claim<D> {
    /// `pack` packs the message, `at_once` on a device that works synchronously.
    pub(crate) fn new(pack: CopyList<D>, packed: D::Event, at_once: bool) -> Claim<D> {
        let packing = Duration::from_nanos(pack.bytes as u64 / PACKED_IN_A_NANOSECOND);
        Claim { pack, packed, patience: LEAST_PATIENCE + packing, at_once, stage: ClaimStage::Looking(0) }
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
            ClaimStage::Looking(looks) => {
                self.stage = match looks < FIRST_LOOKS {
                    true => ClaimStage::Looking(looks + 1),
                    false => ClaimStage::WaitingSince(Instant::now()),
                };
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

/// A window on fields, for even exchanges and for odd ones.
pub(crate) fn twice(window: &Arc<Window>) -> [Arc<Window>; 2] {
    [Arc::clone(window), Arc::clone(window)]
}
