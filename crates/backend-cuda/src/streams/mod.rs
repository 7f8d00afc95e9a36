//! Streams, and what orders and repeats the work in them.
//!
//! - `stream`: the public stream; `event`: points in streams, and calls of host functions from there.
//! - `flag`: numbers that streams and the host set and wait for, and gates, waits that the host ends.
//! - `graph`: work that is captured once and launched again and again.

pub(crate) mod event;
pub(crate) mod flag;
pub(crate) mod graph;
pub(crate) mod stream;
pub(crate) mod word_operations;
