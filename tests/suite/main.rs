//! The facade, and its examples.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod diagnostics;
mod examples;
mod heat;
