//! The driver calls of the backend, one by one, on the driver for tests, which records them; the kernels compute
//! nothing. See `recording`.
#![cfg(target_os = "linux")]

mod arrays;
mod captures;
mod contexts;
mod exchanges;
mod failures;
mod memory;
mod missing;
#[path = "../../common/network.rs"]
mod network;
mod recording;
mod shared;
mod staging;
mod stream_messages;
