//! The transport suite: what every transport does. Every rank calls [`suite`].

pub(crate) mod messages;
mod parts;

use std::sync::Arc;
use std::time::Duration;

use haloport_core::comm::Communicator;
use haloport_core::device::{DeviceId, MemoryRange, Pointer};
use haloport_core::transport::{Channel, Direction, Reach, Reduction, Transport, TransportError};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::{Failure, Report, ensure, judge};
use messages::{messages, messages_beside_channels, unreceived, unwanted};
use parts::channels_in_parts;

/// Collective: runs all transport tests.
///
/// # Errors
/// The failures of this rank, one on a line.
pub fn suite(comm: &Communicator) -> Result<Report, String> {
    judge(
        comm,
        &[
            ("ranks", ranks),
            ("barriers", barriers),
            ("reductions", reductions),
            ("broadcasts", broadcasts),
            ("sparse exchanges", sparse_exchanges),
            ("agreement", agreement),
            ("wrong ranks", wrong_ranks),
            ("channels", channels),
            ("channels of many tags", channels_of_many_tags),
            ("messages of the wrong length", wrong_length),
            ("closing a channel that waits", closing),
            ("misuse of channels", misuse),
            ("shared memory", shared_memory),
            ("memory shared in parts", shared_parts),
            ("messages to whom they may concern", messages),
            ("messages beside channels", messages_beside_channels),
            ("channels in parts", channels_in_parts),
            ("messages that nobody has found", unreceived),
            ("messages that nobody wants", unwanted),
        ],
        &[],
    )
}

/// Every rank makes memory for every other, where they share any; what one writes the other reads.
fn shared_memory(comm: &Communicator) -> Result<(), Failure> {
    let transport = bare(comm);
    let others: Vec<usize> = (0..comm.size()).filter(|&peer| peer != comm.rank()).collect();
    let bytes_for = |peer: usize| 1000 * (peer + 1);
    let word = |owner: usize, peer: usize| (owner * comm.size() + peer + 1) as u64;
    let mut leases = Vec::new();
    ensure!(!transport.is_near(comm.rank()), "a rank is near itself");
    let near = others.iter().filter(|peer| transport.is_near(**peer)).count();
    let reach = comm.info().reach;
    let as_said = match &reach {
        Reach::Process => near == 0,
        Reach::Node { ranks } => near > 0 && *ranks == near + 1,
        Reach::Own { reason } => near == 0 && !reason.is_empty(),
    };
    ensure!(as_said, "{near} ranks are near, and the transport says {reach:?}");
    for &peer in others.iter().filter(|peer| transport.is_near(**peer)) {
        if let Some(lease) = transport.share(bytes_for(peer)) {
            ensure!(lease.memory.bytes() >= bytes_for(peer), "{} bytes for {peer}", lease.memory.bytes());
            let pointer = lease.memory.pointer().as_ptr();
            ensure!(pointer.addr().is_multiple_of(128), "shared memory is not aligned: {pointer:?}");
            // SAFETY: the memory is initialised and as long as was asked for; nobody writes it now.
            let all = unsafe { std::slice::from_raw_parts(pointer, bytes_for(peer)) };
            ensure!(all.iter().all(|byte| *byte == 0), "shared memory is not 0 at first");
            leases.push((peer, lease));
        }
    }
    let tokens: Vec<(usize, Vec<u8>)> =
        leases.iter().map(|(peer, lease)| (*peer, lease.token.clone())).collect();
    let tokens = comm.sparse_exchange(&tokens)?;
    let mut mapped = Vec::new();
    for (owner, token) in &tokens {
        let memory = transport.map(*owner, token)?.ok_or("shared memory cannot be mapped")?;
        ensure!(memory.bytes() >= bytes_for(comm.rank()), "{} bytes of rank {owner}", memory.bytes());
        mapped.push((*owner, memory));
    }
    comm.barrier()?;
    // The names go, the memory stays.
    let leases: Vec<_> = leases.into_iter().map(|(peer, lease)| (peer, lease.memory)).collect();
    comm.barrier()?;
    for (owner, token) in &tokens {
        ensure!(transport.map(*owner, token)?.is_none(), "a token was withdrawn and still works");
    }
    for (peer, memory) in &leases {
        // SAFETY: the memory is long enough and aligned; the peer reads after the barrier.
        unsafe { memory.pointer().as_ptr().cast::<u64>().write(word(comm.rank(), *peer)) };
    }
    comm.barrier()?;
    for (owner, memory) in &mapped {
        // SAFETY: the memory is long enough, aligned and initialised; its owner wrote before the barrier.
        let found = unsafe { memory.pointer().as_ptr().cast::<u64>().read() };
        let expected = word(*owner, comm.rank());
        ensure!(found == expected, "rank {owner} wrote {expected}, found {found}");
    }
    ensure!(transport.map(0, b"no token of ours")?.is_none(), "a token that nobody made works");
    comm.barrier()?;
    Ok(())
}

