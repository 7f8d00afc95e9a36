//! The facade, and its examples.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "sycl")]
mod any_device;
mod diagnostics;
mod examples;
mod heat;
