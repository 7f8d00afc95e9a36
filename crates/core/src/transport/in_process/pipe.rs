//! One channel between two ranks of a process.

use std::sync::Mutex;

use crate::device::MemoryRange;
use crate::lock::lock;
use crate::transport::Direction;

/// Both ends of a channel. The later of the two to post copies the message, under the lock, so an end that closes gets
/// its memory back at once or after one copy.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    ends: Mutex<Ends>,
}

#[derive(Debug, Default)]
struct Ends {
    send: End,
    receive: End,
    /// The bytes sent and expected, if they differed: the pipe can no longer be used.
    mismatch: Option<(usize, usize)>,
}

#[derive(Debug, Default)]
struct End {
    /// Its parts; `None` if it is not open.
    memory: Option<Vec<MemoryRange>>,
    posted: bool,
    closed: bool,
    /// The number of times it was opened. An end may be opened again before the other one is closed; only ends of one
    /// generation belong together.
    generation: u64,
}

/// The result of a call on a pipe.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The message was copied; wake the other end.
    Moved,
    /// The other end has not posted yet.
    Waiting,
    /// The two ends have different lengths.
    Length { sent: usize, expected: usize },
    /// The other end was closed.
    Closed,
    /// The end is not open, is open already, or has a message under way.
    Misuse(&'static str),
}

impl Pipe {
    pub(super) fn open(&self, direction: Direction, parts: &[MemoryRange]) -> Outcome {
        let mut ends = lock(&self.ends);
        let end = ends.end(direction);
        if end.memory.is_some() {
            return Outcome::Misuse("is open already");
        }
        *end = End {
            memory: Some(parts.to_vec()),
            posted: false,
            closed: false,
            generation: end.generation + 1,
        };
        if direction == Direction::Receive {
            ends.mismatch = None;
        }
        Outcome::Waiting
    }

    /// Posts one end, and copies the message if the other end is posted.
    ///
    /// # Safety
    /// As for [`Transport::post`](crate::transport::Transport::post); the memory of both ends is host memory.
    pub(super) unsafe fn post(&self, direction: Direction) -> Outcome {
        let mut ends = lock(&self.ends);
        let end = ends.end(direction);
        if end.memory.is_none() {
            return Outcome::Misuse("is not open");
        }
        if end.posted {
            return Outcome::Misuse("has a message under way");
        }
        end.posted = true;
        if ends.is_gone(direction) {
            return Outcome::Closed;
        }
        let Some((from, to)) = ends.ready() else {
            return Outcome::Waiting;
        };
        if let Some((sent, expected)) = difference(from, to) {
            ends.mismatch = Some((sent, expected));
            return Outcome::Length { sent, expected };
        }
        for (from, to) in from.iter().zip(to) {
            // SAFETY: both ends are posted and not closed, so by the contracts of `open_parts` and `post` the source is
            // readable, the target is writable and nothing else touches it; closing takes the lock that is held here.
            unsafe { std::ptr::copy_nonoverlapping(from.pointer.as_ptr(), to.pointer.as_ptr(), from.bytes) };
        }
        ends.send.posted = false;
        ends.receive.posted = false;
        Outcome::Moved
    }

    /// Whether the message of this end was copied, and if not, why.
    pub(super) fn test(&self, direction: Direction) -> Outcome {
        let mut ends = lock(&self.ends);
        if let Some((sent, expected)) = ends.mismatch {
            return Outcome::Length { sent, expected };
        }
        let gone = ends.is_gone(direction);
        match ends.end(direction) {
            End { memory: None, .. } => Outcome::Misuse("is not open"),
            End { posted: true, .. } if gone => Outcome::Closed,
            End { posted: true, .. } => Outcome::Waiting,
            _ => Outcome::Moved,
        }
    }

    /// Closes one end; returns `true` if both ends are closed.
    pub(super) fn close(&self, direction: Direction) -> bool {
        let mut ends = lock(&self.ends);
        let end = ends.end(direction);
        *end = End { memory: None, posted: false, closed: true, generation: end.generation };
        ends.send.closed && ends.receive.closed && ends.send.generation == ends.receive.generation
    }
}

impl Ends {
    fn end(&mut self, direction: Direction) -> &mut End {
        match direction {
            Direction::Send => &mut self.send,
            Direction::Receive => &mut self.receive,
        }
    }

    /// Whether the end that belongs to this one is closed.
    fn is_gone(&self, direction: Direction) -> bool {
        let (mine, other) = match direction {
            Direction::Send => (&self.send, &self.receive),
            Direction::Receive => (&self.receive, &self.send),
        };
        other.generation > mine.generation || other.generation == mine.generation && other.closed
    }

    /// The memory of both ends, if a message is to be copied.
    fn ready(&self) -> Option<(&[MemoryRange], &[MemoryRange])> {
        let same_generation = self.send.generation == self.receive.generation;
        self.send.ready().zip(self.receive.ready()).filter(|_| same_generation)
    }
}

impl End {
    fn ready(&self) -> Option<&[MemoryRange]> {
        self.memory.as_deref().filter(|_| self.posted)
    }
}

/// The bytes sent and expected, if the parts of the two ends differ: those of the first part that differs, or of all
/// parts.
fn difference(from: &[MemoryRange], to: &[MemoryRange]) -> Option<(usize, usize)> {
    let all = |parts: &[MemoryRange]| parts.iter().map(|part| part.bytes).sum();
    let mut pairs = from.iter().zip(to).map(|(from, to)| (from.bytes, to.bytes));
    pairs
        .find(|(sent, expected)| sent != expected)
        .or_else(|| (from.len() != to.len()).then(|| (all(from), all(to))))
}
