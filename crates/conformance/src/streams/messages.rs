//! Messages between ranks in the order of streams: each rank is a thread with a device of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haloport_core::device::{
    Buffer, Device, DeviceError, MemoryKind, Pointer, Priority, StreamGroup, StreamMessage, StreamMessages,
    StreamMessagesOffer,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::gate::gate;
use crate::test_devices::altered::messaging_of;
use crate::{Failure, ensure};

/// How long ranks wait for what is sure to come.
const LIMIT: Duration = Duration::from_secs(60);

/// A group that a rank has joined.
type Group<D> = Box<dyn StreamMessages<<D as Device>::Stream>>;

/// A rank of a group.
struct Rank<'a, D: Device> {
    device: &'a D,
    rank: usize,
    ranks: usize,
    group: Group<D>,
}

/// Random exchanges between all ranks, in two streams, against an oracle.
///
/// # Errors
/// The first message that differs, or the error of a call.
pub fn random<D: Device>(devices: &[D], numbers: std::ops::Range<u64>) -> Result<(), Failure> {
    for ranks in 2..=devices.len() {
        on_ranks(&devices[..ranks], |own| {
            numbers
                .clone()
                .try_for_each(|number| check(own.device, &*own.group, [own.rank, own.ranks], number))
        })?;
    }
    Ok(())
}

/// One rank of [`random`], which joins the group itself: ranks may be processes.
///
/// # Errors
/// As for `random`.
pub fn random_of_rank<D: Device>(
    device: &D,
    group: &StreamGroup<'_>,
    mut numbers: std::ops::Range<u64>,
) -> Result<(), Failure> {
    let joined = messaging_of(device)?.join_stream_messages(group)?;
    numbers.try_for_each(|number| check(device, &*joined, [group.rank, group.ranks], number))
}

/// The work before an exchange in its stream is done before the messages are sent, and the work behind it after they have
/// arrived. Meanwhile the host does not wait, neither for the stream nor for other ranks.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn keep_the_order_of_streams<D: Device>(devices: &[D]) -> Result<(), Failure> {
    const BYTES: usize = 1000;

    let returned = AtomicUsize::new(0);
    on_ranks(devices, |own| {
        let Rank { device, rank, ranks, .. } = own;
        let value = |of: usize| vec![of as u8 + 1; BYTES];
        let stream = device.create_stream(Priority::Normal)?;
        let event = device.create_event(false)?;
        let [data, packed, arrived, unpacked] = [0; 4].map(|_| device.allocate(BYTES, MemoryKind::Device));
        let [data, packed, arrived, unpacked] = [data?, packed?, arrived?, unpacked?];
        // SAFETY: the buffers live until the stream is synchronised, each is as long as the copies and messages, and all
        // of that is in one stream.
        unsafe {
            device.write(&value(rank), data.pointer(), &stream)?;
            let open = gate(device, &stream)?;
            device.copy(data.pointer(), packed.pointer(), BYTES, &stream)?;
            let to = message(packed.pointer(), BYTES, (rank + 1) % ranks);
            let from = message(arrived.pointer(), BYTES, (rank + ranks - 1) % ranks);
            own.group.exchange(&[to], &[from], &stream)?;
            device.copy(arrived.pointer(), unpacked.pointer(), BYTES, &stream)?;
            device.record(&event, &stream)?;
            returned.fetch_add(1, Ordering::AcqRel);
            let all = until("calls of all ranks behind closed gates", || {
                Ok(returned.load(Ordering::Acquire) >= ranks)
            });
            let early = device.query(&event)?;
            open();
            all?;
            ensure!(
                !early,
                "rank {rank}: the work behind an exchange is done before the gate in front is open"
            );
            let mut found = vec![0; BYTES];
            device.read(unpacked.pointer(), &mut found, &stream)?;
            ensure!(found == value(from.peer), "rank {rank} has found {:?} and more", &found[..4]);
        }
        own.group.check().map_err(Failure::from)
    })
}

