//! Work of command queues and immediate command lists, which is done late, by a thread for each.
//!
//! - `event`: events, and points that can be waited for; `job`: a command, and doing it.
//! - `lane`: the thread of a queue; `list`: command lists.

pub(crate) mod event;
pub(crate) mod job;
pub(crate) mod lane;
pub(crate) mod list;
