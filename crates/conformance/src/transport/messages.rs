//! Messages that their receivers need not know of.

use haloport_core::comm::Communicator;
use haloport_core::transport::{Direction, Incoming, TransportError};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::bare::{Memory, bare, close, until, wait};
use crate::{Failure, ensure};

/// Random messages of two tags and any length, to receivers that know only their number. They arrive in order for each
/// sender and tag.
pub(super) fn messages(comm: &Communicator) -> Result<(), Failure> {
    let (rank, size, transport) = (comm.rank(), comm.size(), bare(comm));
    for round in 0..20u64 {
        let mut random = StdRng::seed_from_u64(1000 + round);
        let mut expected = vec![[Vec::new(), Vec::new()]; size];
        for (sender, expected) in expected.iter_mut().enumerate() {
            for _ in 0..random.random_range(0..6) {
                let (receiver, tag) = (random.random_range(0..size), random.random_range(0..2usize));
                let length = [0, 1, 50, 5_000, 300_000][random.random_range(0..5usize)];
                let bytes: Vec<u8> = vec![random.random(); length];
                if receiver == rank {
                    expected[tag].push(bytes.clone());
                }
                if sender == rank {
                    transport.send_message(receiver, 70 + tag as u32, bytes)?;
                }
            }
        }
        let mut got = vec![[Vec::new(), Vec::new()]; size];
        for tag in [1usize, 0] {
            for _ in 0..expected.iter().map(|of_tags| of_tags[tag].len()).sum() {
                let (sender, bytes) = next_message(comm, 70 + tag as u32)?;
                got[sender][tag].push(bytes);
            }
        }
        ensure!(got == expected, "round {round}: messages were lost, changed or overtaken");
        for tag in [70, 71] {
            until(comm, "all messages to be received", || Ok(transport.unreceived(tag)?.is_empty()))?;
            ensure!(transport.receive_message(tag)? == Incoming::Nothing, "round {round}: one too many");
        }
        comm.barrier()?;
    }
    let peer = size;
    let error = transport.send_message(peer, 70, Vec::new()).err();
    ensure!(error == Some(TransportError::NoSuchRank { peer, size }), "a message to rank {peer}: {error:?}");
    Ok(())
}

/// A message and a channel of the same tag and peer.
pub(super) fn messages_beside_channels(comm: &Communicator) -> Result<(), Failure> {
    let (rank, size, transport) = (comm.rank(), comm.size(), bare(comm));
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let (mut out, into) = (Memory::new(8), Memory::new(8));
    out.fill(7);
    // SAFETY: both buffers live until the channels are closed, after their messages are complete.
    let (send, receive) = unsafe {
        (
            transport.open(Direction::Send, next, 72, out.range(0, 8))?,
            transport.open(Direction::Receive, previous, 72, into.range(0, 8))?,
        )
    };
    transport.send_message(next, 72, vec![9; 8])?;
    // SAFETY: nothing was posted before; nothing touches the buffers until the messages are complete.
    unsafe {
        transport.post(send)?;
        transport.post(receive)?;
    }
    let (sender, bytes) = next_message(comm, 72)?;
    ensure!((sender, &bytes[..]) == (previous, &[9; 8]), "rank {sender} sent {bytes:?}");
    wait(comm, &[send, receive])?;
    ensure!(into.all(7), "the channel brought the message's bytes");
    close(comm, send, &out);
    close(comm, receive, &into);
    comm.barrier()?;
    Ok(())
}

/// A sender can tell which of its messages are still to be found, however short they are.
pub(super) fn unreceived(comm: &Communicator) -> Result<(), Failure> {
    let (rank, size, transport) = (comm.rank(), comm.size(), bare(comm));
    let others: Vec<usize> = (0..size).filter(|&peer| peer != rank).collect();
    for &peer in others.iter().rev().chain(&others) {
        transport.send_message(peer, 73, Vec::new())?;
    }
    ensure!(transport.unreceived(74)?.is_empty(), "messages of another tag are counted");
    comm.barrier()?;
    // No rank has asked for a message yet.
    ensure!(transport.unreceived(73)? == others, "{:?} instead of {others:?}", transport.unreceived(73)?);
    comm.barrier()?;
    for _ in 0..2 * others.len() {
        next_message(comm, 73)?;
    }
    until(comm, "all messages to be received", || Ok(transport.unreceived(73)?.is_empty()))?;
    comm.barrier()?;
    Ok(())
}

/// Discarded messages are gone on the receiver; those of other tags arrive.
pub(super) fn unwanted(comm: &Communicator) -> Result<(), Failure> {
    let (rank, size, transport) = (comm.rank(), comm.size(), bare(comm));
    let next = (rank + 1) % size;
    transport.send_message(next, 75, vec![1; 10])?;
    transport.discard_messages(75);
    ensure!(transport.unreceived(75)?.is_empty(), "discarded messages are still counted");
    comm.barrier()?;
    // Messages that had not arrived by then may still be found.
    while transport.receive_message(75)? != Incoming::Nothing {}
    comm.barrier()?;
    transport.send_message(next, 77, vec![2; 10])?;
    comm.barrier()?;
    until(comm, "a message", || Ok(transport.receive_message(77)? != Incoming::Nothing))?;
    transport.discard_messages(77);
    ensure!(transport.receive_message(77)? == Incoming::Nothing, "a discarded message was found");
    comm.barrier()?;
    Ok(())
}

/// Waits for the next message with this tag.
pub(crate) fn next_message(comm: &Communicator, tag: u32) -> Result<(usize, Vec<u8>), TransportError> {
    let mut found = None;
    until(comm, "a message", || {
        if let Incoming::Message { sender, bytes } = bare(comm).receive_message(tag)? {
            found = Some((sender, bytes));
        }
        Ok(found.is_some())
    })?;
    found.ok_or(TransportError::Busy)
}
