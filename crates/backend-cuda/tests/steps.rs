//! Steps that are captured once and replayed with one launch, on the first GPU.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haloport_conformance::steps;
use haloport_core::run_ranks;
use haloport_cuda::CudaDevice;

#[test]
fn steps_that_are_recorded_are_those_of_overlap() {
    let Some(device) = common::device() else { return };
    [1, 2].into_iter().for_each(|ranks| suite_on(&device, ranks));
}

/// More streams than the driver has queues by itself, of which each waits for what is in others:
/// `CUDA_DEVICE_MAX_CONNECTIONS=32` gives it more.
#[test]
fn steps_of_four_ranks_on_one_device_are_those_of_overlap() {
    let Some(device) = common::device() else { return };
    [3, 4].into_iter().for_each(|ranks| suite_on(&device, ranks));
}

fn suite_on(device: &CudaDevice, ranks: usize) {
    let captured = run_ranks(ranks, |comm| steps::suite(&comm, device)).unwrap();
    println!("{ranks} ranks: {captured:?} ways of a step were captured");
    assert!(captured.iter().all(|count| *count > 0), "{captured:?}");
}

#[test]
fn steps_in_messages_are_captured_and_others_say_why_not() {
    let Some(device) = common::device() else { return };
    for ranks in [1, 2] {
        run_ranks(ranks, |comm| steps::capturing(&comm, &device)).unwrap();
    }
}

#[test]
fn a_neighbour_that_does_not_replay_hangs_no_stream() {
    let Some(device) = common::device() else { return };
    let told = Arc::new(AtomicBool::new(false));
    run_ranks(2, |comm| {
        comm.set_time_limit(Some(Duration::from_millis(300)));
        steps::silent_neighbour(&comm, &device, &told)
    })
    .unwrap();
}
