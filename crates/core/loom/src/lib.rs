//! Model checks of windows in every order of the steps of both ends, by loom: the source of `haloport-core` compiled with
//! loom's atomics. They are apart from that crate because a flag for all crates would have everything compiled once more.

#![cfg(test)]

#[allow(dead_code, unreachable_pub, reason = "the models use a part of what exchanges use")]
#[path = "../../src/transport/window/mod.rs"]
mod window;

// As `window` and its models name them.
use haloport_core::{device, transport, transport::SharedMemory};
