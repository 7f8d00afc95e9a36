//! Memory lent to a neighbour: fields, from which the neighbour copies or into whose halos it writes, or a message in
//! memory that two processes share. `sync` has the atomics and the waiting, and `model` checks both ends in every order
//! by loom.

#[cfg(loom)]
mod model;
mod sync;

use std::any::Any;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use self::sync::{AtomicU32, Ordering, Wait, word_at};
use super::SharedMemory;

/// Memory that a rank lends to one neighbour for one bound exchange. Transports pass windows on and do not use them.
///
/// Each exchange goes through the states once:
///
/// ```text
///   Idle ── owner: open ──▶ Open ── reader: begin_read ──▶ Reading ── reader: end_read ──▶ Done
///    ▲                                                                                       │
///    └──────────────────────────────── owner: reclaim ────────────────────────────────────────┘
/// ```
///
/// Either end can close the window at any time, permanently: a closed window cannot be opened, and if it is open it
/// cannot be read. The owner does not touch the lent memory from `open` until it has reclaimed or closed the window,
/// and the reader reads only between `begin_read` and `end_read`. A read takes one copy, so the owner always gets its
/// memory back, whatever the neighbour does. The neighbour may be a process that has ended: then the owner waits only
/// briefly, and sets a bit in the state.
///
/// If streams hand the memory over by a word of their own, the state only tells whether the neighbour, here the reader,
/// may be using the memory, for reading or for writing. The owner does not open such a window: the reader begins its use
/// while the window is idle, and ends it there. A use that is abandoned ends in the state `Done`.
///
/// An owner that waits long for the reader can take its field back with `claim`, and leave a message with
/// the same cells in its place:
///
/// ```text
///   Open ── owner: claim ──▶ Claimed ── owner: leave_message ──▶ Idle, with a message ── reader: end_message ──▶ Idle
/// ```
///
/// Or it leaves the message at once, with `leave_instead`, and lends nothing.
///
/// The message is a bit beside the state: the owner may open the window for the next exchange while the reader has not
/// read the message of the one before, which it then reads first. Until it has, the owner can claim nothing, and writes no
/// other message. The reader can read a message after the window is closed.
///
/// A window on a message lasts: after closing the window its owner no longer writes the message, so an open window can
/// still be read.
///
/// Between processes, the state lies in memory that both have mapped, and each process has its own window on it.
#[derive(Debug)]
pub struct Window {
    state: StateWord,
    /// Describes and owns the lent memory; its type is known to the exchange alone.
    lent: Box<dyn Any + Send + Sync>,
    /// Whether the lent memory stays unchanged after the window is closed.
    lasts: bool,
}

/// The place of the state in memory.
#[derive(Debug)]
enum StateWord {
    Own(CachePadded<AtomicU32>),
    /// Shared memory, and the offset in it in bytes: a multiple of [`STATE_BYTES`], with as many bytes after it.
    Shared(Arc<SharedMemory>, usize),
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
    /// The owner has the memory back, and writes a message.
    Claimed,
}

/// The source of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lent {
    /// The memory of the window.
    Memory,
    /// The message that the owner has left in its place.
    Message,
}

/// The bytes of a state in shared memory: cache lines of its own.
pub(crate) const STATE_BYTES: usize = 128;

/// The bit of a closed window, beside the state.
const CLOSED: u32 = 1 << 8;

/// The bit of a window that its owner closed while the neighbour was still reading, beside [`CLOSED`].
const TORN: u32 = 1 << 9;

/// The bit of a message that the owner has left in place of its field, and the neighbour has not read.
const MESSAGE: u32 = 1 << 10;

impl WindowState {
    fn of(value: u32) -> WindowState {
        match value & !(CLOSED | TORN | MESSAGE) {
            0 => WindowState::Idle,
            1 => WindowState::Open,
            2 => WindowState::Reading,
            3 => WindowState::Done,
            _ => WindowState::Claimed,
        }
    }
}

impl Window {
    /// Makes a window on the memory that `lent` describes and owns.
    pub(crate) fn new(lent: impl Any + Send + Sync) -> Window {
        let state = CachePadded::new(AtomicU32::new(WindowState::Idle as u32));
        Window { state: StateWord::Own(state), lent: Box::new(lent), lasts: false }
    }

