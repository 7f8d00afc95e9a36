//! Accesses that nothing orders.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod orders;
mod random;
mod threads;
