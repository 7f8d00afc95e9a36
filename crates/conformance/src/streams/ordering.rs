//! The order of exchanges with the work around them, on devices that go on working after a call has returned.
//!
//! If one wait is missing, a test fails: gates hold streams back, so that work that does not wait comes too early; and
//! copies are large, so that work that does not wait for their end reads old values.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use haloport_core::device::{Combine, Device, Priority};
use haloport_core::exchange::CopiedBy;
use haloport_core::{BindOptions, Communicator, DataPath, Field, Pattern, Pending, Schedule};

use super::gate::{CALL_LIMIT, gate};
use super::ring::Travel;
use crate::setting::{drawn, setting};
use crate::{Failure, ensure};

/// Cells that a rank owns, and that its left neighbour sends to it: `HALOPORT_ORDERED_CELLS`, or 16 MiB. A device that
/// delays its work itself needs fewer.
fn cells() -> usize {
    setting("HALOPORT_ORDERED_CELLS", 2 << 20)
}

/// Data paths by name.
const PATHS: [(&str, Travel); 4] = [
    ("in a message", Travel::to_halos(|| whole().staging_copy(usize::MAX))),
    ("in chunks", Travel::to_halos(|| in_chunks().staging_copy(usize::MAX))),
    (
        "straight from the field",
        Travel::to_halos(|| BindOptions::default().prefer(DataPath::Direct).copied_by(CopiedBy::Receiver)),
    ),
    (
        "straight to the halo",
        Travel::to_halos(|| BindOptions::default().prefer(DataPath::Direct).copied_by(CopiedBy::Sender)),
    ),
];

/// The data paths of devices with separate memory, besides.
const MOVED_PATHS: [(&str, Travel); 2] = [
    ("in a message that is moved", Travel::to_halos(|| whole().staging_copy(0))),
    ("in chunks that are moved", Travel::to_halos(|| in_chunks().staging_copy(0))),
];

/// The data paths of devices that combine cells, besides.
const REVERSED_PATHS: [(&str, Travel); 2] = [
    ("in a message to the owner", Travel::to_owners(|| whole().staging_copy(usize::MAX))),
    (
        "in a message to the owner that is moved, from a halo that is set to zero",
        Travel::to_owners(|| whole().staging_copy(0).zero_halo(true)),
    ),
];

fn whole() -> BindOptions {
    BindOptions::default().path(DataPath::Messages).staging_chunk(usize::MAX)
}

fn in_chunks() -> BindOptions {
    BindOptions::default().path(DataPath::Messages).staging_chunk(cells() * 3 / 2)
}

/// How long a gate is closed: work that does not wait for it is done by then.
const CLOSED: Duration = Duration::from_millis(30);

/// Collective: runs all tests on an asynchronous device, which must have gates; on a synchronous one, nothing.
/// `borrowed` is a stream that another program made, or one of `create_stream` that was borrowed, if the device can borrow.
///
/// # Errors
/// The work that came too early or too late, or the error of a call.
pub fn suite<D: Device>(
    comm: &Communicator,
    device: &D,
    borrowed: Option<&D::Stream>,
) -> Result<(), Failure> {
    if !device.info().asynchronous {
        return Ok(());
    }
    let moved_paths = if device.info().separate_memory { &MOVED_PATHS[..] } else { &[] };
    if device.combining().is_some() {
        named(comm, "a halo that is set to zero in another stream", || zeroed_elsewhere(comm, device))?;
    }
    let reversed_paths = if device.combining().is_some() { drawn(&REVERSED_PATHS) } else { &[] };
    for path in PATHS.iter().chain(moved_paths).chain(reversed_paths) {
        on_path(comm, device, borrowed, path)?;
        let (name, travel) = *path;
        named(comm, &format!("an exchange that is dropped, {name}"), || dropped(comm, device, travel))?;
    }
    Ok(())
}

/// Collective: as [`suite`], in messages that streams send and receive. Each rank has a device of its own. These are not
/// unpacked in the caller's stream, so that a drop need not wait for it.
///
/// # Errors
/// As for [`suite`].
pub fn stream_messages<D: Device>(
    comm: &Communicator,
    device: &D,
    borrowed: Option<&D::Stream>,
) -> Result<(), Failure> {
    let travel = Travel::to_halos(|| BindOptions::default().path(DataPath::StreamMessages));
    on_path(comm, device, borrowed, &("in messages of streams", travel))
}