/// Every rank makes memory of which it shares two parts: those, and no others, are what peers say is shared.
fn shared_parts(comm: &Communicator) -> Result<(), Failure> {
    let transport = bare(comm);
    let bytes = 5_000_000;
    let parts = [3_000_000..3_000_008, 700_000..900_000];
    let gaps = [0..8, 600_000..700_008, 1_500_000..1_500_008, 800_000..3_000_004, 4_999_000..5_000_000];
    let value = |owner: usize, at: usize| (at * 31 + owner) as u8;
    let near: Vec<usize> = (0..comm.size()).filter(|&peer| transport.is_near(peer)).collect();
    let lease = transport.share_parts(bytes, &parts).filter(|_| !near.is_empty());
    if let Some(lease) = &lease {
        ensure!(lease.memory.bytes() >= bytes, "{} bytes, expected {bytes}", lease.memory.bytes());
        let pointer = lease.memory.pointer().as_ptr();
        ensure!(pointer.addr().is_multiple_of(128), "shared memory is not aligned: {pointer:?}");
        // SAFETY: the memory is initialised and as long as was asked for, also between the parts, and nobody else has it.
        let all = unsafe { std::slice::from_raw_parts_mut(pointer, bytes) };
        ensure!(all.iter().all(|byte| *byte == 0), "shared memory is not 0 at first");
        all.iter_mut().enumerate().for_each(|(at, byte)| *byte = value(comm.rank(), at));
        ensure!(parts.iter().all(|part| lease.memory.covers(part.clone())), "{:?}", lease.memory);
    }
    let token = lease.iter().flat_map(|lease| near.iter().map(|peer| (*peer, lease.token.clone())));
    let tokens = comm.sparse_exchange(&token.collect::<Vec<_>>())?;
    for (owner, token) in &tokens {
        let memory = transport.map(*owner, token)?.ok_or("shared memory cannot be mapped")?;
        ensure!(memory.bytes() >= bytes, "{} bytes of rank {owner}", memory.bytes());
        for part in &parts {
            ensure!(memory.covers(part.clone()), "{part:?} is not shared: {memory:?}");
            for at in part.clone() {
                // SAFETY: the byte is shared, and its owner wrote it before it gave the token away.
                let found = unsafe { memory.pointer().as_ptr().add(at).read() };
                ensure!(found == value(*owner, at), "byte {at} of rank {owner} is {found}");
            }
        }
        let wrong = gaps.iter().find(|gap| memory.covers((*gap).clone()));
        ensure!(wrong.is_none(), "{wrong:?} is shared: {memory:?}");
    }
    let beyond = bytes - 1..bytes + 1;
    ensure!(
        transport.share_parts(bytes, &[parts[0].clone(), beyond]).is_none(),
        "a part beyond the end is shared"
    );
    comm.barrier()?;
    drop(lease);
    Ok(())
}

