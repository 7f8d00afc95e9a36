//! Fields in memory of a CUDA device, which the processes of a node map.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use haloport_conformance::random::sized;
use haloport_conformance::{ensure, structured, unstructured};
use haloport_core::device::Device;
use haloport_core::exchange::CopiedBy;
use haloport_core::transport::Reduction;
use haloport_core::{
    BindOptions, Communicator, DataPath, Exchange, ExchangeError, Field, Grid, Halo, Pattern, Split,
    TransportError,
};
use haloport_cuda::CudaDevice;

use crate::{Failure, Outcome};

type RingExchange = Exchange<Field<f64, CudaDevice>>;

/// The cells of each rank, in a ring.
const CELLS: usize = 100;

/// The kinds of handles. A process that has one kind can map memory by the kinds before it, too.
const KINDS: [&str; 3] = ["ipc", "fd", "fabric"];

/// The ways that follow from the handles of all ranks.
struct Expected {
    /// Whether this rank copies from the field of a neighbour, if receivers copy.
    reads: bool,
    /// Whether a neighbour copies to the field of this rank, if senders copy.
    is_written: bool,
    /// The kind of handle that this rank's fields have.
    handle: &'static str,
    /// Whether a thread of this rank hands file descriptors over.
    hands_over: bool,
}

impl Expected {
    /// For `handles` such as `fd`, or `fd+ipc`: those of rank 0, of rank 1, and so on, from the first again.
    fn of(comm: &Communicator, device: &CudaDevice, handles: &str) -> Result<Expected, Failure> {
        let kinds: Option<Vec<usize>> =
            handles.split('+').map(|handle| KINDS.iter().position(|kind| *kind == handle)).collect();
        let kinds = kinds
            .ok_or_else(|| format!("expected {} with + between them, found {handles}", KINDS.join(", ")))?;
        let of = |rank: usize| kinds[rank % kinds.len()];
        let devices = CudaDevice::list()?;
        let reaches = |rank: usize| device.reaches(devices[rank % devices.len()].id);
        let (size, own) = (comm.size(), of(comm.rank()));
        let neighbours = [(comm.rank() + size - 1) % size, (comm.rank() + 1) % size];
        let (mut reads, mut is_written) = (false, false);
        for rank in neighbours {
            let is_reached = reaches(rank)?;
            reads |= of(rank) <= own && is_reached;
            is_written |= own <= of(rank) && is_reached;
        }
        let handle = KINDS[own];
        Ok(Expected { reads, is_written, handle, hands_over: handle == "fd" })
    }
}

/// `count` random exchanges of boxes and of lists against their oracles, and the lifetime of mapped memory.
pub(crate) fn suite(comm: &Communicator, handles: &str, count: u64) -> Outcome {
    ensure!(comm.size() > 1, "expected several ranks, found {}", comm.size());
    let number = comm.rank() % CudaDevice::list()?.len();
    let device = CudaDevice::select(&format!("cuda:{number}"))?;
    let expected = Expected::of(comm, &device, handles)?;
    // MPI and drivers open files of their own in the first round.
    let mut before = None;
    for _ in 0..2 {
        for first in 0..comm.size() {
            for copied_by in [CopiedBy::Receiver, CopiedBy::Sender] {
                fields_go_in_any_order(comm, &device, &expected, first, copied_by)?;
            }
        }
        gone_neighbour(comm, &device)?;
        // What neighbours have mapped is freed when the next exchange is bound, which exports nothing.
        drop(ring(comm, &device, BindOptions::default().path(DataPath::Messages))?);
        comm.barrier()?;
        // Neighbours release what they have mapped when they bind an exchange.
        await_count("open files", 0..=*before.get_or_insert(open_files()?), open_files)?;
    }
    for (number, size) in sized(count) {
        structured::check(comm, &device, &structured::Case::new(number, comm.size(), size))?;
        unstructured::check(comm, &device, &unstructured::Case::new(number, comm.size(), size))?;
    }
    comm.barrier()?;
    if comm.rank() == 0 {
        println!(
            "{} ranks: {count} random exchanges of boxes and {count} of lists in memory of {}, shared by {handles}",
            comm.size(),
            device.id()
        );
    }
    Ok(())
}

