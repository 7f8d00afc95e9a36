//! Memory lent to a neighbour: fields, which it copies from straight into its halos, or a message in memory that two
//! processes share.

#[cfg(all(loom, test))]
mod model;
mod sync;

use std::any::Any;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use self::sync::{AtomicU32, Ordering, Wait, word_at};
use super::SharedMemory;

/// What a rank lends to one neighbour for one bound exchange. Transports hand windows on and do nothing with them.
///
/// The state goes round in a circle, once for each exchange:
///
/// ```text
///   Idle ── owner: open ──▶ Open ── reader: begin_read ──▶ Reading ── reader: end_read ──▶ Done
///    ▲                                                                                       │
///    └──────────────────────────────── owner: reclaim ────────────────────────────────────────┘
/// ```
///
/// Either end can close the window at any time, for ever: then it can no longer be opened, and an open one can no
/// longer be read. The owner does not touch what it lent from `open` until it has settled or closed the window, and
/// the reader reads only between `begin_read` and `end_read`. A window being read is left again after one copy, so
/// the owner can always get its memory back, whatever the neighbour does; it does not wait long for another process,
/// which may have ended, and says so in the state.
///
/// A window on a message lasts: its owner writes it no more once it has closed the window, so an open one can still be
/// read.
///
/// Between processes the state lies in memory that both have mapped, and each has a window of its own on it.
#[derive(Debug)]
pub struct Window {
    state: StateWord,
    /// Says what is lent, to those who know its type, and owns that memory.
    lent: Box<dyn Any + Send + Sync>,
    /// What is lent stays as it is when the window is closed.
    lasts: bool,
}

/// Where the state is.
#[derive(Debug)]
enum StateWord {
    Own(CachePadded<AtomicU32>),
    /// In this memory, so many bytes after its begin: a multiple of [`STATE_BYTES`], and as many are there.
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
}

/// What the state takes of shared memory: cache lines of its own.
pub(crate) const STATE_BYTES: usize = 128;

/// Set beside the state once the window is closed.
const CLOSED: u32 = 1 << 8;

/// Set beside that where the owner did not wait for the neighbour to have read.
const TORN: u32 = 1 << 9;

impl WindowState {
    fn of(value: u32) -> WindowState {
        match value & !(CLOSED | TORN) {
            0 => WindowState::Idle,
            1 => WindowState::Open,
            2 => WindowState::Reading,
            _ => WindowState::Done,
        }
    }
}

impl Window {
    /// A window on the memory that `lent` describes and owns.
    pub(crate) fn new(lent: impl Any + Send + Sync) -> Window {
        let state = CachePadded::new(AtomicU32::new(WindowState::Idle as u32));
        Window { state: StateWord::Own(state), lent: Box::new(lent), lasts: false }
    }

    /// As [`new`](Window::new), but between processes: the state lies in shared memory, `at` bytes after its begin, where
    /// all was 0 at first. `None` if that is not shared.
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

    /// A window between processes on a message, which lies in that memory, too.
    pub(crate) fn on_message(memory: &Arc<SharedMemory>, at: usize) -> Option<Window> {
        let window = Window::between_processes(memory, at, ())?;
        Some(Window { lasts: true, ..window })
    }

    /// The description of what is lent; `None` if it is of another type.
    pub(crate) fn lent<T: Any>(&self) -> Option<&T> {
        self.lent.downcast_ref()
    }

    /// Whether what is lent stays as it is when the window is closed.
    pub(crate) fn lasts(&self) -> bool {
        self.lasts
    }

    /// The present state.
    pub(crate) fn state(&self) -> WindowState {
        WindowState::of(self.word().load(Ordering::Acquire))
    }

    /// Reader: whether there will never be anything to read again. A message may have been sent, and its window closed,
    /// since a `begin_read` that came too early.
    pub(crate) fn is_withdrawn(&self) -> bool {
        let now = self.word().load(Ordering::Acquire);
        now & CLOSED != 0 && !(self.lasts && WindowState::of(now) == WindowState::Open)
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

    /// Reader: begins to read. `false` if the window is not open, or closed and does not last.
    pub(crate) fn begin_read(&self) -> bool {
        let (open, reading) = (WindowState::Open, WindowState::Reading);
        if self.lasts { self.change_either(open, reading) } else { self.change(open as u32, reading as u32) }
    }

    /// Reader: has read. `false` where the owner has not waited for that, so that what was read may be anything.
    #[must_use]
    pub(crate) fn end_read(&self) -> bool {
        self.change_either(WindowState::Reading, WindowState::Done)
    }

    /// Owner: takes note that the neighbour has read. `false` if it has not.
    pub(crate) fn reclaim(&self) -> bool {
        self.change_either(WindowState::Done, WindowState::Idle)
    }

    /// Owner: closes the window for ever, and returns when nobody reads what it lent any more, which may take as long as
    /// one copy; calls `meanwhile` again and again until then.
    pub(crate) fn close(&self, meanwhile: impl Fn()) {
        let before = self.word().fetch_or(CLOSED, Ordering::AcqRel);
        if self.lasts || before & TORN != 0 {
            return;
        }
        let between_processes = matches!(self.state, StateWord::Shared(..));
        let mut wait = Wait::begin();
        while self.state() == WindowState::Reading {
            wait.pause();
            meanwhile();
            if between_processes && wait.is_long() {
                self.word().fetch_or(TORN, Ordering::AcqRel);
                return;
            }
        }
    }

    /// Reader: closes the window for ever; a read that it has begun it will not go on with.
    pub(crate) fn leave(&self) {
        self.word().fetch_or(CLOSED, Ordering::AcqRel);
        let _ = self.change_either(WindowState::Reading, WindowState::Idle);
    }

    fn word(&self) -> &AtomicU32 {
        match &self.state {
            StateWord::Own(word) => word,
            // SAFETY: the memory is valid, initialised, aligned and long enough as long as `self` lives, and the word at
            // this place is accessed as an atomic alone, here and in the other process.
            StateWord::Shared(memory, at) => unsafe {
                word_at(memory.pointer().offset(*at as isize).as_ptr())
            },
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
