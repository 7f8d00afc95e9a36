//! Memory that two processes share for one part of an exchange.
//!
//! The receiver makes it, the sender maps it. It holds the state of a window on the sender's fields, and two messages with
//! a window on each: exchanges use them in turn, so that the sender need not wait for the receiver to have read one before
//! it packs the other. Of fields in a device's memory, it also says whether the receiver has let go of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::Pointer;
use crate::transport::{STATE_BYTES, SharedMemory, Window};

/// Where a message begins in the buffer of its part: on cache lines of its own.
pub(crate) const MESSAGE_ALIGNMENT: usize = 128;

/// Where the messages begin.
const HEAD: usize = 4 * STATE_BYTES;

/// Where the receiver says that it has let go of the sender's fields.
const RELEASE_FLAG: usize = 3 * STATE_BYTES;

/// A segment as one of the two processes sees it.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    memory: Arc<SharedMemory>,
}

/// One of the two messages.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) window: Arc<Window>,
    /// Where the message begins.
    pub(crate) message: Pointer,
    /// The most bytes that it can have.
    pub(crate) bytes: usize,
}

impl Segment {
    /// The bytes of a segment for messages of `message` bytes.
    pub(crate) fn bytes_for(message: usize) -> usize {
        HEAD + 2 * message.next_multiple_of(MESSAGE_ALIGNMENT)
    }

    pub(crate) fn new(memory: SharedMemory) -> Segment {
        Segment { memory: Arc::new(memory) }
    }

    /// The memory, and where the state of the window on fields lies in it.
    pub(crate) fn direct(&self) -> (&Arc<SharedMemory>, usize) {
        (&self.memory, 0)
    }

    /// Where the receiver says that it has let go of fields that it reached in a device's memory.
    pub(crate) fn release_flag(&self) -> Option<ReleaseFlag> {
        ReleaseFlag::new(&self.memory, RELEASE_FLAG)
    }

    /// The messages; `None` where there is no room for them.
    pub(crate) fn slots(&self) -> Option<[Slot; 2]> {
        let bytes = Some(self.memory.bytes()).filter(|&bytes| self.memory.covers(0..bytes))?;
        let room = bytes.checked_sub(HEAD)? / 2 / MESSAGE_ALIGNMENT * MESSAGE_ALIGNMENT;
        let slot = |number: usize| {
            let window = Arc::new(Window::on_message(&self.memory, (1 + number) * STATE_BYTES)?);
            let message = self.memory.pointer().offset((HEAD + number * room) as isize);
            Some(Slot { window, message, bytes: room })
        };
        Some([slot(0)?, slot(1)?])
    }
}

/// Where the reader says that it has let go: a word of shared memory, 0 until then.
#[derive(Clone)]
pub(crate) struct ReleaseFlag {
    memory: Arc<SharedMemory>,
    at: usize,
}

impl ReleaseFlag {
    /// The word at `at` of memory that was all 0; `None` where it is not shared.
    pub(crate) fn new(memory: &Arc<SharedMemory>, at: usize) -> Option<ReleaseFlag> {
        let is_there = at.is_multiple_of(4) && memory.covers(at..at.checked_add(4)?);
        is_there.then(|| ReleaseFlag { memory: Arc::clone(memory), at })
    }

    pub(crate) fn set(&self) {
        self.word().store(1, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.word().load(Ordering::Acquire) != 0
    }

    fn word(&self) -> &AtomicU32 {
        let place = self.memory.pointer().offset(self.at as isize);
        // SAFETY: the memory is valid, initialised and aligned as long as `self` lives, and this word of it is accessed as an
        // atomic alone, here and in the other process.
        unsafe { AtomicU32::from_ptr(place.as_ptr().cast()) }
    }
}
