//! Exchanges that end without a wait of the host, on the first GPU.
//!
//! Between ranks that are threads and share a device, `finish` waits for messages. What it leaves to the device is tested on one
//! rank here, and among processes in `crates/transport-mpi/tests/mpi`.

use std::time::Duration;

use haloport_conformance::random::cases;
use haloport_conformance::{panics, scheduled};
use haloport_core::{BindOptions, DataPath, Progress, run_ranks};
use haloport_cpu::CpuDevice;

haloport_conformance::backend_tests! { crate::common::device: a_call_that_fails_is_an_error_of_its_rank_and_hangs_no_other }

/// The chunk sizes in bytes of the tests: whole messages, and small chunks.
const CHUNKS: [usize; 2] = [usize::MAX, 1000];

fn in_chunks(bytes: usize) -> BindOptions {
    BindOptions::default().path(DataPath::Messages).staging_chunk(bytes)
}

#[test]
fn start_and_finish_return_while_a_kernel_runs() {
    let Some(device) = crate::common::device_with_gates() else { return };
    let times = run_ranks(1, |comm| scheduled::host_goes_on(&comm, &device, 30, &|| 0)).unwrap();
    println!("a start and its finish take {:?} by the median", times[0]);
}

#[test]
fn each_device_of_an_exchange_keeps_its_own_rule() {
    let Some(device) = crate::common::device_with_gates() else { return };
    let cpu = CpuDevice::with_threads(1).unwrap();
    run_ranks(1, |comm| scheduled::two_devices(&comm, &device, &cpu)).unwrap();
}

#[test]
fn exchanges_on_four_streams() {
    let Some(device) = crate::common::device() else { return };
    let rounds = cases(500) as i64;
    for ranks in [1, 2, 4] {
        run_ranks(ranks, |comm| scheduled::storm(&comm, &device, rounds)).unwrap();
    }
}

#[test]
fn a_neighbour_that_ends_is_named() {
    let Some(device) = crate::common::device() else { return };
    for (ranks, chunk) in [(2, CHUNKS[0]), (2, CHUNKS[1]), (4, CHUNKS[0]), (4, CHUNKS[1])] {
        run_ranks(ranks, |comm| {
            comm.set_time_limit(Some(Duration::from_secs(5)));
            scheduled::neighbour_that_ends(&comm, &device, in_chunks(chunk))
        })
        .unwrap();
    }
}

#[test]
fn a_callback_that_panics_fails_its_exchange_alone() {
    let Some(device) = crate::common::device_with_gates() else { return };
    run_ranks(1, |comm| panics::callback(&comm, &device)).unwrap();
}

/// Without the thread, `finish` waits for messages, and the results are the same.
#[test]
fn progress_by_the_caller() {
    let Some(device) = crate::common::device() else { return };
    run_ranks(2, |comm| {
        comm.set_progress(Progress::Caller)?;
        scheduled::storm(&comm, &device, 20)
    })
    .unwrap();
}
