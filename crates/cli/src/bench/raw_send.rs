//! The bare transport: messages of the exchange's sizes, without packing and unpacking.

use std::sync::Arc;

use haloport::Pattern;
use haloport::device::{DeviceId, Pointer};
use haloport::pattern::Piece;
use haloport_core::comm::FREE_TAGS;
use haloport_core::device::MemoryRange;
use haloport_core::transport::{Channel, Direction, Transport};

use super::contestant::Contestant;
use crate::command::failure::Failure;

/// A tag that no exchange uses.
const TAG: u32 = FREE_TAGS.start;

/// One message to each neighbouring rank and one from it.
pub(super) struct RawSend {
    pattern: Pattern,
    receives: Vec<Channel>,
    sends: Vec<Channel>,
    memory: Arc<Memory>,
}

/// The memory of all messages, accessed through its address alone.
struct Memory {
    pointer: Pointer,
    _owner: Box<[u64]>,
}

impl RawSend {
    /// Opens the channels; `None` if this is the only rank. `cell_bytes` are the bytes of one cell in all fields.
    ///
    /// # Errors
    /// [`Failure::Run`] if a channel cannot be opened.
    pub(super) fn new(pattern: &Pattern, cell_bytes: usize) -> Result<Option<RawSend>, Failure> {
        if pattern.comm().size() == 1 {
            return Ok(None);
        }
        let mut messages: Vec<(Direction, usize, usize)> = Vec::new();
        for (direction, pieces) in
            [(Direction::Receive, pattern.receives()), (Direction::Send, pattern.sends())]
        {
            let others = pieces.iter().filter(|(peer, _)| **peer != pattern.comm().rank());
            messages.extend(others.map(|(&peer, pieces)| (direction, peer, cells(pieces) * cell_bytes)));
        }
        // Each message begins on a cache line of its own.
        let words: usize = messages.iter().map(|(_, _, bytes)| bytes.next_multiple_of(128) / 8).sum();
        let mut owner = vec![0u64; words].into_boxed_slice();
        let memory = Arc::new(Memory { pointer: Pointer::new(owner.as_mut_ptr().cast()), _owner: owner });
        let mut made = RawSend { pattern: pattern.clone(), receives: Vec::new(), sends: Vec::new(), memory };
        let mut begin = 0;
        for (direction, peer, bytes) in messages {
            let device = DeviceId { backend: "cpu", index: 0, context: 0 };
            let range = MemoryRange { device, pointer: made.memory.pointer.offset(begin), bytes };
            begin += bytes.next_multiple_of(128) as isize;
            // SAFETY: the memory is passed as the keeper when the channel is closed.
            let channel = unsafe { bare(pattern).open(direction, peer, TAG, range)? };
            match direction {
                Direction::Receive => made.receives.push(channel),
                Direction::Send => made.sends.push(channel),
            }
        }
        Ok(Some(made))
    }
}

impl Contestant for RawSend {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        let transport = bare(&self.pattern);
        for _ in 0..batch {
            for &channel in self.receives.iter().chain(&self.sends) {
                // SAFETY: only the transport accesses the memory.
                unsafe { transport.post(channel)? };
            }
            for &channel in self.receives.iter().chain(&self.sends) {
                let mut round = 0;
                while !transport.test(channel)? {
                    transport.relax(round)?;
                    round += 1;
                }
            }
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.run(1)
    }
}

impl Drop for RawSend {
    fn drop(&mut self) {
        for &channel in self.receives.iter().chain(&self.sends) {
            // SAFETY: the channel is ours, and the keeper owns its memory.
            unsafe { bare(&self.pattern).close(channel, Arc::clone(&self.memory) as _) };
        }
    }
}

/// The transport between the ranks of a pattern.
fn bare(pattern: &Pattern) -> &dyn Transport {
    // SAFETY: it is used for channels of that tag alone, opened through it.
    unsafe { &**pattern.comm().raw_transport() }
}

fn cells(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.source.count() as usize).sum()
}
