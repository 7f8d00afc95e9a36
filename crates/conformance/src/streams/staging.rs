//! Messages that are staged, on asynchronous devices whose memory the transport cannot read: in chunks or whole, packed
//! straight into memory of the host or moved there by a copy.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use haloport_core::device::{Device, DeviceError, DeviceInfo, MemoryKind, Priority};
use haloport_core::exchange::{DEFAULT_STAGING_CHUNK, DEFAULT_STAGING_COPY};
use haloport_core::{BindOptions, Communicator, DataPath, Schedule};

use super::gate::{CALL_LIMIT, TimedGate, gate};
use super::ring::RankRing;
use crate::exchange::random::each;
use crate::exchange::{cubed_sphere, structured, tripolar, unstructured};
use crate::oracle::run_interleaved;
use crate::test_devices::altered::{AlteredCalls, CallAlteration, with_calls};
use crate::{Failure, ensure};

/// The most bytes of a chunk in random cases: from far fewer than a message has to any number.
const CHUNKS: [usize; 7] = [64, 100, 256, 600, 1000, 4096, usize::MAX];

/// The least bytes of messages that are moved by a copy in random cases: all messages, some, none.
const MOVED_FROM: [usize; 4] = [0, 300, 1200, usize::MAX];

/// Cells that a rank sends in one exchange, and their bytes.
const CELLS: usize = 256;
const BYTES: usize = 8 * CELLS;

/// How long a test watches that nothing is unpacked.
const WATCHED: Duration = Duration::from_millis(30);

/// Random exchanges of structured domains, unstructured ones, cubed spheres and folded grids, against their oracles: in
/// small chunks or whole, packed straight into memory of the host on some ranks and moved there on others.
///
/// # Errors
/// The first case that failed, and why.
pub fn random<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, size| {
        let (ranks, chunk) = (comm.size(), chunk_of(number));
        let size = size_in_chunks(size, chunk);
        let from = MOVED_FROM[(number as usize + comm.rank()) % MOVED_FROM.len()];
        let boxes = structured::Case::new(number, ranks, size).in_chunks(chunk).moved_from(from);
        structured::check(comm, device, &boxes)?;
        let lists = unstructured::Case::new(number, ranks, size).in_chunks(chunk).moved_from(from);
        unstructured::check(comm, device, &lists)?;
        let spheres = cubed_sphere::Case::new(number, ranks, size)?.in_chunks(chunk).moved_from(from);
        cubed_sphere::check(comm, device, &spheres)?;
        let folded = tripolar::Case::new(number, ranks, size).in_chunks(chunk).moved_from(from);
        tripolar::check(comm, device, &folded)
    })
}

/// The same, with the fields of some ranks on another device, which stages nothing.
///
/// # Errors
/// As for [`random`].
pub fn beside_another<D: Device, H: Device>(
    device: &D,
    other: &H,
    total: u64,
    most_ranks: usize,
) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, size| {
        let (ranks, chunk) = (comm.size(), chunk_of(number));
        let size = size_in_chunks(size, chunk);
        let boxes = structured::Case::new(number, ranks, size).in_chunks(chunk);
        let lists = unstructured::Case::new(number, ranks, size).in_chunks(chunk);
        if (number >> (comm.rank() % 8)).is_multiple_of(2) {
            structured::check(comm, device, &boxes)?;
            unstructured::check(comm, device, &lists)
        } else {
            structured::check(comm, other, &boxes)?;
            unstructured::check(comm, other, &lists)
        }
    })
}

/// Exchanges in chunks of several sizes that are in flight at once; the messages of some are moved by a copy.
///
/// # Errors
/// As for [`random`].
pub fn in_flight_at_once<D: Device>(device: &D, total: u64, most_ranks: usize) -> Result<(), Failure> {
    each(total, most_ranks, |comm, number, _| {
        let case =
            |k: usize| structured::Case::new(number * 4 + k as u64, comm.size(), 6).in_chunks(CHUNKS[2 * k]);
        let case = |k: usize| case(k).moved_from(MOVED_FROM[(number as usize + k) % MOVED_FROM.len()]);
        let cases: Vec<structured::Case> = (0..4).map(case).collect();
        let bound = cases.iter().map(|case| case.bind_first(comm, device)).collect::<Result<_, _>>()?;
        run_interleaved(bound, number, comm.rank())
    })
}

