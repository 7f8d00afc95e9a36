//! Devices made of another device, so that suites run where the hardware for them is missing.
//!
//! - `queued`: goes on working after a call has returned;
//! - `altered`: does what the other one does, but for an alteration;
//! - `exported`: an alteration, memory that other processes reach.

pub mod altered;
pub mod exported;
pub mod queued;
