//! Tests that need no GPU: errors without a driver, the calls of the backend one by one, the kernels that copy, NCCL.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kernels;
mod messages;
mod missing;
mod recorded;
