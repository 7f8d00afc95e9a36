//! Cells that are copied straight from fields or into halos, handed over by the streams of the two ends.
//!
//! Once: `halos` lends halos, into which the sender writes. Every time: `windows`.

pub(crate) mod halos;
pub(crate) mod windows;
