//! Exchanges whose end the host does not wait for, on the OpenCL driver that `OCL_ICD_VENDORS` names.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haloport_conformance::{Failure, ensure, scheduled};
use haloport_core::{Progress, run_ranks};

#[test]
fn start_and_finish_return_while_a_kernel_runs() {
    let Some(device) = common::device() else { return };
    for ranks in [1, 2] {
        let times = run_ranks(ranks, |comm| {
            let time = scheduled::host_goes_on(&comm, &device, 100, &haloport_sycl::blocking_calls)?;
            ensure!(time < Duration::from_millis(1), "a start and its finish took {time:?}");
            Ok::<_, Failure>(time)
        });
        println!("{ranks} ranks: a start and its finish take {:?} by the median", times.unwrap());
    }
}

#[test]
fn ten_thousand_exchanges_on_four_streams() {
    let Some(device) = common::device() else { return };
    let rounds = |rounds| run_ranks(4, |comm| scheduled::storm(&comm, &device, rounds)).unwrap();
    rounds(100);
    let before = resident_bytes();
    rounds(1250);
    let after = resident_bytes();
    println!("{} MiB resident before, {} MiB after", before >> 20, after >> 20);
    assert!(after < before + (64 << 20), "{before} bytes became {after}");
}

#[test]
fn a_neighbour_that_does_not_come_hangs_no_stream() {
    let Some(device) = common::device() else { return };
    let told = Arc::new(AtomicBool::new(false));
    run_ranks(2, |comm| {
        comm.set_time_limit(Some(Duration::from_millis(300)));
        scheduled::silent_neighbour(&comm, &device, &told)
    })
    .unwrap();
}

#[test]
fn a_neighbour_that_ends_is_named() {
    let Some(device) = common::device() else { return };
    for ranks in [2, 4] {
        run_ranks(ranks, |comm| {
            comm.set_time_limit(Some(Duration::from_secs(5)));
            scheduled::neighbour_that_ends(&comm, &device)
        })
        .unwrap();
    }
}

/// Without the thread, `finish` waits for messages, and all is right all the same.
#[test]
fn progress_by_the_caller() {
    let Some(device) = common::device() else { return };
    run_ranks(2, |comm| {
        comm.set_progress(Progress::Caller)?;
        scheduled::storm(&comm, &device, 20)
    })
    .unwrap();
}

/// The memory of this process that is in use.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    4096 * pages.unwrap_or(0)
}
