//! The job `haloport run rolling`: rolling means by time window over a sorted table.

pub mod chart;
pub mod model;
mod run;

pub(crate) use run::{RollingArgs, run};