fn ranks(comm: &Communicator) -> Result<(), Failure> {
    ensure!(comm.rank() < comm.size(), "rank {} of {}", comm.rank(), comm.size());
    let mut all = [1 << comm.rank()];
    comm.all_reduce(&mut all, Reduction::Sum)?;
    ensure!(all[0] == (1 << comm.size()) - 1, "the ranks are {:b}", all[0]);
    Ok(())
}

fn barriers(comm: &Communicator) -> Result<(), Failure> {
    for _ in 0..20 {
        comm.barrier()?;
    }
    Ok(())
}

fn reductions(comm: &Communicator) -> Result<(), Failure> {
    let (rank, size) = (comm.rank() as u64, comm.size() as u64);
    for round in 0..20 {
        let mut values = [rank + round, 100 - rank, u64::MAX];
        comm.all_reduce(&mut values, Reduction::Max)?;
        ensure!(values == [size - 1 + round, 100, u64::MAX], "the largest are {values:?}");
        let mut values = [rank + round, 100 - rank];
        comm.all_reduce(&mut values, Reduction::Min)?;
        ensure!(values == [round, 101 - size], "the smallest are {values:?}");
        let mut values = [rank, u64::MAX];
        comm.all_reduce(&mut values, Reduction::Sum)?;
        ensure!(values == [size * (size - 1) / 2, 0u64.wrapping_sub(size)], "the sums are {values:?}");
    }
    let largest = comm.all_max(-1.5 - rank as f64)?;
    ensure!(largest == -1.5, "the largest float is {largest}");
    Ok(())
}

fn broadcasts(comm: &Communicator) -> Result<(), Failure> {
    for root in 0..comm.size() {
        for length in [0usize, 1, 1000, 300_000] {
            let mine = vec![comm.rank() as u8; length + comm.rank()];
            let got = comm.broadcast(root, &mine)?;
            ensure!(got == vec![root as u8; length + root], "{length} bytes from rank {root}");
        }
    }
    Ok(())
}

/// Random senders, receivers and lengths, empty messages and messages to oneself among them.
fn sparse_exchanges(comm: &Communicator) -> Result<(), Failure> {
    let size = comm.size();
    for round in 0..30u64 {
        // Every rank knows what all send, so it knows what it should get.
        let mut random = StdRng::seed_from_u64(round);
        let mut expected = Vec::new();
        let mut mine = Vec::new();
        for sender in 0..size {
            for _ in 0..random.random_range(0..4) {
                let receiver = random.random_range(0..size);
                let length = if random.random_bool(0.1) { 100_000 } else { random.random_range(0..50) };
                let message: Vec<u8> = (0..length).map(|_| random.random()).collect();
                if receiver == comm.rank() {
                    expected.push((sender, message.clone()));
                }
                if sender == comm.rank() {
                    mine.push((receiver, message));
                }
            }
        }
        let got = comm.sparse_exchange(&mine)?;
        ensure!(got == expected, "round {round}: got {} messages, expected {}", got.len(), expected.len());
        let bytes = comm.sparse_exchange_bytes(mine)?;
        ensure!(bytes == expected, "round {round}, bytes: got {} messages", bytes.len());
    }
    Ok(())
}

fn agreement(comm: &Communicator) -> Result<(), Failure> {
    ensure!(comm.agree(None)?.is_ok(), "all are content, but there is a complaint");
    let last = comm.size() - 1;
    let complaint = (comm.rank() == last).then(|| "too hot".to_string());
    let agreed = comm.agree(complaint)?;
    ensure!(agreed == Err(format!("rank {last}: too hot")), "agreed on {agreed:?}");
    Ok(())
}

