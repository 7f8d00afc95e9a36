//! Cells that go in messages of the transport.
//!
//! Once: `chunks` splits staged messages, `sets` lays all messages of a part out, and `bind` binds the copies and opens the
//! channels. Every time: `run`, with `message`, one of them; `remote_writes`: messages that the transport writes straight to
//! memory of the device.

pub(crate) mod bind;
pub(crate) mod chunks;
pub(crate) mod message;
pub(crate) mod remote_writes;
pub(crate) mod run;
pub(crate) mod sets;