/// A neighbour that does not exchange holds the stream back, but not the host, and an abort ends that.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn a_missing_neighbour_hangs_nothing<D: Device>(devices: &[D]) -> Result<(), Failure> {
    let aborted = AtomicUsize::new(0);
    on_ranks(&devices[..2], |own| {
        let Rank { device, rank, .. } = own;
        let stream = device.create_stream(Priority::Normal)?;
        let event = device.create_event(false)?;
        let memory = device.allocate(16, MemoryKind::Device)?;
        let messages = [0, 8].map(|at| message(memory.pointer().offset(at), 8, 1 - rank));
        // SAFETY: the memory lives until the stream is synchronised, and no other stream uses it.
        let exchange = || unsafe { own.group.exchange(&messages[..1], &messages[1..], &stream) };
        if rank == 1 {
            // Alive, but busy.
            until("the abort of rank 0", || Ok(aborted.load(Ordering::Acquire) > 0))?;
            let mut is_lost = exchange().is_err();
            device.record(&event, &stream)?;
            until("an error that says that the neighbour is gone", || {
                is_lost |= own.group.check().is_err();
                // What the neighbour did when it was aborted may have ended this exchange, but no later one.
                if !is_lost && device.query(&event)? {
                    is_lost = exchange().is_err();
                    device.record(&event, &stream)?;
                }
                Ok(is_lost)
            })?;
        } else {
            exchange()?;
            device.record(&event, &stream)?;
            std::thread::sleep(Duration::from_millis(50));
            ensure!(!device.query(&event)?, "an exchange has ended without the neighbour");
            own.group.check()?;
        }
        let begin = Instant::now();
        own.group.abort();
        own.group.abort();
        ensure!(begin.elapsed() < Duration::from_secs(1), "an abort has taken {:?}", begin.elapsed());
        aborted.fetch_add(1, Ordering::AcqRel);
        device.record(&event, &stream)?;
        until("the end of an exchange that was aborted", || Ok(device.query(&event)?))?;
        device.synchronize(&stream)?;
        let refused = |answer| matches!(answer, Err(DeviceError::InvalidArgument { .. }));
        ensure!(refused(exchange()), "an exchange of a group that was aborted is not refused");
        ensure!(refused(own.group.check()), "a group that was aborted is fine");
        Ok(())
    })
}

/// If a rank does not join, the others wait until the time limit; and a group that is dropped does not wait for long.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn ranks_that_do_not_come_end_in_an_error<D: Device>(devices: &[D]) -> Result<(), Failure> {
    let token = messaging_of(&devices[0])?.stream_messages_token()?;
    let time_limit = Duration::from_millis(300);
    let alone = StreamGroup { token: &token, rank: 0, ranks: 2, peers: &[1], time_limit };
    let begin = Instant::now();
    let answer = messaging_of(&devices[0])?.join_stream_messages(&alone).map(drop);
    let (text, took) = (format!("{answer:?}"), begin.elapsed());
    ensure!(text.contains("waited 300ms for the other ranks"), "rank 0 joins alone: {text}");
    ensure!(took < Duration::from_secs(10), "joining has taken {took:?}");

    let dropped = AtomicUsize::new(0);
    on_ranks(&devices[..2], |own| {
        if own.rank == 1 {
            return until("rank 0 to drop its group", || Ok(dropped.load(Ordering::Acquire) > 0));
        }
        let begin = Instant::now();
        drop(own.group);
        let took = begin.elapsed();
        dropped.fetch_add(1, Ordering::AcqRel);
        ensure!(took < Duration::from_secs(5), "dropping has taken {took:?}");
        Ok(())
    })
}

