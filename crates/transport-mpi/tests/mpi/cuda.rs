//! Exchanges among processes on the first GPU, if there is one: straight from the neighbour's memory, and in messages.

use std::time::Duration;

use haloport_conformance::random::sized;
use haloport_conformance::{ensure, ordering, scheduled, structured, unstructured};
use haloport_core::device::{Device, DeviceError, offered};
use haloport_core::transport::Reduction;
use haloport_core::{BindOptions, Communicator, DataPath};
use haloport_cuda::CudaDevice;

use crate::{Failure, Outcome, on_device};

/// The rounds of exchanges on four streams.
const ROUNDS: i64 = 30;

/// `count` random exchanges of boxes and of unstructured domains against their oracles, and exchanges on streams.
pub(crate) fn suite(comm: &Communicator, count: u64) -> Outcome {
    let Some(device) = device()? else { return Ok(()) };
    // What is behind a wait for a neighbour in that queue is not sent, and ranks start some exchanges in different orders.
    let one_queue = std::env::var("HALOPORT_DRIVER_QUEUES").is_ok_and(|queues| queues == "1");
    if one_queue && comm.rank() == 0 {
        println!(
            "skipped: exchanges started in an order of each rank's own, since all streams share one queue"
        );
    }
    on_device::suite(comm, &device, count, !one_queue)
}

/// The first GPU; `None`, and the reason printed, if there is none.
pub(crate) fn device() -> Result<Option<CudaDevice>, Failure> {
    match CudaDevice::new() {
        Err(error @ DeviceError::NotFound { .. }) if std::env::var_os("HALOPORT_CUDA").is_none() => {
            println!("skipped: {error}");
            Ok(None)
        }
        device => Ok(Some(device?)),
    }
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
    let traffic = on_device::ring_of(comm, &device, DataPath::Quickest)?.traffic();
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
