//! The driver calls of the backend, one by one, on the driver for tests, which records them; the kernels compute
//! nothing. See `recording`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arrays;
mod contexts;
mod exchanges;
mod failures;
mod graphs;
mod memory;
mod missing;
mod recording;
mod staging;
mod steps;
