//! PTX on the host.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod instructions;
mod kernels;