/// Runs all tests on one path, but that of a drop.
fn on_path<D: Device>(
    comm: &Communicator,
    device: &D,
    borrowed: Option<&D::Stream>,
    &(path, travel): &(&str, Travel),
) -> Result<(), Failure> {
    let own = [device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?];
    let (one, two) = (Some(&own[0]), Some(&own[1]));
    let pairs = [(None, None), (one, one), (one, two), (one, None), (None, two)];
    let borrowed = borrowed.map(|b| [(Some(b), Some(b)), (one, Some(b)), (Some(b), two)]);
    // In the default set, one pair of each kind.
    let pairs = drawn(&pairs).iter().chain(borrowed.iter().flat_map(|pairs| drawn(pairs)));
    for &(start, finish) in pairs {
        let what = format!("from {start:?} to {finish:?}, {path}");
        named(comm, &what, || between_streams(comm, device, travel, start, finish))?;
    }
    let named =
        |what: &str, test: &dyn Fn() -> Result<(), Failure>| named(comm, &format!("{what}, {path}"), test);
    named("a finish that blocks", &|| blocking(comm, device, travel))?;
    named("what is received next", &|| received_next(comm, device, travel))?;
    named("an unpacking in another stream", &|| unpacked_elsewhere(comm, device, travel, &own))?;
    named("two in flight", &|| two_in_flight(comm, device, travel, &own))?;
    named("access from the host", &|| host_access(comm, device, travel))?;
    named("a late neighbour", &|| late_neighbour(comm, device, travel))?;
    Ok(())
}

/// Runs a test. Its name, and the error, are printed at once: if other ranks wait for this one, they are not lost.
fn named(comm: &Communicator, what: &str, test: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    println!("rank {} of {}: {what}", comm.rank(), comm.size());
    test().map_err(|error| {
        println!("rank {} of {}: {what}: {error}", comm.rank(), comm.size());
        format!("{what}: {error}").into()
    })
}

/// Packing waits for a kernel that writes the field, and reading the halo waits for the unpacking.
fn between_streams<D: Device>(
    comm: &Communicator,
    device: &D,
    travel: Travel,
    start: Option<&D::Stream>,
    finish: Option<&D::Stream>,
) -> Result<(), Failure> {
    let mut ring = travel.ring(comm, device, cells())?;
    for round in 1..=3 {
        let (from, to) = (ring.stream(start), ring.stream(finish));
        let open = gate(device, &from)?;
        ring.write(round, &from)?;
        let pending = ring.exchange.start_on(schedule(start))?;
        poll_while_closed(&pending);
        open();
        pending.finish_on(schedule(finish))?;
        ring.look(&to)?;
        ring.verify(round, &to)?;
    }
    comm.barrier()?;
    Ok(())
}

/// After a blocking `finish`, every stream sees the halo, and the owned cells may be written: no neighbour reads them.
fn blocking<D: Device>(comm: &Communicator, device: &D, travel: Travel) -> Result<(), Failure> {
    let mut ring = travel.ring(comm, device, cells())?;
    let other = device.create_stream(Priority::Normal)?;
    for round in 1..=3 {
        ring.write(round, &other)?;
        device.synchronize(&other)?;
        ring.exchange.start_on(Schedule::Blocking)?.finish_blocking()?;
        ring.look(&other)?;
        ring.write(round + 100, &other)?;
        ring.verify(round, &other)?;
        device.synchronize(&other)?;
    }
    comm.barrier()?;
    Ok(())
}

/// The next message of a neighbour does not disturb one that is still being unpacked.
fn received_next<D: Device>(comm: &Communicator, device: &D, travel: Travel) -> Result<(), Failure> {
    let mut ring = travel.ring(comm, device, cells())?;
    let [one, two] = [device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?];
    let seen = device.create_event(false)?;
    ring.write(1, &one)?;
    let pending = ring.exchange.start_on(&one)?;
    wait(&pending)?;
    // Every second rank holds back its unpacking, and with it its next messages; its neighbours send theirs.
    let open = if comm.rank().is_multiple_of(2) { Some(gate(device, &two)?) } else { None };
    pending.finish_on(&two)?;
    ring.look(&two)?;
    device.record(&seen, &two)?;
    device.stream_wait(&one, &seen)?;
    ring.write(2, &one)?;
    let pending = ring.exchange.start_on(&one)?;
    poll_while_closed(&pending);
    open.into_iter().for_each(|open| open());
    pending.finish_on(&one)?;
    ring.verify(1, &two)?;
    ring.look(&one)?;
    ring.verify(2, &one)?;
    comm.barrier()?;
    Ok(())
}