fn wrong_ranks(comm: &Communicator) -> Result<(), Failure> {
    let peer = comm.size();
    let expected = TransportError::NoSuchRank { peer, size: peer };
    let error = comm.sparse_exchange(&[(peer, 1u8)]).err();
    ensure!(error.as_ref() == Some(&expected), "a message to rank {peer} gives {error:?}");
    let error = comm.broadcast(peer, &1u8).err();
    ensure!(error.as_ref() == Some(&expected), "a broadcast from rank {peer} gives {error:?}");
    let buffer = Memory::new(8);
    // SAFETY: the call is refused.
    let opened = unsafe { bare(comm).open(Direction::Send, peer, 1, buffer.range(0, 8)) };
    ensure!(opened.as_ref().err() == Some(&expected), "a channel to rank {peer} gives {opened:?}");
    Ok(())
}

/// Messages both ways round a ring, many times over the same channels.
fn channels(comm: &Communicator) -> Result<(), Failure> {
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
            // SAFETY: the last messages on both channels are complete; the buffers are left alone until these are.
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

/// Many channels to every rank at once, posted in an order of their own on each side.
fn channels_of_many_tags(comm: &Communicator) -> Result<(), Failure> {
    let (rank, size, tags, length) = (comm.rank(), comm.size(), 5usize, 100usize);
    let transport = bare(comm);
    let place = |peer: usize, tag: usize| (peer * tags + tag) * length;
    let (mut out, into) = (Memory::new(size * tags * length), Memory::new(size * tags * length));
    let mut channels = Vec::new();
    for peer in (0..size).filter(|peer| *peer != rank) {
        for tag in 0..tags {
            let range = place(peer, tag);
            // SAFETY: the buffers live until the channels are closed, after their messages are complete.
            unsafe {
                let send =
                    transport.open(Direction::Send, peer, 20 + tag as u32, out.range(range, length))?;
                let receive =
                    transport.open(Direction::Receive, peer, 20 + tag as u32, into.range(range, length))?;
                channels.push((peer, tag, send, receive));
            }
        }
    }
    let mut random = StdRng::seed_from_u64(rank as u64);
    let mark =
        |from: usize, to: usize, tag: usize, round: usize| (from * 31 + to * 17 + tag * 5 + round) as u8;
    for round in 0..10 {
        for &(peer, tag, _, _) in &channels {
            out.fill_range(place(peer, tag), length, mark(rank, peer, tag, round));
        }
        let mut posts: Vec<Channel> =
            channels.iter().flat_map(|&(_, _, send, receive)| [send, receive]).collect();
        posts.shuffle(&mut random);
        for &channel in &posts {
            // SAFETY: all messages of the last round are complete, and the buffers are left alone until these are.
            unsafe { transport.post(channel)? };
        }
        wait(comm, &posts)?;
        for &(peer, tag, _, _) in &channels {
            let expected = mark(peer, rank, tag, round);
            ensure!(
                into.all_range(place(peer, tag), length, expected),
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

/// A sender and a receiver that disagree about the length: the receiver, at least, is told.
fn wrong_length(comm: &Communicator) -> Result<(), Failure> {
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
            // SAFETY: the buffer is kept by `close`.
            let channel = unsafe { transport.open(direction, 1 - comm.rank(), 40, buffer.range(0, length))? };
            // SAFETY: nobody touches the buffer.
            let mut outcome = unsafe { transport.post(channel) };
            if direction == Direction::Receive {
                outcome = outcome.and_then(|()| wait(comm, &[channel]));
            }
            opened = Some(channel);
            // MPICH does not say how much longer a message was than expected.
            let told = matches!(outcome, Err(TransportError::Length { .. } | TransportError::Layer { .. }));
            let content = outcome.is_ok() && direction == Direction::Send;
            ensure!(told || content, "{sent} bytes for {expected} give {outcome:?}");
        }
        // A sender that closed at once would withdraw its message.
        comm.barrier()?;
        opened.into_iter().for_each(|channel| close(comm, channel, &buffer));
        comm.barrier()?;
    }
    Ok(())
}

/// A receive that nobody answers can be closed, and its memory stays as long as it may be written.
fn closing(comm: &Communicator) -> Result<(), Failure> {
    let transport = bare(comm);
    let buffer = Memory::new(64);
    let peer = (comm.rank() + 1) % comm.size();
    if comm.size() > 1 {
        // SAFETY: the buffer is kept by `close`.
        let channel = unsafe { transport.open(Direction::Receive, peer, 50, buffer.range(0, 64))? };
        // SAFETY: nobody touches the buffer.
        unsafe { transport.post(channel)? };
        ensure!(!transport.test(channel)?, "a message that nobody sent has come");
        close(comm, channel, &buffer);
        ensure!(transport.test(channel).is_err(), "a closed channel can be tested");
    }
    comm.barrier()?;
    Ok(())
}

fn misuse(comm: &Communicator) -> Result<(), Failure> {
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
        // SAFETY: the buffer is kept by `close`; the second post is refused.
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

/// The transport under a communicator.
pub(crate) fn bare(comm: &Communicator) -> &dyn Transport {
    // SAFETY: the tests use the tags that no exchange has, the channels that they have opened, and no collective.
    unsafe { &**comm.raw_transport() }
}

/// Waits until `done`.
pub(crate) fn until(
    comm: &Communicator,
    what: &str,
    mut done: impl FnMut() -> Result<bool, TransportError>,
) -> Result<(), TransportError> {
    let (began, limit) = (std::time::Instant::now(), Duration::from_secs(30));
    for round in 0.. {
        if done()? {
            break;
        }
        bare(comm).relax(round)?;
        if began.elapsed() > limit {
            return Err(TransportError::TimeLimit { what: what.into(), limit });
        }
    }
    Ok(())
}

/// Waits until the messages on all channels are complete.
fn wait(comm: &Communicator, channels: &[Channel]) -> Result<(), TransportError> {
    until(comm, "a test's messages", || {
        let mut complete = true;
        for &channel in channels {
            complete &= bare(comm).test(channel)?;
        }
        Ok(complete)
    })
}

/// Closes a channel that was opened on `memory`.
fn close(comm: &Communicator, channel: Channel, memory: &Memory) {
    // SAFETY: the memory that is handed over is shared by all its clones.
    unsafe { bare(comm).close(channel, memory.keep()) }
}

/// Shared host memory for messages.
#[derive(Clone)]
struct Memory(Arc<[std::cell::UnsafeCell<u8>]>);

// SAFETY: the tests access it only while no message is under way.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(bytes: usize) -> Memory {
        Memory((0..bytes).map(|_| std::cell::UnsafeCell::new(0)).collect())
    }

    fn pointer(&self) -> *mut u8 {
        std::cell::UnsafeCell::raw_get(self.0.as_ptr())
    }

    fn range(&self, begin: usize, bytes: usize) -> MemoryRange {
        let pointer = Pointer::new(self.pointer()).offset(begin as isize);
        MemoryRange { device: DeviceId { backend: "cpu", index: 0, context: 0 }, pointer, bytes }
    }

    fn keep(&self) -> Arc<Memory> {
        Arc::new(self.clone())
    }

    fn fill(&mut self, value: u8) {
        self.fill_range(0, self.0.len(), value);
    }

    fn fill_range(&mut self, begin: usize, bytes: usize, value: u8) {
        assert!(begin + bytes <= self.0.len());
        // SAFETY: within the memory, and no message is under way.
        unsafe { self.pointer().add(begin).write_bytes(value, bytes) }
    }

    fn all(&self, value: u8) -> bool {
        self.all_range(0, self.0.len(), value)
    }

    fn all_range(&self, begin: usize, bytes: usize, value: u8) -> bool {
        // SAFETY: no message is under way; every cell is initialised.
        self.0[begin..begin + bytes].iter().all(|cell| unsafe { *cell.get() } == value)
    }
}
