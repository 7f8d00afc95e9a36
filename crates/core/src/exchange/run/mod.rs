//! The work of every exchange.
//!
//! From the top down:
//! - `bound`: a bound exchange: starting it, waiting for it, abandoning it;
//! - `flight`: the state of one exchange, shared with the engine that polls it: idle, travelling, arrived, gated or
//!   poisoned;
//! - `part`: the work of one device in each phase; `axis_by_axis`: several parts, one after another;
//! - `messages` (with `message`), `stream_messages`, `windows`, `stream_windows` and `copy_list` (for own cells): the
//!   ways of moving cells, in each phase;
//! - `buffers`, `streams`, `unpacked`: the memory, the streams and the events of a part; `mark`: points in streams that
//!   the host can ask about; `device_user`: other ranks on the same device; `deferred_frees`: when no memory is freed;
//! - `stream_group`: the ranks whose streams send each other messages; `watch`: how they notice that one has left;
//! - `remote_writes`: messages that the transport writes straight to memory of the device;
//! - `capture`, `capture_part`, `capture_flight`: an exchange captured as one launch;
//! - `trace`: the time line of an exchange.

pub(super) mod axis_by_axis;
pub(super) mod bound;
pub(super) mod buffers;
pub(super) mod capture;
mod capture_flight;
mod capture_part;
pub(super) mod copy_list;
pub(super) mod deferred_frees;
pub(super) mod device_user;
pub(super) mod flight;
pub(super) mod mark;
pub(super) mod message;
pub(super) mod messages;
pub(super) mod part;
pub(super) mod remote_writes;
pub(super) mod stream_group;
pub(super) mod stream_messages;
pub(super) mod stream_windows;
pub(super) mod streams;
pub(super) mod trace;
pub(super) mod unpacked;
pub(super) mod watch;
pub(super) mod windows;