/// Invalid tokens, ranks and peers are refused.
///
/// # Errors
/// The first case that is not refused, or the error of a call.
pub fn wrong_groups_are_refused<D: Device>(devices: &[D]) -> Result<(), Failure> {
    let token = messaging_of(&devices[0])?.stream_messages_token()?;
    let right = StreamGroup { token: &token, rank: 0, ranks: 2, peers: &[1], time_limit: LIMIT };
    for (what, group) in [
        ("a token of 3 bytes", StreamGroup { token: b"abc", ..right }),
        ("rank 2 of 2", StreamGroup { rank: 2, ..right }),
        ("rank 0 of 0", StreamGroup { ranks: 0, peers: &[], ..right }),
        ("itself as a peer", StreamGroup { peers: &[1, 0], ..right }),
        ("a peer behind the last rank", StreamGroup { peers: &[2], ..right }),
    ] {
        let answer = messaging_of(&devices[0])?.join_stream_messages(&group).map(drop);
        ensure!(matches!(answer, Err(DeviceError::InvalidArgument { .. })), "{what}: {answer:?}");
    }
    let peers = |rank: usize| if rank == 2 { vec![] } else { vec![1 - rank] };
    on_ranks_with(&devices[..3], peers, |own| {
        let stream = own.device.create_stream(Priority::Normal)?;
        let memory = own.device.allocate(8, MemoryKind::Device)?;
        let message = [message(memory.pointer(), 8, if own.rank == 2 { 0 } else { 2 })];
        for (sends, receives) in [(&message[..], &[][..]), (&[], &message)] {
            // SAFETY: the memory is of that length, and nothing else uses it.
            let answer = unsafe { own.group.exchange(sends, receives, &stream) };
            let refused = matches!(answer, Err(DeviceError::InvalidArgument { .. }));
            ensure!(refused, "a message to a rank that is no peer: {answer:?}");
        }
        Ok(())
    })
}

fn message(pointer: Pointer, bytes: usize, peer: usize) -> StreamMessage {
    StreamMessage { pointer, bytes, peer }
}

/// Runs a function for each device, as a rank of one group in a thread of its own. All are peers.
fn on_ranks<D: Device>(
    devices: &[D],
    body: impl Fn(Rank<'_, D>) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    on_ranks_with(devices, |rank| (0..devices.len()).filter(|other| *other != rank).collect(), body)
}

/// As [`on_ranks`], with these peers of each rank.
fn on_ranks_with<D: Device>(
    devices: &[D],
    peers: impl Fn(usize) -> Vec<usize> + Sync,
    body: impl Fn(Rank<'_, D>) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let offers = devices.iter().map(|device| messaging_of(device)?.offer_stream_messages());
    let offers = offers.collect::<Result<Vec<_>, _>>()?;
    if let Some(reason) = StreamMessagesOffer::reason_against_group(&offers) {
        return Err(reason.into());
    }
    let token = messaging_of(&devices[0])?.stream_messages_token()?;
    let run = |rank: usize| -> Result<(), Failure> {
        let (ranks, peers) = (devices.len(), peers(rank));
        let group = StreamGroup { token: &token, rank, ranks, peers: &peers, time_limit: LIMIT };
        let device = &devices[rank];
        body(Rank { device, rank, ranks, group: messaging_of(device)?.join_stream_messages(&group)? })
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..devices.len())
            .map(|rank| scope.spawn(move || run(rank).map_err(|error| error.to_string())))
            .collect();
        let results =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a panic".into())));
        let failed: Vec<String> = results
            .enumerate()
            .filter_map(|(rank, result)| result.err().map(|error| format!("rank {rank}: {error}")))
            .collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
    })
}

