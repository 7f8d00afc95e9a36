//! Steps that are recorded and replayed, on the OpenCL driver that `OCL_ICD_VENDORS` names. It cannot capture them:
//! each replay makes the same calls again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haloport_conformance::steps;
use haloport_core::run_ranks;

#[test]
fn steps_that_are_recorded_are_those_of_overlap() {
    let Some(device) = common::device() else { return };
    for ranks in 1..=4 {
        let captured = run_ranks(ranks, |comm| steps::suite(&comm, &device)).unwrap();
        assert!(captured.iter().all(|count| *count == 0), "{captured:?}");
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
