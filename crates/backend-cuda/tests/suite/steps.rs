//! Steps that are captured once and replayed with one launch, on the first GPU.

use haloport_conformance::steps;

haloport_conformance::backend_tests! { crate::common::device:
    steps_in_messages_are_captured_and_others_say_why_not,
    a_neighbour_that_does_not_replay_hangs_no_stream,
}

#[test]
fn steps_that_are_recorded_are_those_of_overlap() {
    let Some(device) = crate::common::device() else { return };
    steps::suite_on_ranks(&device, 1..=2, true).unwrap();
}

/// More streams than the driver has queues by default.
#[test]
fn steps_of_four_ranks_on_one_device_are_those_of_overlap() {
    let Some(device) = crate::common::device() else { return };
    steps::suite_on_ranks(&device, 3..=4, true).unwrap();
}
