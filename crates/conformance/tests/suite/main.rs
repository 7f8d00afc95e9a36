//! The suites on the CPU and on devices for tests.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counting;
mod discovery;
mod in_process;
mod nvrtc;
mod out_of_memory;
mod queued;
mod threads;
mod warnings;
