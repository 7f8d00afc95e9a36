//! Exchanges among processes on a device: straight from the neighbour's memory, and in messages.

use haloport_conformance::random::{numbers, sized};
use haloport_conformance::{
    accumulated, ensure, ordering, overlap, progress, redistributed, same_bits, scheduled, structured,
    unstructured,
};
use haloport_core::device::{Device, Priority, Stream};
use haloport_core::{BindOptions, Communicator, DataPath, Exchange, Field, Grid, Halo, Pattern, Split};
use haloport_cpu::CpuDevice;

use crate::{Failure, Outcome};

/// The cells of each rank, in a ring.
const CELLS: usize = 100;

/// The rounds of exchanges on four streams.
const ROUNDS: i64 = 30;

/// `count` random exchanges of boxes and of unstructured domains, halos that go to their owners, and redistributions against their
/// oracles, as many sums of halos, exact sums and sums in the order of ids, bit for bit, and exchanges on streams.
/// `in_any_order`: also exchanges that each rank starts in an order of its own.
pub(crate) fn suite<D: Device>(comm: &Communicator, device: &D, count: u64, in_any_order: bool) -> Outcome {
    let direct = direct_bytes(comm, device)?;
    let cpu = CpuDevice::with_threads(1)?;
    for (number, size) in sized(count) {
        let case = structured::Case::new(number, comm.size(), size);
        // A third of them in chunks.
        let case = if number % 3 == 0 { case.in_chunks(256) } else { case };
        structured::check(comm, device, &case)?;
        unstructured::check(comm, device, &unstructured::Case::new(number, comm.size(), size))?;
        accumulated::check(comm, device, number, size)?;
        redistributed::check(comm, device, number, size)?;
        if device.combining().is_some() {
            same_bits::of_halos(comm, device, &cpu, (number, size), 2)?;
        }
        same_bits::of_all_ranks(comm, device, number)?;
        same_bits::in_the_order_of_ids(comm, device, number)?;
    }
    if in_any_order {
        for number in numbers(count.div_ceil(10)) {
            structured::interleaved(comm, device, number)?;
        }
    }
    scheduled::storm(comm, device, ROUNDS)?;
    if device.info().capabilities.gates {
        behind_gates(comm, device)?;
    } else if comm.rank() == 0 {
        println!("skipped: work behind gates, since this device has none");
    }
    comm.barrier()?;
    if comm.rank() == 0 {
        println!(
            "{} ranks on {}: {count} random exchanges of boxes and {count} of lists, {count} with halos that go to their owners, \
             {count} redistributions; in a ring, {direct} bytes straight from \
             the neighbour's memory",
            comm.size(),
            device.info().name
        );
    }
    Ok(())
}

/// Tests that hold work back by gates, or that need them.
fn behind_gates<D: Device>(comm: &Communicator, device: &D) -> Outcome {
    let owner = device.create_stream(Priority::Normal)?;
    // SAFETY: the stream outlives what is borrowed from it.
    let borrowed = unsafe { device.borrow_stream(owner.handle()) }?;
    ordering::suite(comm, device, Some(&borrowed))?;
    progress::forgotten_exchanges_are_completed(comm, device)?;
    overlap::PATHS.into_iter().try_for_each(|options| overlap::steps_in_a_row(comm, device, options))?;
    let time = scheduled::host_goes_on(comm, device, 50, &|| 0)?;
    if comm.rank() == 0 {
        println!(
            "a start and its finish cost the host {time:?} behind a kernel of 300 ms (wanted: at most 60µs)"
        );
    }
    scheduled::two_devices(comm, device, &CpuDevice::with_threads(1)?)
}

/// The bytes that a rank of a ring reads from its neighbours' memory in one exchange. If all ranks are near and the device
/// exports memory, there must be some.
fn direct_bytes<D: Device>(comm: &Communicator, device: &D) -> Result<usize, Failure> {
    let size = comm.size();
    let exchange = ring_of(comm, device, DataPath::Direct)?;
    let near = size > 1 && (0..size).all(|peer| peer == comm.rank() || comm.is_near(peer));
    let bytes = exchange.traffic().direct_bytes;
    ensure!(
        !near || bytes > 0 || !device.info().capabilities.memory_export,
        "fields of neighbours on the same node are not read"
    );
    Ok(bytes)
}

/// An exchange in which the halos of a rank come from the ranks before and after it.
pub(crate) fn ring_of<D: Device>(
    comm: &Communicator,
    device: &D,
    path: DataPath,
) -> Result<Exchange<Field<f64, D>>, Failure> {
    let size = comm.size();
    let grid = Grid::new([CELLS * size])?.periodic([true])?;
    let mine = Split::even(&grid, [size])?.part(comm.rank()).ok_or("no part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
    let field = Field::<f64, _>::new(device, &pattern)?;
    Ok(pattern.bind_with(field, BindOptions::default().prefer(path))?)
}
