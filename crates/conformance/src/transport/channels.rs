//! Channels: messages of a fixed length between two ranks, sent again and again.

use std::sync::Arc;

use haloport_core::comm::Communicator;
use haloport_core::transport::{Channel, Direction, TransportError};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::bare::{Memory, bare, close, wait};
use crate::{Failure, ensure};

/// Messages round a ring of ranks, many times over the same channels.
pub(super) fn channels(comm: &Communicator) -> Result<(), Failure> {
    let (rank, size) = (comm.rank(), comm.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    for length in [1usize, 8, 4096, 1_000_000] {
        let (mut out, into) = (Memory::new(length), Memory::new(length));
        let transport = bare(comm);
        // SAFETY: both buffers live until the channels are closed, after their messages are complete.
        let (send, receive) = unsafe {
            (
                transport.open(Direction::Send, next, 7, out.range(0, length))?,
                transport.open(Direction::Receive, previous, 7, into.range(0, length))?,
            )
        };
        ensure!(transport.test(send)? && transport.test(receive)?, "a channel never posted is not complete");
        for round in 0..20u8 {
            out.fill(round ^ rank as u8);
            // SAFETY: the last messages on both channels are complete; nothing touches the buffers until these are.
            unsafe {
                if round % 2 == 0 {
                    transport.post(receive)?;
                }
                transport.post(send)?;
                if round % 2 == 1 {
                    transport.post(receive)?;
                }
            }
            wait(comm, &[send, receive])?;
            let expected = round ^ previous as u8;
            ensure!(into.all(expected), "round {round} of {length} bytes does not hold {expected}");
        }
        close(comm, send, &out);
        close(comm, receive, &into);
    }
    comm.barrier()?;
    Ok(())
}

/// Many channels to every rank at once, posted in a different order on each side.
pub(super) fn channels_of_many_tags(comm: &Communicator) -> Result<(), Failure> {
    let (rank, size, tags, length) = (comm.rank(), comm.size(), 5usize, 100usize);
    let transport = bare(comm);
    let begin_of = |peer: usize, tag: usize| (peer * tags + tag) * length;
    let (mut out, into) = (Memory::new(size * tags * length), Memory::new(size * tags * length));
    let mut channels = Vec::new();
    for peer in (0..size).filter(|peer| *peer != rank) {
        for tag in 0..tags {
            let begin = begin_of(peer, tag);
            // SAFETY: the buffers live until the channels are closed, after their messages are complete.
            unsafe {
                let send =
                    transport.open(Direction::Send, peer, 20 + tag as u32, out.range(begin, length))?;
                let receive =
                    transport.open(Direction::Receive, peer, 20 + tag as u32, into.range(begin, length))?;
                channels.push((peer, tag, send, receive));
            }
        }
    }
    let mut random = StdRng::seed_from_u64(rank as u64);
    let mark =
        |from: usize, to: usize, tag: usize, round: usize| (from * 31 + to * 17 + tag * 5 + round) as u8;
    for round in 0..10 {
        for &(peer, tag, _, _) in &channels {
            out.fill_range(begin_of(peer, tag), length, mark(rank, peer, tag, round));
        }
        let mut posts: Vec<Channel> =
            channels.iter().flat_map(|&(_, _, send, receive)| [send, receive]).collect();
        posts.shuffle(&mut random);
        for &channel in &posts {
            // SAFETY: all messages of the last round are complete, and nothing touches the buffers until these are.
            unsafe { transport.post(channel)? };
        }
        wait(comm, &posts)?;
        for &(peer, tag, _, _) in &channels {
            let expected = mark(peer, rank, tag, round);
            ensure!(
                into.all_range(begin_of(peer, tag), length, expected),
                "round {round}, rank {peer}, tag {tag}"
            );
        }
    }
    for (_, _, send, receive) in channels {
        close(comm, send, &out);
        close(comm, receive, &into);
    }
    comm.barrier()?;
    Ok(())
}

/// A sender and a receiver that disagree about the length: the receiver, at least, gets an error.
pub(super) fn wrong_length(comm: &Communicator) -> Result<(), Failure> {
    if comm.size() < 2 {
        return Ok(());
    }
    let transport = bare(comm);
    for (sent, expected) in [(16usize, 8usize), (8, 16)] {
        let buffer = Memory::new(16);
        let mut opened = None;
        if comm.rank() < 2 {
            let (direction, length) =
                if comm.rank() == 0 { (Direction::Send, sent) } else { (Direction::Receive, expected) };
            // SAFETY: `close` keeps the buffer alive.
            let channel = unsafe { transport.open(direction, 1 - comm.rank(), 40, buffer.range(0, length))? };
            // SAFETY: nothing touches the buffer.
            let mut outcome = unsafe { transport.post(channel) };
            if direction == Direction::Receive {
                outcome = outcome.and_then(|()| wait(comm, &[channel]));
            }
            opened = Some(channel);
            // MPICH does not say by how much a message is too long.
            let refused =
                matches!(outcome, Err(TransportError::Length { .. } | TransportError::Layer { .. }));
            let unnoticed = outcome.is_ok() && direction == Direction::Send;
            ensure!(refused || unnoticed, "{sent} bytes for {expected} give {outcome:?}");
        }
        // If the sender closed the channel now, it would withdraw its message.
        comm.barrier()?;
        opened.into_iter().for_each(|channel| close(comm, channel, &buffer));
        comm.barrier()?;
    }
    Ok(())
}

/// A receive without a message can be closed, and its memory stays alive as long as it may be written.
pub(super) fn closing(comm: &Communicator) -> Result<(), Failure> {
    let transport = bare(comm);
    let buffer = Memory::new(64);
    let peer = (comm.rank() + 1) % comm.size();
    if comm.size() > 1 {
        // SAFETY: `close` keeps the buffer alive.
        let channel = unsafe { transport.open(Direction::Receive, peer, 50, buffer.range(0, 64))? };
        // SAFETY: nothing touches the buffer.
        unsafe { transport.post(channel)? };
        ensure!(!transport.test(channel)?, "a message arrived that no rank sent");
        close(comm, channel, &buffer);
        ensure!(transport.test(channel).is_err(), "a closed channel can be tested");
    }
    comm.barrier()?;
    Ok(())
}

pub(super) fn misuse(comm: &Communicator) -> Result<(), Failure> {
    let transport = bare(comm);
    let unknown = Channel(u64::MAX);
    ensure!(transport.test(unknown).is_err(), "an unknown channel can be tested");
    // SAFETY: the call is refused.
    ensure!(unsafe { transport.post(unknown) }.is_err(), "an unknown channel can be posted");
    // SAFETY: there is no such channel.
    unsafe { transport.close(unknown, Arc::new(())) };
    if comm.size() > 1 {
        let buffer = Memory::new(8);
        let peer = (comm.rank() + 1) % comm.size();
        // SAFETY: `close` keeps the buffer alive; the second post is refused.
        unsafe {
            let channel = transport.open(Direction::Receive, peer, 60, buffer.range(0, 8))?;
            transport.post(channel)?;
            ensure!(transport.post(channel).is_err(), "a channel was posted twice");
            close(comm, channel, &buffer);
        }
    }
    comm.barrier()?;
    Ok(())
}