    /// As [`new`](Window::new), but between processes: the state lies `at` bytes after the beginning of shared memory,
    /// which was all 0 at first. `None` if those bytes are not shared.
    pub(crate) fn between_processes(
        memory: &Arc<SharedMemory>,
        at: usize,
        lent: impl Any + Send + Sync,
    ) -> Option<Window> {
        let fits = at.is_multiple_of(STATE_BYTES) && memory.covers(at..at.checked_add(STATE_BYTES)?);
        fits.then(|| Window {
            state: StateWord::Shared(Arc::clone(memory), at),
            lent: Box::new(lent),
            lasts: false,
        })
    }

    /// Makes a window between processes on a message in the same shared memory.
    pub(crate) fn on_message(memory: &Arc<SharedMemory>, at: usize) -> Option<Window> {
        let window = Window::between_processes(memory, at, ())?;
        Some(Window { lasts: true, ..window })
    }

    /// The description of the lent memory; `None` if it is not a `T`.
    pub(crate) fn lent<T: Any>(&self) -> Option<&T> {
        self.lent.downcast_ref()
    }

    /// Whether the lent memory stays unchanged after the window is closed.
    pub(crate) fn lasts(&self) -> bool {
        self.lasts
    }

    /// The current state.
    pub(crate) fn state(&self) -> WindowState {
        WindowState::of(self.word().load(Ordering::Acquire))
    }

    /// Owner: whether [`close`](Window::close) would wait for the reader.
    pub(crate) fn is_being_read(&self) -> bool {
        !self.lasts && self.state() == WindowState::Reading
    }

    /// Reader: whether nothing can be read any more. After a `begin_read` that was too early, the owner may have sent a
    /// message and closed its window.
    pub(crate) fn is_withdrawn(&self) -> bool {
        let now = self.word().load(Ordering::Acquire);
        now & CLOSED != 0 && now & MESSAGE == 0 && !(self.lasts && WindowState::of(now) == WindowState::Open)
    }

    /// Owner: whether the window was closed before the neighbour read.
    pub(crate) fn is_refused(&self) -> bool {
        // One load: between two, the neighbour may read and leave.
        let now = self.word().load(Ordering::Acquire);
        now & CLOSED != 0 && matches!(WindowState::of(now), WindowState::Idle | WindowState::Open)
    }

    /// Whether one end has closed the window.
    pub(crate) fn is_closed(&self) -> bool {
        self.word().load(Ordering::Acquire) & CLOSED != 0
    }

    /// Owner: lends the memory. Returns `false` if the window is closed.
    pub(crate) fn open(&self) -> bool {
        let (idle, open) = (WindowState::Idle as u32, WindowState::Open as u32);
        // The reader may read the message between two attempts. Only this end, the owner, could leave another message.
        self.change(idle, open) || self.change(idle | MESSAGE, open | MESSAGE) || self.change(idle, open)
    }

    /// Owner: takes the lent memory back, unless the reader reads it, has read it, or has not read the message of the
    /// exchange before. Returns `false` then, and if the window is closed.
    pub(crate) fn claim(&self) -> bool {
        self.change(WindowState::Open as u32, WindowState::Claimed as u32)
    }

    /// Owner: leaves a message in place of the memory that it has claimed.
    pub(crate) fn leave_message(&self) {
        // Flips the bits of both states in one step, beside which the other end may close the window.
        let both = WindowState::Claimed as u32 ^ (WindowState::Idle as u32 | MESSAGE);
        let before = self.word().fetch_xor(both, Ordering::AcqRel);
        debug_assert_eq!(WindowState::of(before), WindowState::Claimed, "claimed before");
    }

    /// Owner, between two exchanges: whether the reader has read the last message, and the window is not closed. If so, the
    /// owner may write a message.
    pub(crate) fn takes_message(&self) -> bool {
        self.word().load(Ordering::Acquire) == WindowState::Idle as u32
    }

    /// Owner, if the window [takes a message](Window::takes_message): leaves one in place of memory, which it does not lend.
    /// Returns `false` if the window is closed.
    pub(crate) fn leave_instead(&self) -> bool {
        let idle = WindowState::Idle as u32;
        self.change(idle, idle | MESSAGE)
    }

    /// Whether the reader has not read a message that the owner has left.
    pub(crate) fn has_message(&self) -> bool {
        self.word().load(Ordering::Acquire) & MESSAGE != 0
    }

    /// Reader: whether `begin_read` would return something, unless the owner takes the memory back before.
    pub(crate) fn is_readable(&self) -> bool {
        let now = self.word().load(Ordering::Acquire);
        let may_be_read = self.lasts || now & CLOSED == 0;
        now & MESSAGE != 0 || may_be_read && WindowState::of(now) == WindowState::Open
    }

