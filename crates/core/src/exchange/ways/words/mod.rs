//! Cells that are copied straight from fields or into halos, handed over by the streams of the two ends.
//!
//! Once: `halos` lends halos, into which the sender writes. Every time: `windows`, and `stop`, which gives an exchange up.

pub(crate) mod halos;
mod stop;
pub(crate) mod windows;
