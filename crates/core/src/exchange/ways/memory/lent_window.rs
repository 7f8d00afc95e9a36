//! Windows that a rank lends: on its fields, or on messages in shared memory.
//!
//! An owner waits for its neighbour to copy from a field only about as long as it takes to pack the cells. Then it packs
//! them into memory kept for that, and has its field back: once a neighbour has started, an exchange needs nothing more
//! from it. On devices that work asynchronously the progress thread of the neighbour copies instead.
//!
//! Messages in shared memory come in pairs, used in turn. An exchange ends when the neighbour has read the message of
//! the exchange before, so that this message is free for the next one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::comm::drive_meanwhile;
use crate::device::{Device, DeviceError};
use crate::exchange::options::ExchangeError;
use crate::exchange::work::copy_list::{CopyList, Lane};
use crate::exchange::work::trace::TransferTrace;
use crate::transport::{Transport, TransportError, Window, WindowState};

/// A window that is lent to a neighbour.
pub(crate) struct LentWindow<D: Device> {
    peer: usize,
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
    stage: ClaimStage,
}

#[derive(Debug, Clone, Copy)]
enum ClaimStage {
    /// The owner does not wait for the neighbour yet.
    Before,
    WaitingSince(Instant),
    Packing,
}

/// The time that an owner waits for a neighbour before it packs even the smallest message: some changes of the thread on
/// a core.
const LEAST_PATIENCE: Duration = Duration::from_micros(20);

/// The bytes that are packed in one nanosecond, roughly.
const PACKED_IN_A_NANOSECOND: u64 = 4;

impl<D: Device> Claim<D> {
    /// `pack` packs the message.
    pub(crate) fn new(pack: CopyList<D>, packed: D::Event) -> Claim<D> {
        let packing = Duration::from_nanos(pack.bytes() as u64 / PACKED_IN_A_NANOSECOND);
        Claim { pack, packed, patience: LEAST_PATIENCE + packing, stage: ClaimStage::Before }
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
        peer: usize,
        window: Arc<Window>,
        claim: Option<Claim<D>>,
        transfer: TransferTrace,
    ) -> LentWindow<D> {
        let windows = [Arc::clone(&window), window];
        LentWindow { peer, windows, in_turn: false, returned: true, claim, transfer }
    }

    /// Lends two messages, used in turn.
    pub(crate) fn message(peer: usize, windows: [Arc<Window>; 2], transfer: TransferTrace) -> LentWindow<D> {
        LentWindow { peer, windows, in_turn: true, returned: true, claim: None, transfer }
    }

    pub(crate) fn begin(&mut self) {
        self.returned = false;
        if let Some(claim) = &mut self.claim {
            claim.stage = ClaimStage::Before;
        }
        self.transfer.open();
    }

    /// Opens the window to the neighbour: the memory is ready to be read.
    pub(crate) fn open(&mut self, round: usize, transport: &dyn Transport) -> Result<(), ExchangeError> {
        self.transfer.begin();
        if !self.windows[round].open() {
            return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
        }
        transport.notify(self.peer);
        if self.in_turn {
            // The message is delivered: this exchange does not wait until it is read.
            self.transfer.end();
        }
        Ok(())
    }

    /// Whether the neighbour has returned the memory that must be free for the next exchange. If the caller waits in
    /// `finish`, takes fields back that it has not begun to copy for long.
    pub(crate) fn returned(
        &mut self,
        lane: &Lane<'_, D>,
        round: usize,
        transport: &dyn Transport,
        finishing: bool,
    ) -> Result<bool, ExchangeError> {
        if self.returned {
            return Ok(true);
        }
        let window = &self.windows[if self.in_turn { 1 - round } else { round }];
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
            transport.notify(self.peer);
        }
        if self.returned {
            self.transfer.end();
        }
        Ok(self.returned)
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
    pub(super) fn fail(&mut self) {
        self.transfer.fail();
    }

    pub(crate) fn missing(&self) -> Option<(usize, String)> {
        let is_message = self.in_turn || self.windows[0].has_message();
        let what = if is_message { "our message of the exchange before" } else { "our field" };
        (!self.returned).then(|| (self.peer, format!("rank {}, which has not copied {what} yet", self.peer)))
    }
}