/// Collective, on two or more ranks: a message that is larger than a chunk goes in as many chunks as it takes, any
/// other goes whole.
///
/// # Errors
/// The traffic that was found instead.
pub fn larger_messages_are_cut<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    let stream = device.create_stream(Priority::Normal)?;
    let whole = [BYTES, 2 * BYTES, usize::MAX].map(|chunk| (Some(chunk), 1));
    let cut = [(BYTES - 1, 2), (BYTES / 4, 4), (BYTES / 4 - 1, 5), (8, CELLS), (0, CELLS)];
    let cut = cut.map(|(chunk, messages)| (Some(chunk), messages));
    for (chunk, messages) in whole.into_iter().chain(cut).chain([(None, 1)]) {
        let options = BindOptions::default().path(DataPath::Messages);
        let options = chunk.into_iter().fold(options, BindOptions::staging_chunk);
        let mut ring = RankRing::with_options(comm, device, options, CELLS)?;
        let traffic = ring.exchange.traffic();
        let in_chunks = if messages > 1 { BYTES } else { 0 };
        let found = (traffic.messages, traffic.message_bytes, traffic.chunked_bytes);
        ensure!(found == (messages, BYTES, in_chunks), "with a chunk of {chunk:?} bytes: {traffic:?}");
        let named = if messages > 1 { "messages in chunks" } else { "messages" };
        ensure!(traffic.path() == named, "the path is `{}`, expected `{named}`", traffic.path());
        for round in 1..=2 {
            ring.write(round, &stream)?;
            ring.exchange.start_on(&stream)?.finish_on(&stream)?;
            ring.look(&stream)?;
            ring.verify(round, &stream)?;
        }
    }
    comm.barrier()?;
    Ok(())
}

/// Collective, on two or more ranks, in each of several exchanges: on a device with separate memory, messages are moved
/// by one copy of each rank if they have as many bytes as the option says; a message in chunks is moved by one copy for
/// each, and its chunks are unpacked where they have arrived. On other devices, none is moved.
///
/// # Errors
/// The number of copies that was found instead, or a wrong halo.
pub fn large_messages_are_moved<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    // By default from 256 KiB on, in chunks of 1 MiB.
    let of = |bytes: usize| bytes / 8;
    let moved = [
        (None, None, of(DEFAULT_STAGING_COPY) - 64, [0, 0]),
        (None, None, of(DEFAULT_STAGING_COPY), [1, 1]),
        (None, None, of(3 * DEFAULT_STAGING_CHUNK), [3, 0]),
        (Some(BYTES / 4), Some(BYTES / 4), CELLS, [4, 0]),
        (Some(BYTES / 4), Some(BYTES / 4 + 1), CELLS, [0, 0]),
        (Some(usize::MAX), Some(BYTES), CELLS, [1, 1]),
        (Some(usize::MAX), Some(0), CELLS, [1, 1]),
        (Some(usize::MAX), Some(usize::MAX), of(DEFAULT_STAGING_COPY), [0, 0]),
    ];
    for (chunk, from, cells, [sent, received]) in moved {
        let watch = CopyWatch::default();
        let watched = with_calls(device, watch.clone());
        let stream = watched.create_stream(Priority::Normal)?;
        let options = BindOptions::default().path(DataPath::Messages);
        let options = chunk.into_iter().fold(options, BindOptions::staging_chunk);
        let options = from.into_iter().fold(options, BindOptions::staging_copy);
        let mut ring = RankRing::with_options(comm, &watched, options, cells)?;
        let expected = if device.info().separate_memory { sent + received } else { 0 };
        for round in 1..=2 {
            let before = watch.copies();
            ring.write(round, &stream)?;
            ring.exchange.start_on(&stream)?.finish_on(&stream)?;
            ring.look(&stream)?;
            ring.verify(round, &stream)?;
            ring.exchange.synchronize()?;
            let found = watch.copies() - before;
            ensure!(
                found == expected,
                "{} bytes, moved from {from:?} on, in chunks of {chunk:?}: {found} copies, expected {expected}",
                8 * cells
            );
        }
    }
    comm.barrier()?;
    Ok(())
}

/// Collective, on two ranks: while rank 0 still packs its second chunk, the first one is sent, received and unpacked. On
/// devices without gates, does nothing.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn next_is_packed_meanwhile<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    if device.gates().is_none() {
        println!("skipped: {} has no gates", device.id());
        return Ok(());
    }
    let watch = CopyWatch::default();
    let staged = with_calls(device, watch.clone());
    let stream = staged.create_stream(Priority::Normal)?;
    for moved_from in [usize::MAX, 0] {
        let options = BindOptions::default().path(DataPath::Messages).staging_chunk(BYTES / 4);
        let ring = RankRing::with_options(comm, &staged, options.staging_copy(moved_from), CELLS)?;
        first_chunk_arrives(comm, ring, &staged, &watch, &stream)?;
    }
    Ok(())
}

