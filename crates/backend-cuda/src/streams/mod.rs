//! Streams, and what orders the work in them.
//!
//! - `stream`: the public stream; `event`: points in streams.
//! - `gate`: waits that the host ends; `word_operations`: words that streams write and await.

pub(crate) mod event;
pub(crate) mod gate;
pub(crate) mod stream;
pub(crate) mod word_operations;