/// The next exchange, in another stream, waits for the unpacking of the last one: nothing else orders the two. It moves the
/// same values; a missing wait shows where accesses without an order do.
fn unpacked_elsewhere<D: Device>(
    comm: &Communicator,
    device: &D,
    travel: Travel,
    [one, two]: &[D::Stream; 2],
) -> Result<(), Failure> {
    let mut ring = travel.ring(comm, device, cells())?;
    for round in 1..=2 {
        ring.write(round, one)?;
        let pending = ring.exchange.start_on(one)?;
        wait(&pending)?;
        let open = gate(device, two)?;
        pending.finish_on(two)?;
        let pending = ring.exchange.start_on(one)?;
        let opened = open_later(open);
        pending.finish_on(one)?;
        opened.join().map_err(|_| "the opener panicked")?;
        device.synchronize(two)?;
        ring.look(one)?;
        ring.verify(round, one)?;
    }
    comm.barrier()?;
    Ok(())
}

/// The next exchange, in another stream, packs a halo after the last one has set it to zero, also on a rank that owns no cell of
/// a halo. Of one cell, which rank 1 owns, and which is a halo on rank 0.
fn zeroed_elsewhere<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    type Lists = &'static [(usize, &'static [u32])];
    let (sends, receives): (Lists, Lists) = match comm.rank() {
        _ if comm.size() == 1 => return Ok(()),
        0 => (&[], &[(1, &[0])]),
        1 => (&[(0, &[0])], &[]),
        _ => (&[], &[]),
    };
    let pattern = Pattern::from_lists(comm, 1, sends, receives)?;
    let mut field = Field::<i64, D>::new(device, &pattern)?;
    field.copy_from(0, &[if comm.rank() == 0 { 5 } else { 0 }])?;
    let mut exchange = pattern.bind_with(field, whole().accumulate(Combine::Sum).zero_halo(true))?;
    let [one, two] = [device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?];
    let pending = exchange.start_on(&one)?;
    wait(&pending)?;
    let open = gate(device, &two)?;
    pending.finish_on(&two)?;
    let pending = exchange.start_on(&one)?;
    poll_while_closed(&pending);
    open();
    pending.finish_on(&one)?;
    exchange.synchronize()?;
    device.synchronize(&two)?;
    let found = exchange.fields().to_vec(0)?;
    let expected = if comm.rank() == 1 { 5 } else { 0 };
    ensure!(found == [expected], "found {found:?}, expected {expected}");
    comm.barrier()?;
    Ok(())
}

/// Owned cells may be written once `finish` has returned: if the copies of a neighbour are held back, it reads a copy
/// of the cells, or `finish` waits for it. Of three ranks, one waits for the late rank although that does not send to
/// it.
fn late_neighbour<D: Device>(comm: &Communicator, device: &D, travel: Travel) -> Result<(), Failure> {
    let mut ring = travel.ring(comm, device, cells())?;
    let [stream, other] = [device.create_stream(Priority::Normal)?, device.create_stream(Priority::Normal)?];
    ring.write(1, &stream)?;
    device.synchronize(&stream)?;
    comm.barrier()?;
    let opened = if comm.rank() == 0 { Some(open_later(gate(device, &stream)?)) } else { None };
    ring.exchange.start_on(&stream)?.finish_blocking()?;
    ring.look(&other)?;
    ring.write(2, &other)?;
    ring.verify(1, &other)?;
    device.synchronize(&other)?;
    opened.map_or(Ok(()), thread::JoinHandle::join).map_err(|_| "the opener panicked")?;
    comm.barrier()?;
    Ok(())
}

