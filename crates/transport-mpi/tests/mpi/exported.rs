//! Fields in a device's memory that other processes of the node can map.

use haloport_conformance::exported::{Exporting, NAME, exporting};
use haloport_conformance::random::{numbers, sized};
use haloport_conformance::{accumulated, ensure, redistributed, sets, structured, unstructured};
use haloport_core::{Communicator, DataPath, Exchange, Field, Grid, Halo, Pattern, Split};
use haloport_cpu::CpuDevice;

use crate::{Failure, Outcome};

type RingExchange = Exchange<Field<f64, Exporting<CpuDevice>>>;

/// The cells of each rank, in a ring.
const CELLS: usize = 100;

/// `count` random exchanges of boxes and of lists, as many with halos that go to their owners, and redistributions, against their oracles, and the lifetime of
/// mapped memory.
pub(crate) fn suite(comm: &Communicator, count: u64) -> Outcome {
    let device = exporting(&CpuDevice::with_threads(1)?);
    memory_is_kept_until_nobody_reaches_it(comm, &device)?;
    for (number, size) in sized(count) {
        structured::check(comm, &device, &structured::Case::new(number, comm.size(), size))?;
        unstructured::check(comm, &device, &unstructured::Case::new(number, comm.size(), size))?;
        accumulated::check(comm, &device, number, size)?;
        redistributed::check(comm, &device, number, size)?;
        sets::check(comm, &device, number, size)?;
    }
    for number in numbers(count.div_ceil(5)) {
        structured::interleaved(comm, &device, number)?;
    }
    comm.barrier()?;
    if comm.rank() == 0 {
        println!(
            "{} ranks: {count} random exchanges of boxes, {count} of lists and {count} redistributions in exported memory",
            comm.size()
        );
    }
    Ok(())
}

/// Rank 0 drops its field before its neighbours: the memory that they have mapped stays until they drop theirs.
fn memory_is_kept_until_nobody_reaches_it(comm: &Communicator, device: &Exporting<CpuDevice>) -> Outcome {
    let before = mapped()?;
    let exchange = ring(comm, device, DataPath::Direct)?;
    let near = comm.size() > 1 && (0..comm.size()).all(|peer| peer == comm.rank() || comm.is_near(peer));
    ensure!(
        !near || exchange.traffic().direct_bytes > 0,
        "fields of neighbours on the same node are not read"
    );
    comm.barrier()?;
    let exchange = Some(exchange).filter(|_| comm.rank() != 0);
    comm.barrier()?;
    if near && comm.rank() == 0 {
        ensure!(mapped()? > before, "memory was freed that a neighbour has mapped");
    }
    comm.barrier()?;
    drop(exchange);
    comm.barrier()?;
    // The memory is freed when the next exchange is bound, which exports nothing.
    drop(ring(comm, device, DataPath::Messages)?);
    let after = mapped()?;
    ensure!(after == before, "{after} mappings are left, there were {before}");
    comm.barrier()?;
    Ok(())
}

/// The number of mappings of such memory in this process.
fn mapped() -> Result<usize, Failure> {
    Ok(std::fs::read_to_string("/proc/self/maps")?.lines().filter(|line| line.contains(NAME)).count())
}

/// A ring of all ranks, bound and exchanged once.
fn ring(comm: &Communicator, device: &Exporting<CpuDevice>, path: DataPath) -> Result<RingExchange, Failure> {
    let size = comm.size();
    let grid = Grid::new([CELLS * size])?.periodic([true])?;
    let mine = Split::even(&grid, [size])?.part(comm.rank()).ok_or("no part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
    let options = haloport_core::BindOptions::default().prefer(path);
    let mut exchange = pattern.bind_with(Field::new(device, &pattern)?, options)?;
    let value = |rank: usize| (1 + rank) as f64;
    let mut values = vec![value(comm.rank()); CELLS + 2];
    (values[0], values[CELLS + 1]) = (-1.0, -1.0);
    exchange.fields_mut().copy_from(0, &values)?;
    exchange.run_blocking()?;
    let found = exchange.fields().to_vec(0)?;
    let expected = [value((comm.rank() + size - 1) % size), value((comm.rank() + 1) % size)];
    ensure!([found[0], found[CELLS + 1]] == expected, "found {found:?} in the halo, expected {expected:?}");
    Ok(exchange)
}
