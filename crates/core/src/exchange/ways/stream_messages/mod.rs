//! Cells that go in messages that streams send and receive, without the host.
//!
//! Once: `join` forms the groups of ranks, and `bind` binds the copies. Every time: `run`, in a `group`; `watch`: how ranks
//! notice that one has left.

pub(crate) mod bind;
pub(crate) mod group;
pub(crate) mod join;
pub(crate) mod run;
pub(crate) mod watch;
