//! Steps that are recorded and replayed, on the OpenCL driver that `OCL_ICD_VENDORS` names. It cannot capture them:
//! each replay makes the same calls again.

use haloport_conformance::steps;

haloport_conformance::backend_tests! { crate::common::device: a_neighbour_that_does_not_replay_hangs_no_stream }

#[test]
fn steps_that_are_recorded_are_those_of_overlap() {
    let Some(device) = crate::common::device() else { return };
    steps::suite_on_ranks(&device, 1..=4, false).unwrap();
}