    /// Reader: begins to read the memory or the message. `None` if the window is neither open nor has a message, or
    /// if it is closed, does not last and has no message.
    pub(crate) fn begin_read(&self) -> Option<Lent> {
        let (open, reading) = (WindowState::Open, WindowState::Reading);
        if self.lasts {
            return self.change_either(open, reading).then_some(Lent::Memory);
        }
        let word = self.word();
        match word.compare_exchange(open as u32, reading as u32, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(Lent::Memory),
            Err(now) => (now & MESSAGE != 0).then_some(Lent::Message),
        }
    }

    /// Reader: ends reading a message.
    pub(crate) fn end_message(&self) {
        self.word().fetch_and(!MESSAGE, Ordering::AcqRel);
    }

    /// Reader: ends reading the memory. Returns `false` if the owner did not wait for it: the copied bytes may then be anything.
    #[must_use]
    pub(crate) fn end_read(&self) -> bool {
        self.change_either(WindowState::Reading, WindowState::Done)
    }

    /// Owner: takes the memory back if the neighbour has read it. Returns `false` if it has not.
    pub(crate) fn reclaim(&self) -> bool {
        self.change_either(WindowState::Done, WindowState::Idle)
    }

    /// Reader in streams: begins to use the memory. Returns `false` if the window is closed.
    pub(crate) fn begin_use(&self) -> bool {
        self.change(WindowState::Idle as u32, WindowState::Reading as u32)
    }

    /// Reader in streams: ends its use. Returns `false` if no use has begun, or the owner did not wait for it.
    pub(crate) fn end_use(&self) -> bool {
        self.change_either(WindowState::Reading, WindowState::Idle)
    }

    /// Reader in streams: ends a use of a closed window before the use is complete. Returns `false` if no use has
    /// begun.
    pub(crate) fn abandon_use(&self) -> bool {
        self.change_either(WindowState::Reading, WindowState::Done)
    }

    /// Owner, while the reader's use may have ended: whether the reader has closed the window during its use. If so,
    /// the reader may not have read or written all of the memory.
    pub(crate) fn is_use_abandoned(&self) -> bool {
        // One load: between two, the reader may end its use and close the window.
        let now = self.word().load(Ordering::Acquire);
        now & CLOSED != 0 && WindowState::of(now) != WindowState::Idle
    }

    /// Either end: closes the window permanently. The reader may still read.
    pub(crate) fn shut(&self) {
        self.word().fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Owner: closes the window permanently, and returns when the neighbour no longer reads, which may take as long as
    /// one copy. Calls `meanwhile` repeatedly until then. Returns `false` if a neighbour in another process takes so long
    /// that the owner has stopped waiting for it.
    pub(crate) fn close(&self, meanwhile: impl Fn()) -> bool {
        let before = self.word().fetch_or(CLOSED, Ordering::AcqRel);
        if self.lasts || before & TORN != 0 {
            return self.lasts;
        }
        let between_processes = matches!(self.state, StateWord::Shared(..));
        let mut wait = Wait::begin();
        while self.state() == WindowState::Reading {
            wait.pause();
            meanwhile();
            if between_processes && wait.is_long() {
                self.word().fetch_or(TORN, Ordering::AcqRel);
                return false;
            }
        }
        true
    }

    /// Reader: closes the window permanently, and abandons a read that it has begun.
    pub(crate) fn leave(&self) {
        self.shut();
        let _ = self.end_use();
    }

    fn word(&self) -> &AtomicU32 {
        match &self.state {
            StateWord::Own(word) => word,
            // SAFETY: the memory is valid, initialised, aligned and long enough as long as `self` exists, and both
            // processes access the word at this offset as an atomic alone.
            StateWord::Shared(memory, at) => unsafe {
                word_at(memory.pointer().offset(*at as isize).as_ptr())
            },
        }
    }

    fn change(&self, from: u32, to: u32) -> bool {
        // Release: the other end sees all that this one did before. Acquire: this end sees all that the other did
        // before.
        self.word().compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Changes the state whether the window is closed or not.
    fn change_either(&self, from: WindowState, to: WindowState) -> bool {
        let (from, to) = (from as u32, to as u32);
        match self.word().compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            // The bit is never cleared.
            Err(now) => now == from | CLOSED && self.change(now, to | CLOSED),
        }
    }
}
