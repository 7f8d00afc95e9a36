//! The CPU as a device.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod packing;
