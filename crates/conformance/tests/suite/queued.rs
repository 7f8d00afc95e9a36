//! The suites for devices that go on working after a call has returned, on the CPU with a thread for each stream.

use haloport_conformance::queued::Queued;
use haloport_conformance::random::{self, cases};
use haloport_conformance::{device, drawn, ordering, panics, scheduled, usual, whole};
use haloport_core::{Progress, run_ranks};
use haloport_cpu::CpuDevice;

fn queued() -> Queued<CpuDevice> {
    Queued::new(&CpuDevice::with_threads(1).unwrap()).unwrap()
}

fn some_queued() -> Option<Queued<CpuDevice>> {
    Some(queued())
}

haloport_conformance::backend_tests! { some_queued:
    random_exchanges_match_the_global_oracle,
    random_exchanges_in_chunks_match_the_oracles,
    exchanges_in_chunks_without_pinned_memory_match_the_oracles,
    exchanges_in_chunks_in_flight_at_once_keep_apart,
    accumulated_halos_match_the_oracle,
    redistributed_cells_match_the_oracles,
    whole_arrays_match_the_oracle,
    fields_of_several_patterns_match_the_oracles,
    uneven_ranks_need_no_call_of_a_neighbour_that_has_started,
    messages_larger_than_a_chunk_are_cut,
    a_chunk_arrives_while_the_next_one_is_packed,
    a_gate_opens_while_another_rank_waits_for_its_stream,
    exchanges_that_fail_behind_gates_keep_no_other_waiting,
    a_forgotten_exchange_is_completed_by_the_next_one,
    large_messages_are_moved_by_a_copy,
    chunks_that_are_moved_have_a_row_in_the_time_line,
    steps_in_a_row_are_right,
    a_call_that_fails_is_an_error_of_its_rank_and_hangs_no_other,
}

#[test]
fn sums_of_halos_have_the_bits_of_the_cpu() {
    random::same_bits(
        &queued(),
        &CpuDevice::with_threads(1).unwrap(),
        cases(500).div_ceil(10),
        5,
        usual(2, 20),
    )
    .unwrap();
}

/// In the thorough set alone: the threads of ranks and of streams wait for each other at each of the calls.
#[test]
fn a_call_that_fails_while_a_whole_array_moves_is_an_error_of_all_ranks() {
    if !usual(false, true) {
        return println!("skipped: the thorough set has this test");
    }
    println!("{} calls failed in turn", whole::every_call_fails_once(&queued()).unwrap());
}

#[test]
fn the_device_suite_passes() {
    let report = device::suite(&queued(), &[]).unwrap();
    assert!(report.excused.is_empty() && report.passed.len() >= 28, "{report:?}");
}

#[test]
fn exchanges_are_ordered_with_the_work_around_them() {
    for ranks in [1, 2] {
        run_ranks(ranks, |comm| ordering::suite(&comm, &queued(), None)).unwrap();
    }
}

#[test]
fn exchanges_on_four_streams() {
    run_ranks(3, |comm| scheduled::storm(&comm, &queued(), 50)).unwrap();
}

#[test]
fn exchanges_without_a_thread_that_makes_progress() {
    run_ranks(3, |comm| {
        comm.set_progress(Progress::Caller)?;
        scheduled::storm(&comm, &queued(), 50)
    })
    .unwrap();
}

#[test]
fn views_of_a_pending_exchange_wait_for_what_another_one_writes() {
    for &ranks in drawn(&[2, 3]) {
        run_ranks(ranks, |comm| scheduled::views_wait(&comm, &queued())).unwrap();
    }
}

#[test]
fn a_callback_that_panics_fails_its_exchange_alone() {
    for ranks in [1, 2, 3] {
        let device = queued();
        run_ranks(ranks, |comm| panics::callback(&comm, &device)).unwrap();
    }
}

#[test]
fn a_driver_that_panics_fails_its_exchange_alone() {
    for ranks in [2, 3] {
        let device = queued();
        run_ranks(ranks, |comm| panics::driver(&comm, &device)).unwrap();
    }
}
