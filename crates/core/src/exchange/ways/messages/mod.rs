//! Cells that go in messages of the transport.
//!
//! Once: `sets` lays all messages of a part out, large ones in chunks, and `bind` binds the copies and opens the channels.
//! Every time: `run`, with `message`, one of them.

pub(crate) mod bind;
pub(crate) mod message;
pub(crate) mod run;
pub(crate) mod sets;
