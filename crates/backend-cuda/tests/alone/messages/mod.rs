//! Messages between ranks in the order of streams, moved by the NCCL for tests on the driver for tests: each rank has a
//! device of its own.
#![cfg(target_os = "linux")]

mod calls;
mod libraries;
mod missing;
mod processes;
mod ranks;
