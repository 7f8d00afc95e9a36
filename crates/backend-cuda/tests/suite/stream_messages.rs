//! Exchanges whose messages streams send and receive, by NCCL. Ranks are threads, each on a device of its own.

#[path = "../common/nodes.rs"]
mod nodes;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haloport_conformance::random::cases;
use haloport_conformance::{Failure, ensure, ordering, overlap, scheduled, structured, unstructured};
use haloport_core::device::{Device, DeviceError, Priority, Stream, offered};
use haloport_core::{
    BindError, BindOptions, Communicator, DataPath, Exchange, Field, Grid, Halo, Pattern, Progress, Split,
    run_ranks,
};
use haloport_cuda::CudaDevice;

/// Runs a test on 2 ranks up to the number of devices, at most 4. Prints that it is skipped if there is only one, or no
/// NCCL.
fn on_devices(test: impl Fn(&Communicator, &CudaDevice) -> Result<(), Failure> + Sync) {
    let Some(devices) = crate::common::devices(2) else { return };
    let messaging = offered(devices[0].stream_messaging(), "messages in streams", devices[0].id());
    if let Err(error @ (DeviceError::NotFound { .. } | DeviceError::Unsupported { .. })) =
        messaging.and_then(|it| it.offer_stream_messages())
    {
        eprintln!("skipped: {error}");
        return;
    }
    for ranks in 2..=CudaDevice::list().unwrap().len().min(4) {
        run_ranks(ranks, |comm| {
            let device = CudaDevice::select(&format!("cuda:{}", comm.rank()))?;
            test(&comm, &device).map_err(|error| format!("{ranks} ranks, rank {}: {error}", comm.rank()))?;
            Ok::<_, Failure>(())
        })
        .unwrap();
    }
}

/// The pattern of a ring, with some cells of each rank.
fn ring(comm: &Communicator) -> Result<Pattern, Failure> {
    let grid = Grid::new([100 * comm.size()])?.periodic([true])?;
    let mine = Split::even(&grid, [comm.size()])?.part(comm.rank()).ok_or("no part")?;
    Ok(Pattern::structured(comm, &grid, &[mine], &Halo::uniform(1))?)
}

fn options() -> BindOptions {
    BindOptions::default().path(DataPath::StreamMessages)
}

fn bound(comm: &Communicator, device: &CudaDevice) -> Result<Exchange<Field<f64, CudaDevice>>, Failure> {
    let pattern = ring(comm)?;
    let field = Field::new(device, &pattern)?;
    Ok(pattern.bind_with(field, options())?)
}

#[test]
fn random_exchanges_match_the_global_oracle() {
    let total = cases(60);
    on_devices(|comm, device| {
        for number in 0..total / 3 {
            let size = 1 + (number * 30 / total) as usize;
            let boxes = structured::Case::new(number, comm.size(), size).by_streams();
            structured::check(comm, device, &boxes)?;
            let lists = unstructured::Case::new(number, comm.size(), size).by_streams();
            unstructured::check(comm, device, &lists)?;
        }
        Ok(())
    });
}

#[test]
fn exchanges_are_ordered_with_the_work_around_them() {
    on_devices(|comm, device| {
        let owner = device.create_stream(Priority::Normal)?;
        // SAFETY: the stream outlives what is borrowed from it.
        let borrowed = unsafe { device.borrow_stream(owner.handle()) }?;
        ordering::stream_messages(comm, device, Some(&borrowed))
    });
}

#[test]
fn many_exchanges_on_several_streams_at_once() {
    for other in [DataPath::StreamMessages, DataPath::Messages, DataPath::Direct] {
        on_devices(|comm, device| {
            scheduled::storm_by(comm, device, 5, [DataPath::StreamMessages, other])
                .map_err(|error| format!("beside {other}: {error}").into())
        });
    }
}

#[test]
fn without_a_progress_thread_it_is_the_same() {
    on_devices(|comm, device| {
        comm.set_progress(Progress::Caller)?;
        scheduled::storm_by(comm, device, 3, [DataPath::StreamMessages; 2])
    });
}

