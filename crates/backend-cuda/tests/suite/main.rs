//! The CUDA backend on a GPU, or on the driver for tests.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod devices;
mod exchange;
mod network;
mod order;
mod overlap;
mod programs;
mod scheduled;
mod stream_messages;
