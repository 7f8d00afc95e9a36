//! Means by time window over a sorted table.

pub mod chart;
pub mod model;