/// By the model, streams send messages between nodes unless the transport reaches the memory of the device.
#[test]
fn between_nodes_the_model_chooses_it() {
    on_devices(|comm, device| {
        let by_streams = |comm: &Communicator, path| -> Result<bool, Failure> {
            let pattern = ring(comm)?;
            let field = Field::<f64, _>::new(device, &pattern)?;
            let mut exchange = pattern.bind_with(field, BindOptions::default().prefer(path))?;
            if comm.info().device_memory.is_empty() {
                exchange.run_blocking()?;
            }
            Ok(exchange.traffic().stream_message_bytes > 0)
        };
        let apart = nodes::apart(comm, false);
        ensure!(by_streams(&apart, DataPath::Quickest)?, "the transport sends what streams could");
        ensure!(!by_streams(&apart, DataPath::Messages)?, "the transport was asked for");
        drop(apart);
        comm.barrier()?;
        ensure!(!by_streams(comm, DataPath::Quickest)?, "within a process, streams reach the fields");
        ensure!(
            !by_streams(&nodes::apart(comm, true), DataPath::Quickest)?,
            "the transport reaches the memory"
        );
        Ok(())
    });
}

#[test]
fn traffic_names_the_way() {
    on_devices(|comm, device| {
        let traffic = bound(comm, device)?.traffic();
        // With two ranks, both halos come from one neighbour.
        let messages = (comm.size() - 1).min(2);
        ensure!(traffic.messages == messages && traffic.message_bytes >= 16, "{traffic:?}");
        ensure!(traffic.stream_message_bytes == traffic.message_bytes, "{traffic:?}");
        ensure!(traffic.path() == "messages in streams", "{}", traffic.path());
        Ok(())
    });
}

#[test]
fn a_neighbour_that_does_not_exchange_hangs_no_stream() {
    let told = AtomicBool::new(false);
    on_devices(|comm, device| {
        told.store(false, Ordering::SeqCst);
        comm.barrier()?;
        scheduled::silent_neighbour(comm, device, options(), Duration::from_secs(2), &told)
    });
}

#[test]
fn memory_that_is_dropped_in_flight_holds_nobody_up() {
    let dropped = AtomicBool::new(false);
    on_devices(|comm, device| scheduled::memory_dropped_in_flight(comm, device, options(), &dropped));
}

#[test]
fn a_neighbour_that_ends_hangs_no_stream() {
    on_devices(|comm, device| {
        let begin = Instant::now();
        scheduled::neighbour_that_ends(comm, device, options())?;
        ensure!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
        Ok(())
    });
}

/// After a failure, fields can be bound again: all ranks join another group.
#[test]
fn after_a_failure_ranks_join_another_group() {
    on_devices(|comm, device| {
        let mut exchange = bound(comm, device)?;
        let mut other = bound(comm, device)?;
        comm.set_time_limit(Some(Duration::from_secs(1)));
        if comm.rank() == 0 {
            let ended = exchange.run_blocking().unwrap_err().to_string();
            ensure!(ended.contains("time limit") && ended.contains("from rank 1"), "{ended}");
            let ended = other.run_blocking().unwrap_err().to_string();
            ensure!(ended.contains("after another exchange"), "{ended}");
        }
        drop((exchange, other));
        comm.set_time_limit(Some(Duration::from_secs(60)));
        comm.barrier()?;
        bound(comm, device)?.run_blocking()?;
        scheduled::storm_by(comm, device, 1, [DataPath::StreamMessages; 2])
    });
}

/// A drop completes what is in flight, while a neighbour is late.
#[test]
fn an_exchange_that_is_dropped_in_flight_is_completed() {
    on_devices(|comm, device| {
        let mut exchange = bound(comm, device)?;
        let pending = exchange.start()?;
        if comm.rank() == 0 {
            std::thread::sleep(Duration::from_millis(20));
            pending.finish_blocking()?;
        } else {
            drop(pending);
            drop(exchange);
        }
        comm.barrier()?;
        Ok(())
    });
}

#[test]
fn ranks_that_ask_for_different_paths_get_the_same_error() {
    on_devices(|comm, device| {
        let pattern = ring(comm)?;
        let field = Field::<f64, _>::new(device, &pattern)?;
        let path = if comm.rank() == 1 { DataPath::StreamMessages } else { DataPath::Messages };
        let error = pattern.bind_with(field, BindOptions::default().prefer(path)).unwrap_err();
        let expected = "rank 1: the option `path` is StreamMessages here and Messages on rank 0; pass the same on every \
                        rank";
        assert_eq!(error, BindError::Refused(expected.into()));
        Ok(())
    });
}

#[test]
fn ranks_that_share_a_device_get_an_error() {
    on_devices(|comm, _| {
        let error = bound(comm, &CudaDevice::select("cuda:0")?).unwrap_err().to_string();
        let expected = "fields cannot go in messages of streams, which the option `path` asks for: ranks 0 and 1 share a \
                        processor, which NCCL";
        ensure!(error.starts_with(expected), "{error}");
        Ok(())
    });
}

#[test]
fn steps_in_a_row_are_right() {
    on_devices(|comm, device| overlap::steps_in_a_row(comm, device, options));
}
