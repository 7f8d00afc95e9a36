//! Cells that go through memory that two ranks share, handed over by their hosts: copied straight from the neighbour's
//! field, or packed by the sender and unpacked by the receiver.
//!
//! Once: `mapping` maps fields of other processes and keeps exported device memory alive, and `bind` binds the copies. Every
//! time: `windows`, of which `lent` has those for neighbours. Here: the memory that two processes share.
//!
//! The receiver allocates a segment, the sender maps it. It holds the state of a window on the sender's fields, the message
//! that the sender may leave in their place, and two messages with a window on each. Exchanges use the two messages in
//! turn, so that the sender can pack one while the receiver reads the other: an exchange ends when the neighbour has read
//! the message of the exchange before. For fields in a device's memory it also holds the flag by which the receiver
//! releases them.

pub(crate) mod bind;
pub(crate) mod lent;
pub(crate) mod mapping;
pub(crate) mod windows;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::Pointer;
use crate::exchange::cells::packed::MESSAGE_ALIGNMENT;
use crate::transport::{STATE_BYTES, SharedMemory, Window};

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
