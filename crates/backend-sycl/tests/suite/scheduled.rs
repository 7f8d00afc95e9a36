//! Exchanges that end without a wait of the host, on the OpenCL driver that `OCL_ICD_VENDORS` names.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haloport_conformance::backend::printed_by;
use haloport_conformance::{Failure, drawn, ensure, scheduled, usual};
use haloport_core::{BindOptions, DataPath, Progress, run_ranks};
use haloport_cpu::CpuDevice;

haloport_conformance::backend_tests! { crate::common::device:
    a_call_that_fails_is_an_error_of_its_rank_and_hangs_no_other,
    steps_in_a_row_are_right,
}

/// The chunk sizes in bytes of the tests: whole messages, and small chunks.
const CHUNKS: [usize; 2] = [usize::MAX, 1000];

fn in_chunks(bytes: usize) -> BindOptions {
    BindOptions::default().path(DataPath::Messages).staging_chunk(bytes)
}

#[test]
fn start_and_finish_return_while_a_kernel_runs() {
    let Some(device) = crate::common::device() else { return };
    for &ranks in drawn(&[1, 2]) {
        let times = run_ranks(ranks, |comm| {
            let time = scheduled::host_goes_on(&comm, &device, 30, &haloport_sycl::blocking_calls)?;
            ensure!(time < Duration::from_millis(1), "a start and its finish took {time:?}");
            Ok::<_, Failure>(time)
        });
        println!("{ranks} ranks: a start and its finish take {:?} by the median", times.unwrap());
    }
}

#[test]
fn each_device_of_an_exchange_keeps_its_own_rule() {
    let Some(device) = crate::common::device() else { return };
    let cpu = CpuDevice::with_threads(1).unwrap();
    for ranks in [1, 2] {
        run_ranks(ranks, |comm| scheduled::two_devices(&comm, &device, &cpu)).unwrap();
    }
}

#[test]
fn many_exchanges_on_four_streams_take_no_more_memory() {
    // In a process of its own: the memory of this one grows by what other tests hold.
    println!("{}", printed_by("measures_the_memory_of_many_exchanges", "HALOPORT_TEST_ALONE", "1").unwrap());
}

#[test]
#[ignore = "measures, for the test of many exchanges"]
fn measures_the_memory_of_many_exchanges() {
    let Some(device) = crate::common::device() else { return };
    let rounds = |rounds| run_ranks(4, |comm| scheduled::storm(&comm, &device, rounds)).unwrap();
    rounds(usual(40, 100));
    let before = resident_bytes();
    let (counted, most) = usual((150, 24 << 20), (1250, 64 << 20));
    rounds(counted);
    let after = resident_bytes();
    println!("{} MiB resident before, {} MiB after", before >> 20, after >> 20);
    assert!(after < before + most, "{before} bytes became {after}");
}

#[test]
fn a_neighbour_that_does_not_come_hangs_no_stream() {
    let Some(device) = crate::common::device() else { return };
    for chunk in CHUNKS {
        let told = AtomicBool::new(false);
        run_ranks(2, |comm| {
            scheduled::silent_neighbour(&comm, &device, in_chunks(chunk), Duration::from_millis(300), &told)
        })
        .unwrap();
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

/// The resident memory of this process, in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    4096 * pages.unwrap_or(0)
}
