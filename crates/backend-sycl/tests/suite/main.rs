//! The SYCL backend on the OpenCL drivers of this machine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cache;
mod common;
mod conformance;
mod exchange;
mod missing;
mod order;
mod programs;
mod queues;
mod scheduled;
mod shared;
mod through_sycl;
mod trace;
