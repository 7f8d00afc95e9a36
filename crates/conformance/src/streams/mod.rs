//! Exchanges on the streams of one device, most of them on devices that go on working after a call has returned.
//!
//! - `ordering`: exchanges and the work around them;
//! - `scheduled`: exchanges whose end the host does not wait for, and their failures;
//! - `staging`: messages that are staged in chunks;
//! - `progress`: the thread that makes progress for all ranks of a process;
//! - `messages`: messages between ranks that streams send and receive;
//! - `trace`: the time line of exchanges and kernels;
//! - `faults`, `panics`: calls that fail, callbacks and drivers that panic;
//! - `ring`, `gate`: the exchange that most of them run, and a gate that opens by itself.

pub mod faults;
mod gate;
pub mod messages;
pub mod ordering;
pub mod overlap;
pub mod panics;
pub mod progress;
mod ring;
pub mod scheduled;
pub mod staging;
pub mod trace;
