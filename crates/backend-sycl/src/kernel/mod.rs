//! Kernels: `program` builds them, `launch` sets their arguments and runs them, and `copies` runs those that copy boxes
//! and indexed rows.

pub(crate) mod copies;
pub(crate) mod launch;
pub(crate) mod program;

pub use copies::SyclCopies;
pub use launch::{SyclKernel, SyclLaunch};
