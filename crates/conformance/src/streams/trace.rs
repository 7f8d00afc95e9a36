//! The time line of exchanges and kernels, on devices that go on working after a call has returned.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haloport_core::device::{Device, Priority};
use haloport_core::trace::{DEFAULT_SPANS, Phase, Row, Span};
use haloport_core::{BindOptions, Communicator, DataPath};

use super::ring::RankRing;
use crate::device::Slow;
use crate::{Failure, ensure};

/// Cells that a rank sends in one exchange.
const CELLS: usize = 1024;

/// The time for which the slow kernel is chosen, and its least time, since a busy machine may have slowed down the
/// choice.
const KERNEL: Duration = Duration::from_millis(200);
const AT_LEAST: Duration = Duration::from_millis(50);

/// The delay after which the other rank begins: the kernel runs by then.
const LATER: Duration = Duration::from_millis(20);

/// The precision of a device's times on the host's clock, and of that clock against the wall clock.
const EXACT: Duration = Duration::from_millis(2);

/// Collective, on two ranks: while a slow kernel runs on rank 0, rank 1 begins an exchange that rank 0 has started. The
/// times of the device lie between those of the host before and after, and the kernel hides the wire.
///
/// # Errors
/// The first expectation that does not hold, or the error of a call.
pub fn kernels_hide_the_wire<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    let trace = comm.begin_trace(DEFAULT_SPANS).clone();
    let stream = device.create_stream(Priority::Normal)?;
    let begun = device.create_event(false)?;
    let slow = Slow::lasting(device, KERNEL)?;
    let mut ring = RankRing::new(comm, device, DataPath::Messages, CELLS)?;
    ring.write(1, &stream)?;
    device.synchronize(&stream)?;
    comm.barrier()?;
    let before = wall_clock();
    if comm.rank() == 0 {
        let pending = ring.exchange.start_on(&stream)?;
        // All is packed by now. Otherwise a busy device might run the kernel first.
        ensure!(!trace.spans().is_empty(), "there is nothing in the time line");
        thread::sleep(LATER);
        device.record(&begun, &stream)?;
        trace.kernel("slow", device, &stream, || slow.start(&stream))?;
        device.host_wait(&begun)?;
        comm.barrier()?;
        pending.finish_on(&stream)?;
    } else {
        comm.barrier()?;
        thread::sleep(LATER);
        ring.exchange.start_on(&stream)?.finish_on(&stream)?;
    }
    ring.exchange.synchronize()?;
    // Some devices take times in a queue of their own, which a busy machine serves later.
    let spans = trace.spans();
    let after = wall_clock();
    ring.look(&stream)?;
    ring.verify(1, &stream)?;

    for phase in [Phase::Packing, Phase::Wire, Phase::Unpacking] {
        let found = spans.iter().any(|span| span.phase == phase && span.exchange == Some(0));
        ensure!(found, "there is no {phase} among {spans:#?}");
    }
    for span in spans.iter().filter(|span| matches!(span.row, Row::Stream(_))) {
        let is_between = before <= span.begin + EXACT && span.end <= after + EXACT;
        ensure!(is_between, "{span:?} was not between {before:?} and {after:?}");
    }
    ensure!(trace.dropped() == 0, "{} spans were dropped", trace.dropped());
    if comm.rank() == 0 { hidden(&spans) } else { Ok(()) }
}

fn hidden(spans: &[Span]) -> Result<(), Failure> {
    let kernel = spans.iter().find(|span| span.name == "slow").ok_or("there is no kernel")?;
    let length = kernel.end - kernel.begin;
    ensure!(length >= AT_LEAST, "the kernel took {length:?}");
    let is_received = |span: &&Span| span.phase == Phase::Wire && matches!(span.row, Row::From(_));
    let received = spans.iter().find(is_received).ok_or("nothing was received")?;
    let common = received.end.min(kernel.end).saturating_sub(received.begin.max(kernel.begin));
    ensure!(common + EXACT >= LATER / 2, "{received:?} was not hidden by {kernel:?}");
    let unpacked = spans.iter().find(|span| span.phase == Phase::Unpacking).ok_or("nothing was unpacked")?;
    let follows = unpacked.begin + EXACT >= kernel.end && unpacked.begin + EXACT >= received.end;
    ensure!(follows, "{unpacked:?} did not come after {kernel:?} and {received:?}");
    Ok(())
}

/// Collective, on two or more ranks and a device with separate memory: chunks that are moved by copies have spans for
/// packing in one row and for moving in another. On other devices, does nothing.
///
/// # Errors
/// The spans that were found instead.
pub fn moves_have_a_row<D: Device>(comm: &Communicator, device: &D) -> Result<(), Failure> {
    if !device.info().separate_memory {
        println!("skipped: {} shares memory with the host", device.id());
        return Ok(());
    }
    let trace = comm.begin_trace(DEFAULT_SPANS).clone();
    let options = BindOptions::default().path(DataPath::Messages).staging_chunk(2 * CELLS).staging_copy(0);
    let mut ring = RankRing::with_options(comm, device, options, CELLS)?;
    ring.exchange.run_blocking()?;
    comm.barrier()?;
    let spans = trace.spans();
    let rows = |name: &str| {
        let of = spans.iter().filter(|span| span.name == name && span.phase == Phase::Packing);
        of.map(|span| (&span.row, span.bytes)).collect::<Vec<_>>()
    };
    let (packs, moves) = (rows("pack"), rows("move"));
    let are_chunks = |rows: &[(&Row, u64)]| {
        rows.len() == 4 && rows.iter().all(|(row, bytes)| *row == rows[0].0 && *bytes == 2 * CELLS as u64)
    };
    let apart = are_chunks(&packs) && are_chunks(&moves) && packs[0].0 != moves[0].0;
    ensure!(apart, "packed: {packs:?}, moved: {moves:?}");
    Ok(())
}

fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
