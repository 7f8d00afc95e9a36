//! Steps by `overlap`, one after the other in a stream.

haloport_conformance::backend_tests! { crate::common::device: steps_in_a_row_are_right }