/// Two exchanges on two streams; the one that was started first is held back longer.
fn two_in_flight<D: Device>(
    comm: &Communicator,
    device: &D,
    travel: Travel,
    streams: &[D::Stream; 2],
) -> Result<(), Failure> {
    let ring = || travel.ring(comm, device, cells());
    let mut rings = [ring()?, ring()?];
    for round in 1..=3 {
        let mut open = Vec::new();
        let mut pending = Vec::new();
        for (ring, stream) in rings.iter_mut().zip(streams) {
            open.push(gate(device, stream)?);
            ring.write(round, stream)?;
            pending.push(ring.exchange.start_on(stream)?);
        }
        for (stream, pending) in streams.iter().zip(pending).rev() {
            poll_while_closed(&pending);
            open.pop().into_iter().for_each(|open| open());
            pending.finish_on(stream)?;
        }
        for (ring, stream) in rings.iter().zip(streams) {
            ring.look(stream)?;
            ring.verify(round, stream)?;
        }
    }
    comm.barrier()?;
    Ok(())
}

/// Copies to the host, and views if the host can read the memory, wait for an unpacking that `finish` has left in a
/// stream.
fn host_access<D: Device>(comm: &Communicator, device: &D, travel: Travel) -> Result<(), Failure> {
    let mut ring = travel.ring(comm, device, cells())?;
    let stream = device.create_stream(Priority::Normal)?;
    for round in 1..=2 {
        ring.write(round, &stream)?;
        let pending = ring.exchange.start_on(&stream)?;
        wait(&pending)?;
        let open = gate(device, &stream)?;
        pending.finish_on(&stream)?;
        let opened = open_later(open);
        let field = ring.exchange.fields();
        let found = match field.view(0) {
            Ok(view) if round == 2 => ring.arriving().map(|at| view.get(&[at])).collect(),
            _ => Some(field.to_vec(0)?[ring.arriving_elements()].to_vec()),
        };
        opened.join().map_err(|_| "the opener panicked")?;
        let found: Vec<i64> = found.ok_or("a cell is not there")?;
        let wrong = found.iter().zip(ring.arrived(round)).find(|(found, expected)| *found != expected);
        ensure!(wrong.is_none(), "round {round}: found and expected {wrong:?} among what has arrived");
    }
    comm.barrier()?;
    Ok(())
}

/// Dropping an exchange waits for its last unpacking, so that memory is not freed before. If streams hand the fields over,
/// the halos are in place before `finish`, and nothing is left to wait for.
fn dropped<D: Device>(comm: &Communicator, device: &D, travel: Travel) -> Result<(), Failure> {
    static OPEN: [AtomicBool; 64] = [const { AtomicBool::new(false) }; 64];
    let mut ring = travel.ring(comm, device, cells())?;
    let stream = device.create_stream(Priority::Normal)?;
    let is_open = &OPEN[comm.rank() % OPEN.len()];
    is_open.store(false, Ordering::SeqCst);
    let by_streams = device.stream_words().is_some() && ring.exchange.traffic().direct_bytes > 0;
    let pending = ring.exchange.start_on(&stream)?;
    wait(&pending)?;
    let open = gate(device, &stream)?;
    pending.finish_on(&stream)?;
    let opened = open_later(Box::new(move || {
        is_open.store(true, Ordering::SeqCst);
        open();
    }));
    drop(ring);
    let waited = is_open.load(Ordering::SeqCst);
    opened.join().map_err(|_| "the opener panicked")?;
    ensure!(waited || by_streams, "it was dropped while its unpacking was held back");
    comm.barrier()?;
    Ok(())
}

type Opener = Box<dyn FnOnce() + Send>;

fn open_later(open: Opener) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        thread::sleep(CLOSED);
        open();
    })
}

fn schedule<S: haloport_core::device::Stream>(stream: Option<&S>) -> Schedule<'_> {
    stream.map_or(Schedule::DefaultStream, |stream| stream.into())
}

/// Makes progress while a gate is closed, so that missing waits show.
fn poll_while_closed<F>(pending: &Pending<'_, F>) {
    let begin = Instant::now();
    while begin.elapsed() < CLOSED {
        pending.is_ready();
        // Leaves the core to work that comes too early.
        thread::sleep(Duration::from_micros(200));
    }
}

/// Waits until `finish` would wait for no other rank.
fn wait<F>(pending: &Pending<'_, F>) -> Result<(), Failure> {
    let begin = Instant::now();
    while !pending.is_ready() {
        ensure!(begin.elapsed() < CALL_LIMIT, "an exchange was not ready within {CALL_LIMIT:?}");
        thread::yield_now();
    }
    Ok(())
}
