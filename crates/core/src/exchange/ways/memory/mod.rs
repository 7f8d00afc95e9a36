//! Cells that go through memory that two ranks share, handed over by their hosts: copied straight from the neighbour's
//! field, or packed by the sender and unpacked by the receiver.
//!
//! Once: `mapping` maps fields of other processes and keeps exported device memory alive, and `bind` binds the copies. Every
//! time: `windows`. Here: the memory that two processes share ([`Segment`]), and a window that this rank lends
//! ([`LentWindow`]).
//!
//! The receiver allocates a segment, the sender maps it. It holds the state of a window on the sender's fields, the message
//! that the sender may leave in their place, and two messages with a window on each. Exchanges use the two messages in
//! turn, so that the sender can pack one while the receiver reads the other: an exchange ends when the neighbour has read
//! the message of the exchange before. For fields in a device's memory it also holds the flag by which the receiver
//! releases them.
//!
//! An owner waits for its neighbour to copy from a field only about as long as it takes to pack the cells. Then it packs
//! them into memory kept for that, and has its field back: once a neighbour has started, an exchange needs nothing more
//! from it. On devices that work asynchronously the progress thread of the neighbour copies instead.

pub(crate) mod bind;
pub(crate) mod mapping;
pub(crate) mod windows;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::comm::drive_meanwhile;
use crate::device::{Device, DeviceError, Pointer};
use crate::exchange::cells::packed::MESSAGE_ALIGNMENT;
use crate::exchange::options::ExchangeError;
use crate::exchange::work::copy_list::{CopyList, Lane};
use crate::exchange::work::trace::TransferTrace;
use crate::transport::{STATE_BYTES, SharedMemory, Transport, TransportError, Window, WindowState};

/// The offset of the messages in bytes: first the one in place of fields, then the two.
const HEAD: usize = 4 * STATE_BYTES;

/// The offset in bytes of the flag by which the receiver releases the sender's fields.
const RELEASE_FLAG: usize = 3 * STATE_BYTES;

/// A segment, mapped by one of the two processes.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    memory: Arc<SharedMemory>,
    /// The room for the message in place of fields, in bytes.
    kept: usize,
}

/// Memory for the message that a sender leaves in place of fields that it takes back.
#[derive(Debug, Clone)]
pub(crate) struct KeptMessage {
    /// The address, and the room in bytes.
    pub(crate) memory: (Pointer, usize),
    pub(crate) _owner: Arc<dyn Any + Send + Sync>,
}

/// One of the two messages in a segment.
#[derive(Debug, Clone)]
pub(crate) struct SharedMessage {
    pub(crate) window: Arc<Window>,
    /// The address, and the room in bytes.
    pub(crate) memory: (Pointer, usize),
}

impl Segment {
    /// The room for a message in place of fields, in bytes. One without bytes, of fields without levels, has some, too: it
    /// tells that they were taken back.
    pub(crate) fn kept_room(message_bytes: usize) -> usize {
        message_bytes.max(1)
    }

    /// Returns the size of a segment for two messages of `message_bytes` each, and one of `kept_bytes` in place of fields.
    pub(crate) fn bytes_for(message_bytes: usize, kept_bytes: usize) -> usize {
        let [message, kept] = [message_bytes, kept_bytes].map(|it| it.next_multiple_of(MESSAGE_ALIGNMENT));
        HEAD + kept + 2 * message
    }

    /// `kept_bytes` are those of the message in place of fields, the same in both processes.
    pub(crate) fn new(memory: SharedMemory, kept_bytes: usize) -> Segment {
        Segment { memory: Arc::new(memory), kept: kept_bytes.next_multiple_of(MESSAGE_ALIGNMENT) }
    }

    /// Returns the window on fields, which are `lent`; `None` if the memory has no room for its state.
    pub(crate) fn window_on_fields(&self, lent: impl Any + Send + Sync) -> Option<Arc<Window>> {
        Window::between_processes(&self.memory, 0, lent).map(Arc::new)
    }

    /// Returns the flag by which the receiver releases fields that it has mapped in a device's memory.
    pub(crate) fn release_flag(&self) -> Option<ReleaseFlag> {
        ReleaseFlag::new(&self.memory, RELEASE_FLAG)
    }

    /// Returns the memory for the message in place of fields; `None` if the segment has none.
    pub(crate) fn kept(&self) -> Option<KeptMessage> {
        let is_there = self.kept > 0 && self.memory.covers(HEAD..HEAD + self.kept);
        is_there.then(|| KeptMessage {
            memory: (self.memory.pointer().offset(HEAD as isize), self.kept),
            _owner: Arc::clone(&self.memory) as _,
        })
    }

    /// Returns the two messages; `None` if the segment has no room for them.
    pub(crate) fn messages(&self) -> Option<[SharedMessage; 2]> {
        let bytes = Some(self.memory.bytes()).filter(|&bytes| self.memory.covers(0..bytes))?;
        let begin = HEAD + self.kept;
        let room = bytes.checked_sub(begin)? / 2 / MESSAGE_ALIGNMENT * MESSAGE_ALIGNMENT;
        let message = |number: usize| {
            let window = Arc::new(Window::on_message(&self.memory, (1 + number) * STATE_BYTES)?);
            let pointer = self.memory.pointer().offset((begin + number * room) as isize);
            Some(SharedMessage { window, memory: (pointer, room) })
        };
        Some([message(0)?, message(1)?])
    }
}

/// The flag by which the reader releases memory: a word of shared memory, 0 until then.
#[derive(Clone)]
pub(crate) struct ReleaseFlag {
    memory: Arc<SharedMemory>,
    /// In bytes.
    offset: usize,
}

impl ReleaseFlag {
    /// Uses the word at `offset` of memory that was all 0; `None` if the offset is misaligned or outside of the memory.
    pub(crate) fn new(memory: &Arc<SharedMemory>, offset: usize) -> Option<ReleaseFlag> {
        let is_there = offset.is_multiple_of(4) && memory.covers(offset..offset.checked_add(4)?);
        is_there.then(|| ReleaseFlag { memory: Arc::clone(memory), offset })
    }

    pub(crate) fn set(&self) {
        self.word().store(1, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.word().load(Ordering::Acquire) != 0
    }

    fn word(&self) -> &AtomicU32 {
        let word = self.memory.pointer().offset(self.offset as isize);
        // SAFETY: the memory is valid, initialised and aligned as long as `self` lives, and both processes access this
        // word only as an atomic.
        unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
    }
}

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
        let packing = Duration::from_nanos(pack.bytes as u64 / PACKED_IN_A_NANOSECOND);
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
    /// Lends fields, which the neighbour must have copied before an exchange ends, unless they are claimed back; or two
    /// messages, used `in_turn`.
    pub(crate) fn new(
        (peer, windows): (usize, [Arc<Window>; 2]),
        in_turn: bool,
        claim: Option<Claim<D>>,
        transfer: TransferTrace,
    ) -> LentWindow<D> {
        LentWindow { peer, windows, in_turn, returned: true, claim, transfer }
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
        if !self.windows[lane.round].open() {
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
        let window = &self.windows[if self.in_turn { 1 - lane.round } else { lane.round }];
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