/// Waits for something that is sure to come.
fn until(what: &str, mut has_come: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let end = Instant::now() + LIMIT;
    while !has_come()? {
        ensure!(Instant::now() < end, "waited {LIMIT:?} for {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// The lengths of the messages from each rank to each other one in one exchange: `[from][to]`.
type Lengths = Vec<Vec<Vec<usize>>>;

/// The exchanges of a case, the same on all ranks.
fn case(ranks: usize, number: u64) -> Vec<Lengths> {
    let mut random = StdRng::seed_from_u64(number);
    let exchanges = random.random_range(1..4);
    let mut length = || match random.random_range(0..4) {
        0 => 0,
        1 => random.random_range(1..4),
        _ => random.random_range(1..5000),
    };
    let mut count = StdRng::seed_from_u64(!number);
    let mut between = |from: usize, to: usize| {
        let most = if from == to { 1 } else { 4 };
        (0..count.random_range(0..most)).map(|_| length()).collect::<Vec<usize>>()
    };
    let mut lengths = || (0..ranks).map(|from| (0..ranks).map(|to| between(from, to)).collect()).collect();
    (0..exchanges).map(|_| lengths()).collect()
}

/// The content of a message.
fn content(which: [usize; 4], number: u64, bytes: usize) -> Vec<u8> {
    let seed =
        which.iter().fold(number, |seed, part| seed.wrapping_mul(1_000_003).wrapping_add(*part as u64));
    let mut random = StdRng::seed_from_u64(seed);
    (0..bytes).map(|_| random.random()).collect()
}

/// One case on one rank: all exchanges are put into two streams in turn, then all that has arrived is compared.
fn check<D: Device>(
    device: &D,
    group: &dyn StreamMessages<D::Stream>,
    [rank, ranks]: [usize; 2],
    number: u64,
) -> Result<(), Failure> {
    const GUARD: u8 = 0xA5;

    let streams = [device.create_stream(Priority::Normal)?, device.create_stream(Priority::High)?];
    let mut waiting = Vec::new();
    for (at, lengths) in case(ranks, number).into_iter().enumerate() {
        let stream = &streams[at % 2];
        let (mut sent, mut expected) = (Vec::new(), Vec::new());
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        let of_others = lengths.iter().map(|of_other| &of_other[rank]);
        for (other, (to, from)) in lengths[rank].iter().zip(of_others).enumerate() {
            for (index, &bytes) in to.iter().enumerate() {
                sends.push((sent.len(), bytes, other));
                sent.extend(content([at, rank, other, index], number, bytes));
            }
            for (index, &bytes) in from.iter().enumerate() {
                receives.push((expected.len(), bytes, other));
                expected.extend(content([at, other, rank, index], number, bytes));
            }
        }
        expected.push(GUARD);
        let outgoing = device.allocate(sent.len().max(1), MemoryKind::Device)?;
        let incoming = device.allocate(expected.len(), MemoryKind::Device)?;
        let in_memory = |buffer: &D::Buffer, messages: Vec<(usize, usize, usize)>| {
            let places = messages.into_iter();
            let place =
                |(offset, bytes, peer)| message(buffer.pointer().offset(offset as isize), bytes, peer);
            places.map(place).collect::<Vec<_>>()
        };
        // SAFETY: the buffers are as long as the messages in them, which do not overlap; they live until the streams are
        // synchronised, and each is used in one stream.
        unsafe {
            device.write(&sent, outgoing.pointer(), stream)?;
            device.write(&vec![GUARD; expected.len()], incoming.pointer(), stream)?;
            group.exchange(&in_memory(&outgoing, sends), &in_memory(&incoming, receives), stream)?;
        }
        waiting.push((expected, outgoing, incoming, stream));
    }
    for (at, (expected, _outgoing, incoming, stream)) in waiting.iter().enumerate() {
        let mut found = vec![0; expected.len()];
        // SAFETY: the buffer is that long, and the stream is that of the exchange.
        unsafe { device.read(incoming.pointer(), &mut found, stream)? };
        let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
        ensure!(
            differs.is_none(),
            "case {number}, exchange {at}, rank {rank} of {ranks}: byte {differs:?} of {}",
            found.len()
        );
    }
    streams.iter().try_for_each(|stream| device.synchronize(stream)).map_err(Failure::from)
}
