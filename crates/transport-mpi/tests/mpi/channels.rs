//! Channels: persistent messages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use haloport_core::device::{DeviceId, MemoryRange, Pointer};
use haloport_core::transport::{Channel, Direction, Transport};
use haloport_core::{Communicator, TransportError};

use crate::{Outcome, bare};

/// Memory that channels use, in an `Arc`, which each channel takes as its owner.
struct Memory {
    pointer: Pointer,
    bytes: usize,
    _owner: Vec<u8>,
}

impl Memory {
    fn new(bytes: usize, value: u8) -> Arc<Memory> {
        let mut owner = vec![value; bytes];
        Arc::new(Memory { pointer: Pointer::new(owner.as_mut_ptr()), bytes, _owner: owner })
    }

    fn range(&self) -> MemoryRange {
        let device = DeviceId { backend: "cpu", index: 0, context: 0 };
        MemoryRange { device, pointer: self.pointer, bytes: self.bytes }
    }

    /// # Safety
    /// No message is under way.
    unsafe fn holds(&self, value: u8) -> bool {
        // SAFETY: the memory has this length, and by the contract nothing else uses it.
        let bytes = unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.bytes) };
        bytes.iter().all(|byte| *byte == value)
    }
}

fn wait(transport: &dyn Transport, channel: Channel) -> Result<(), TransportError> {
    let mut round = 0;
    while !transport.test(channel)? {
        transport.relax(round)?;
        round += 1;
    }
    Ok(())
}

fn open(
    comm: &Communicator,
    direction: Direction,
    peer: usize,
    tag: u32,
    memory: &Memory,
) -> Result<Channel, TransportError> {
    // SAFETY: each test closes its channels, and passes the owner of the memory.
    unsafe { bare(comm).open(direction, peer, tag, memory.range()) }
}

fn post(comm: &Communicator, channel: Channel) -> Result<(), TransportError> {
    // SAFETY: the tests use the memory only before a message is posted and after it is complete.
    unsafe { bare(comm).post(channel) }
}

/// If a message is shorter or longer than its channel, the receiver gets an error, then and on each later test. (Not
/// tested: long messages that are longer than expected, with which Open MPI 4.1 writes beyond the receiver's memory.)
pub(crate) fn wrong_lengths(comm: &Communicator) -> Outcome {
    let transport = bare(comm);
    let (rank, size) = (comm.rank(), comm.size());
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    for (sent, expected, tag) in [(10, 20, 11), (20, 10, 12), (100_000, 200_000, 13), (0, 4, 14)] {
        let (out, into) = (Memory::new(sent, 1), Memory::new(expected, 0));
        let send = open(comm, Direction::Send, next, tag, &out)?;
        let receive = open(comm, Direction::Receive, before, tag, &into)?;
        post(comm, receive)?;
        post(comm, send)?;
        let Err(error) = wait(transport, receive) else {
            return Err(format!("expected an error: {sent} bytes were sent for {expected}").into());
        };
        assert_eq!(transport.test(receive), Err(error.clone()));
        let length = TransportError::Length { sender: before, receiver: rank, expected, found: sent };
        // Some libraries do not report the length of a message that was too long.
        let known = error == length || (sent > expected && error.to_string().contains("longer than"));
        assert!(known, "{error}");
        wait(transport, send)?;
        // SAFETY: the second argument owns the memory of the channel.
        unsafe { transport.close(receive, into) };
        // SAFETY: the second argument owns the memory of the channel.
        unsafe { transport.close(send, out) };
    }
    comm.barrier()?;
    Ok(())
}

/// If a channel is closed while its message is under way, the message still arrives, and its memory lives until then.
pub(crate) fn close_sending(comm: &Communicator) -> Outcome {
    let transport = bare(comm);
    let (rank, size) = (comm.rank(), comm.size());
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let bytes = 3_000_000;
    let out = Memory::new(bytes, rank as u8);
    let send = open(comm, Direction::Send, next, 31, &out)?;
    post(comm, send)?;
    // SAFETY: the second argument owns the memory of the channel.
    unsafe { transport.close(send, Arc::clone(&out) as _) };
    let weak = Arc::downgrade(&out);
    drop(out);
    comm.barrier()?;
    let into = Memory::new(bytes, 0xee);
    let receive = open(comm, Direction::Receive, before, 31, &into)?;
    post(comm, receive)?;
    wait(transport, receive)?;
    // SAFETY: the message has arrived.
    assert!(unsafe { into.holds(before as u8) });
    // SAFETY: the second argument owns the memory of the channel.
    unsafe { transport.close(receive, into) };
    comm.barrier()?;
    // Each later call checks whether the message is complete.
    let other = Memory::new(1, 0);
    let began = Instant::now();
    while weak.strong_count() > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "the memory is free once the message is received");
        let channel = open(comm, Direction::Send, rank, 32, &other)?;
        // SAFETY: the second argument owns the memory of the channel.
        unsafe { transport.close(channel, Arc::clone(&other) as _) };
    }
    comm.barrier()?;
    Ok(())
}
