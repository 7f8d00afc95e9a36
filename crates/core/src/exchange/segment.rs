//! Memory that two processes share for one part of an exchange.
//!
//! The receiver makes it, the sender maps it. It holds the state of a window on the sender's fields, and two messages with
//! a window on each: exchanges use them in turn, so that the sender need not wait for the receiver to have read one before
//! it packs the other. Of fields in a device's memory, it also says whether the receiver has let go of them.

use std::sync::Arc;

use super::exported::LetGo;
use crate::device::Pointer;
use crate::transport::{STATE_BYTES, SharedMemory, Window};

/// Where a message begins in the buffer of its part: on cache lines of its own.
pub(super) const MESSAGE_ALIGNMENT: usize = 128;

/// Where the messages begin.
const HEAD: usize = 4 * STATE_BYTES;

/// Where the receiver says that it has let go of the sender's fields.
const LET_GO: usize = 3 * STATE_BYTES;

/// A segment as one of the two processes sees it.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    memory: Arc<SharedMemory>,
}

/// One of the two messages.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(super) window: Arc<Window>,
    /// Where the message begins.
    pub(super) message: Pointer,
    /// The most bytes that it can have.
    pub(super) bytes: usize,
}

impl Segment {
    /// The bytes of a segment for messages of `message` bytes.
    pub(super) fn bytes_for(message: usize) -> usize {
        HEAD + 2 * message.next_multiple_of(MESSAGE_ALIGNMENT)
    }

    pub(super) fn new(memory: SharedMemory) -> Segment {
        Segment { memory: Arc::new(memory) }
    }

    /// The memory, and where the state of the window on fields lies in it.
    pub(super) fn direct(&self) -> (&Arc<SharedMemory>, usize) {
        (&self.memory, 0)
    }

    /// Where the receiver says that it has let go of fields that it reached in a device's memory.
    pub(super) fn let_go(&self) -> Option<LetGo> {
        LetGo::new(&self.memory, LET_GO)
    }

    /// The messages; `None` where there is no room for them.
    pub(super) fn slots(&self) -> Option<[Slot; 2]> {
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
