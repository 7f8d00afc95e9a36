//! Messages between ranks in the order of streams, moved by NCCL.
//!
//! - `library`: NCCL, loaded at first use; `offer`: the device and the library, for the ranks that
//!   are to form a group.
//! - `communicator`: a group of NCCL, destroyed on drop; `messages`: joining a group, and exchanges in streams.
//!
//! Communicators are non-blocking (`ncclConfig_t::blocking` is 0). Only those can be aborted at any time: in a call for a
//! blocking one, a thread may wait for another rank for ever ("NCCL User Guide", "Fault Tolerance"). The price: NCCL
//! starts a thread for each group of calls, which puts the work into the stream, and the caller
//! waits until it has. That wait is for no rank, because ranks connect when they join, and not in their first exchange.

pub(crate) mod communicator;
pub(crate) mod library;
pub(crate) mod messages;
pub(crate) mod offer;
