//! What every way of moving cells uses for the work of an exchange.
//!
//! - `part`: the trait of a part, the work of one device in each phase of an exchange;
//! - `copy_list`: lists of copies; `buffers`: the memory of messages; `streams`: the own streams of a part;
//! - `mark`: points in streams that the host can ask about, and those at which halos are filled;
//! - `device_user`: other ranks on the same device, and when no memory of it is freed;
//! - `trace`: the time line of an exchange.

pub(super) mod buffers;
pub(super) mod copy_list;
pub(super) mod device_user;
pub(super) mod mark;
pub(super) mod part;
pub(super) mod streams;
pub(super) mod trace;
