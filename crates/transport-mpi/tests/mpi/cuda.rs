//! Exchanges among processes on the first GPU, if there is one: straight from the neighbour's memory, and in messages.

use std::time::Duration;

use haloport_conformance::random::{numbers, sized};
use haloport_conformance::{ensure, ordering, overlap, scheduled, structured, unstructured};
use haloport_core::device::{Device, DeviceError, Priority, Stream, offered};
use haloport_core::transport::Reduction;
use haloport_core::{BindOptions, Communicator, DataPath, Exchange, Field, Grid, Halo, Pattern, Split};
use haloport_cpu::CpuDevice;
use haloport_cuda::CudaDevice;

use crate::{Failure, Outcome};

/// The cells of each rank, in a ring.
const CELLS: usize = 100;

/// The rounds of exchanges on four streams.
const ROUNDS: i64 = 30;

/// `count` random exchanges of boxes and of unstructured domains against their oracles, and exchanges on streams.
pub(crate) fn suite(comm: &Communicator, count: u64) -> Outcome {
    let device = match CudaDevice::new() {
        Ok(device) => device,
        Err(error @ DeviceError::NotFound { .. }) if std::env::var_os("HALOPORT_CUDA").is_none() => {
            println!("skipped: {error}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let direct = direct_bytes(comm, &device)?;
    for (number, size) in sized(count) {
        let case = structured::Case::new(number, comm.size(), size);
        // A third of them in chunks.
        let case = if number % 3 == 0 { case.in_chunks(256) } else { case };
        structured::check(comm, &device, &case)?;
        unstructured::check(comm, &device, &unstructured::Case::new(number, comm.size(), size))?;
    }
    if std::env::var("HALOPORT_DRIVER_QUEUES").is_ok_and(|queues| queues == "1") {
        // What is behind a wait for a neighbour in that queue is not sent, and ranks start these in different orders.
        if comm.rank() == 0 {
            println!(
                "skipped: exchanges started in an order of each rank's own, since all streams share one queue"
            );
        }
    } else {
        for number in numbers(count.div_ceil(10)) {
            structured::interleaved(comm, &device, number)?;
        }
    }
    scheduled::storm(comm, &device, ROUNDS)?;
    if device.info().capabilities.gates {
        behind_gates(comm, &device)?;
    } else if comm.rank() == 0 {
        println!("skipped: work behind gates, since this device has none");
    }
    comm.barrier()?;
    if comm.rank() == 0 {
        println!(
            "{} ranks on {}: {count} random exchanges of boxes and {count} of lists; in a ring, {direct} bytes straight from \
             the neighbour's memory",
            comm.size(),
            device.info().name
        );
    }
    Ok(())
}

/// `count` random exchanges of boxes and of unstructured domains against their oracles, and exchanges on streams, in
/// messages that streams send and receive. Each rank has a device of its own; all are on one machine.
pub(crate) fn stream_messages(comm: &Communicator, count: u64) -> Outcome {
    let Some(device) = own_device(comm)? else { return Ok(()) };
    for (number, size) in sized(count) {
        let boxes = structured::Case::new(number, comm.size(), size).by_streams();
        structured::check(comm, &device, &boxes)?;
        let lists = unstructured::Case::new(number, comm.size(), size).by_streams();
        unstructured::check(comm, &device, &lists)?;
    }
    let paths = [DataPath::StreamMessages, DataPath::Direct];
    scheduled::storm_by(comm, &device, ROUNDS, paths)?;
    if device.info().capabilities.gates {
        ordering::stream_messages(comm, &device, None)?;
    }
    comm.barrier()?;
    if comm.rank() == 0 {
        println!("{} ranks: {count} random exchanges of boxes and {count} of lists by streams", comm.size());
    }
    Ok(())
}

/// `count` random exchanges of each kind between two nodes, with at least two ranks on one of them: straight within a node,
/// and in messages of streams from node to node. Each rank has a device of its own. Then each rank in turn takes no part in an
/// exchange, and the others, some of which have both kinds of neighbours, do not hang.
pub(crate) fn nodes(comm: &Communicator, count: u64) -> Outcome {
    let Some(device) = own_device(comm)? else { return Ok(()) };
    let traffic = ring_of(comm, &device, DataPath::Quickest)?.traffic();
    let has_both = traffic.direct_bytes > 0 && traffic.stream_message_bytes > 0;
    let [with_both] = comm.all_reduce([u64::from(has_both)], Reduction::Sum)?;
    ensure!(with_both > 0, "in a ring, no rank has both ways to its neighbours: {traffic:?}");
    for (number, size) in sized(count) {
        structured::check(comm, &device, &structured::Case::new(number, comm.size(), size))?;
        unstructured::check(comm, &device, &unstructured::Case::new(number, comm.size(), size))?;
    }
    scheduled::storm(comm, &device, ROUNDS)?;
    for missing in 0..comm.size() {
        scheduled::missing_rank(comm, &device, BindOptions::default(), missing, Duration::from_secs(2))
            .map_err(|error| format!("without rank {missing}: {error}"))?;
        if comm.rank() == 0 {
            println!("without rank {missing}, no other hangs");
        }
    }
    if comm.rank() == 0 {
        println!(
            "{} ranks: {count} random exchanges of boxes and {count} of lists between nodes",
            comm.size()
        );
    }
    Ok(())
}

/// A device for this rank alone; `None`, and the reason printed, if there are fewer devices than ranks, or streams cannot
/// send messages.
fn own_device(comm: &Communicator) -> Result<Option<CudaDevice>, Failure> {
    let skip = |why: String| {
        if comm.rank() == 0 {
            println!("skipped: {why}");
        }
        Ok(None)
    };
    // All ranks find the same.
    let found = CudaDevice::list().map_or(0, |devices| devices.len());
    if found < comm.size() {
        return skip(format!("{} devices are needed, {found} found", comm.size()));
    }
    let device = CudaDevice::select(&format!("cuda:{}", comm.rank()))?;
    let messaging = offered(device.stream_messaging(), "messages in streams", device.id());
    match messaging.and_then(|it| it.offer_stream_messages()) {
        Err(error @ (DeviceError::NotFound { .. } | DeviceError::Unsupported { .. })) => {
            skip(error.to_string())
        }
        _ => Ok(Some(device)),
    }
}

/// Tests that hold work back by gates, or that need them.
fn behind_gates(comm: &Communicator, device: &CudaDevice) -> Outcome {
    let owner = device.create_stream(Priority::Normal)?;
    // SAFETY: the stream outlives what is borrowed from it.
    let borrowed = unsafe { device.borrow_stream(owner.handle()) }?;
    ordering::suite(comm, device, Some(&borrowed))?;
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
fn direct_bytes(comm: &Communicator, device: &CudaDevice) -> Result<usize, Failure> {
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
fn ring_of(
    comm: &Communicator,
    device: &CudaDevice,
    path: DataPath,
) -> Result<Exchange<Field<f64, CudaDevice>>, Failure> {
    let size = comm.size();
    let grid = Grid::new([CELLS * size])?.periodic([true])?;
    let mine = Split::even(&grid, [size])?.part(comm.rank()).ok_or("no part")?;
    let pattern = Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?;
    let field = Field::<f64, _>::new(device, &pattern)?;
    Ok(pattern.bind_with(field, BindOptions::default().prefer(path))?)
}