/// Rank `first` drops its field first; its neighbours, which have mapped that, drop theirs later, and all bind others.
fn fields_go_in_any_order(
    comm: &Communicator,
    device: &CudaDevice,
    expected: &Expected,
    first: usize,
    copied_by: CopiedBy,
) -> Outcome {
    let mut exchange =
        ring(comm, device, BindOptions::default().prefer(DataPath::Direct).copied_by(copied_by))?;
    run(comm, &mut exchange)?;
    let bytes = exchange.traffic().direct_bytes;
    let is_direct = if copied_by == CopiedBy::Sender { expected.is_written } else { expected.reads };
    ensure!((bytes > 0) == is_direct, "{bytes} bytes are copied straight between fields: {copied_by:?}");
    let memory = device.reached_memory_at(exchange.fields().pointer(0)?)?;
    let handle = match memory.shared_by {
        handles if handles.fabric => "fabric",
        handles if handles.descriptor => "fd",
        _ => "ipc",
    };
    ensure!(handle == expected.handle, "expected memory with a handle {}, found {memory:?}", expected.handle);
    // The thread of an earlier exchange ends on its own time.
    let hands_over = usize::from(expected.hands_over);
    await_count("threads that hand descriptors over", hands_over..=hands_over, threads)?;
    comm.barrier()?;
    let exchange = Some(exchange).filter(|_| comm.rank() != first);
    comm.barrier()?;
    drop(exchange);
    comm.barrier()?;
    Ok(())
}

/// If its neighbours have gone, a rank gets an error at once, and all can go on.
fn gone_neighbour(comm: &Communicator, device: &CudaDevice) -> Outcome {
    let exchange = Some(ring(comm, device, BindOptions::default().prefer(DataPath::Direct))?)
        .filter(|_| comm.rank() == 0);
    let mut direct = [exchange.as_ref().map_or(0, |exchange| exchange.traffic().direct_bytes as u64)];
    comm.all_reduce(&mut direct, Reduction::Max)?;
    if let Some(mut exchange) = exchange.filter(|_| direct[0] > 0) {
        let began = Instant::now();
        let outcome = exchange.run_blocking();
        let gone = matches!(&outcome, Err(ExchangeError::Transport(TransportError::PeerGaveUp { .. })));
        ensure!(gone, "expected that a neighbour gave up, found {outcome:?}");
        ensure!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
    }
    comm.barrier()?;
    run(comm, &mut ring(comm, device, BindOptions::default().prefer(DataPath::Direct))?)
}

/// The number of files that this process has open.
fn open_files() -> Result<usize, Failure> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

/// Waits until what `found` counts is as expected, but at most 10 s.
fn await_count(
    what: &str,
    expected: RangeInclusive<usize>,
    found: impl Fn() -> Result<usize, Failure>,
) -> Outcome {
    let began = Instant::now();
    loop {
        let found = found()?;
        if expected.contains(&found) {
            return Ok(());
        }
        ensure!(began.elapsed() < Duration::from_secs(10), "expected {expected:?} {what}, found {found}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The number of threads of this process that hand file descriptors over.
fn threads() -> Result<usize, Failure> {
    let mut found = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        // A thread may end meanwhile.
        let name = std::fs::read_to_string(thread?.path().join("comm")).unwrap_or_default();
        found += usize::from(name.trim() == "haloport-share");
    }
    Ok(found)
}

/// A ring of all ranks.
fn ring(comm: &Communicator, device: &CudaDevice, options: BindOptions) -> Result<RingExchange, Failure> {
    let size = comm.size();
    let grid = Grid::new([CELLS * size])?.periodic([true])?;
    let mine = Split::even(&grid, [size])?.part(comm.rank()).ok_or("no part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
    Ok(pattern.bind_with(Field::new(device, &pattern)?, options)?)
}

/// Exchanges three times, with other values each time.
fn run(comm: &Communicator, exchange: &mut RingExchange) -> Outcome {
    let size = comm.size();
    for round in 0..3 {
        let value = |rank: usize| (10 * round + 1 + rank) as f64;
        let mut values = vec![value(comm.rank()); CELLS + 2];
        (values[0], values[CELLS + 1]) = (-1.0, -1.0);
        exchange.fields_mut().copy_from(0, &values)?;
        exchange.run_blocking()?;
        let found = exchange.fields().to_vec(0)?;
        let expected = [value((comm.rank() + size - 1) % size), value((comm.rank() + 1) % size)];
        let halo = [found[0], found[CELLS + 1]];
        ensure!(halo == expected, "found {halo:?} in the halo, expected {expected:?}");
    }
    Ok(())
}
