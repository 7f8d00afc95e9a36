//! Memory lent to a neighbour: fields, which a thread of the same process copies from straight into its halos, or a
//! message in memory that two processes share.

use std::any::Any;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crossbeam_utils::CachePadded;

use super::SharedMemory;
use crate::device::{DeviceId, Pointer};
use crate::field::BlockLayout;

/// What a rank lends to one neighbour for one bound exchange.
///
/// The state goes round in a circle, once for each exchange:
///
/// ```text
///   Idle ── owner: open ──▶ Open ── reader: begin_read ──▶ Reading ── reader: end_read ──▶ Done
///    ▲                                                                                       │
///    └──────────────────────────────── owner: settle ────────────────────────────────────────┘
/// ```
///
/// Either end can close the window at any time, for ever: then it can no longer be opened, and an open one can no
/// longer be read. The owner does not touch what it lent from `open` until it has settled or closed the window, and
/// the reader reads only between `begin_read` and `end_read`. A window being read is left again after one copy, so
/// the owner can always get its memory back, whatever the neighbour does.
///
/// The state of a window on shared memory lies in that memory, and each process has a window of its own on it.
#[derive(Debug)]
pub struct Window {
    state: Word,
    regions: Vec<WindowRegion>,
    /// Owns the memory of the regions.
    _keep: Vec<Arc<dyn Any + Send + Sync>>,
}

/// Where the state is.
#[derive(Debug)]
enum Word {
    Own(CachePadded<AtomicU32>),
    /// At the begin of this memory, which has at least [`STATE_BYTES`].
    Shared(SharedMemory),
}

/// One block of one field within a window.
#[derive(Debug, Clone)]
pub struct WindowRegion {
    /// The number of the field within its exchange.
    pub field: usize,
    /// The number of the domain within its rank.
    pub domain: usize,
    /// The device whose memory it is.
    pub device: DeviceId,
    /// The address of the block's first element.
    pub pointer: Pointer,
    /// How the block lies in memory.
    pub layout: BlockLayout,
}

/// The states of a [`Window`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowState {
    /// Nothing is lent.
    Idle,
    /// The neighbour may read.
    Open,
    /// The neighbour reads.
    Reading,
    /// The neighbour has read.
    Done,
}

/// What the state takes of shared memory: cache lines of its own.
pub(crate) const STATE_BYTES: usize = 128;

/// Set beside the state once the window is closed.
const CLOSED: u32 = 1 << 8;

impl WindowState {
    fn of(value: u32) -> WindowState {
        match value & !CLOSED {
            0 => WindowState::Idle,
            1 => WindowState::Open,
            2 => WindowState::Reading,
            _ => WindowState::Done,
        }
    }
}

impl Window {
    /// A window on `regions`, whose memory lives as long as `keep`.
    pub(crate) fn new(regions: Vec<WindowRegion>, keep: Vec<Arc<dyn Any + Send + Sync>>) -> Window {
        let state = CachePadded::new(AtomicU32::new(WindowState::Idle as u32));
        Window { state: Word::Own(state), regions, _keep: keep }
    }

    /// A window on a message in shared memory, which begins after the first [`STATE_BYTES`] of it and all of which was 0
    /// at first; `None` where there is not even that much.
    pub(crate) fn on_message(memory: SharedMemory) -> Option<Window> {
        (memory.bytes() >= STATE_BYTES).then(|| Window {
            state: Word::Shared(memory),
            regions: Vec::new(),
            _keep: Vec::new(),
        })
    }

    /// The message in shared memory: its address here, and the most bytes that it can have.
    pub(crate) fn message(&self) -> Option<(Pointer, usize)> {
        match &self.state {
            Word::Own(_) => None,
            Word::Shared(memory) => {
                Some((memory.pointer().offset(STATE_BYTES as isize), memory.bytes() - STATE_BYTES))
            }
        }
    }

    /// What is lent.
    pub fn regions(&self) -> &[WindowRegion] {
        &self.regions
    }

    /// The present state.
    pub(crate) fn state(&self) -> WindowState {
        WindowState::of(self.word().load(Ordering::Acquire))
    }

    /// Whether either end has closed it.
    pub(crate) fn is_closed(&self) -> bool {
        self.word().load(Ordering::Acquire) & CLOSED != 0
    }

    /// Owner: whether the window was closed before the neighbour has read.
    pub(crate) fn is_refused(&self) -> bool {
        // One load: the neighbour may read and leave between two.
        let now = self.word().load(Ordering::Acquire);
        now & CLOSED != 0 && matches!(WindowState::of(now), WindowState::Idle | WindowState::Open)
    }

    /// Owner: lends the memory. `false` if the window is closed.
    pub(crate) fn open(&self) -> bool {
        self.change(WindowState::Idle as u32, WindowState::Open as u32)
    }

    /// Reader: begins to read. `false` if the window is not open, or closed.
    pub(crate) fn begin_read(&self) -> bool {
        self.change(WindowState::Open as u32, WindowState::Reading as u32)
    }

    /// Reader: has read.
    pub(crate) fn end_read(&self) {
        let _ = self.change_either(WindowState::Reading, WindowState::Done);
    }

    /// Owner: takes note that the neighbour has read. `false` if it has not.
    pub(crate) fn settle(&self) -> bool {
        self.change_either(WindowState::Done, WindowState::Idle)
    }

    /// Owner: closes the window for ever, and returns when nobody reads the fields any more, which may take as long as one
    /// copy. A message in shared memory is not written again, so nobody waits for another process.
    pub(crate) fn close(&self) {
        self.word().fetch_or(CLOSED, Ordering::AcqRel);
        if matches!(self.state, Word::Shared(_)) {
            return;
        }
        let mut rounds = 0u32;
        while self.state() == WindowState::Reading {
            rounds += 1;
            if rounds < 100 { hint::spin_loop() } else { thread::yield_now() }
        }
    }

    /// Reader: closes the window for ever; a read that it has begun it will not go on with.
    pub(crate) fn leave(&self) {
        self.word().fetch_or(CLOSED, Ordering::AcqRel);
        let _ = self.change_either(WindowState::Reading, WindowState::Idle);
    }

    fn word(&self) -> &AtomicU32 {
        match &self.state {
            Word::Own(word) => word,
            // SAFETY: the memory is valid, initialised, aligned and long enough as long as `self` lives, and its first
            // word is accessed as an atomic alone, here and in the other process.
            Word::Shared(memory) => unsafe { AtomicU32::from_ptr(memory.pointer().as_ptr().cast()) },
        }
    }

    fn change(&self, from: u32, to: u32) -> bool {
        // Release: the other end sees all that was done before. Acquire: we see all that it did before.
        self.word().compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Changes the state whether the window is closed or not.
    fn change_either(&self, from: WindowState, to: WindowState) -> bool {
        let (from, to) = (from as u32, to as u32);
        // The bit is never taken away, so it can change at most once between the two tries.
        self.change(from, to) || self.change(from | CLOSED, to | CLOSED)
    }
}
