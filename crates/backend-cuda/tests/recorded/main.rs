//! The driver calls of the backend, one by one, on a driver that records and computes nothing. See `recording`.
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