fn first_chunk_arrives<D: Device>(
    comm: &Communicator,
    mut ring: RankRing<AlteredCalls<D>>,
    staged: &AlteredCalls<D>,
    watch: &CopyWatch,
    stream: &D::Stream,
) -> Result<(), Failure> {
    for round in 1..=2 {
        ring.write(round, stream)?;
        staged.synchronize(stream)?;
        comm.barrier()?;
        let on = Schedule::On(stream);
        if comm.rank() == 0 {
            // Until rank 1 has packed.
            comm.barrier()?;
            watch.hold_before(2);
            let pending = ring.exchange.start_on(on)?;
            let gate = TimedGate::new(watch.take_opener().ok_or("there is no second launch that packs")?);
            comm.barrier()?;
            ensure!(gate.open()?, "rank 1 has waited for the second chunk");
            pending.finish_on(on)?;
        } else {
            let pending = ring.exchange.start_on(on)?;
            let packed = watch.runs();
            comm.barrier()?;
            let begin = Instant::now();
            while watch.runs() == packed && begin.elapsed() < CALL_LIMIT {
                pending.is_ready();
                thread::yield_now();
            }
            let begin = Instant::now();
            while begin.elapsed() < WATCHED {
                pending.is_ready();
                thread::yield_now();
            }
            let unpacked = watch.runs() - packed;
            comm.barrier()?;
            pending.finish_on(on)?;
            ensure!(unpacked == 1, "{unpacked} chunks were unpacked while the second one was held back");
        }
        ring.look(stream)?;
        ring.verify(round, stream)?;
        ring.exchange.synchronize()?;
    }
    comm.barrier()?;
    Ok(())
}

/// `device` as if it had no pinned memory: it stages in its own memory and in plain memory of the host.
pub fn without_pinned_memory<D: Device>(device: &D) -> AlteredCalls<D> {
    let mut info = device.info().clone();
    info.capabilities.pinned_memory = false;
    with_calls(device, CopyWatch { without_pinned: Some(info), ..CopyWatch::default() })
}

fn chunk_of(number: u64) -> usize {
    CHUNKS[number as usize % CHUNKS.len()]
}

/// The size of a case in chunks of `chunk` bytes. A large one in tiny chunks has more than 10,000 lists of copies, and PoCL frees
/// the tables of 140 lists in a second.
fn size_in_chunks(size: usize, chunk: usize) -> usize {
    if chunk < 256 { size.min(6) } else { size }
}

/// An alteration that counts the copies of a device and holds them back.
#[derive(Debug, Clone, Default)]
pub struct CopyWatch {
    /// The properties of a device without pinned memory; `None` leaves the device as it is.
    without_pinned: Option<DeviceInfo>,
    /// The number of lists of copies that were run.
    runs: Arc<AtomicU64>,
    /// The number of copies that are not of a list.
    copies: Arc<AtomicU64>,
    /// The number of lists until the one before which the stream is held back; 0: none.
    held: Arc<AtomicU64>,
    opener: Arc<HeldGate>,
}

/// The opener of the gate that holds a stream back.
#[derive(Default)]
struct HeldGate(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl fmt::Debug for HeldGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldGate")
    }
}

impl CopyWatch {
    fn runs(&self) -> u64 {
        self.runs.load(Ordering::SeqCst)
    }

    fn copies(&self) -> u64 {
        self.copies.load(Ordering::SeqCst)
    }

    /// Holds back the stream of a later list of copies, and all that follows there: 1 is the next list.
    fn hold_before(&self, number: u64) {
        self.held.store(number, Ordering::SeqCst);
    }

    fn take_opener(&self) -> Option<Box<dyn FnOnce() + Send>> {
        self.opener.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<D: Device> CallAlteration<D> for CopyWatch {
    fn info<'a>(&'a self, device: &'a DeviceInfo) -> &'a DeviceInfo {
        self.without_pinned.as_ref().unwrap_or(device)
    }

    fn before(&self, call: &'static str, _device: &D) -> Result<(), DeviceError> {
        self.copies.fetch_add(u64::from(call == "copy"), Ordering::SeqCst);
        Ok(())
    }

    fn before_copies(&self, device: &D, stream: &D::Stream) -> Result<(), DeviceError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let next = |left: u64| left.checked_sub(1);
        if self.held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next) == Ok(1) {
            let open = gate(device, stream)?;
            *self.opener.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
        }
        Ok(())
    }

    fn before_allocation(&self, device: &D, _bytes: usize, kind: MemoryKind) -> Result<(), DeviceError> {
        if self.without_pinned.is_some() && kind == MemoryKind::Pinned {
            return Err(DeviceError::Unsupported { what: "pinned memory", device: device.id() });
        }
        Ok(())
    }
}
