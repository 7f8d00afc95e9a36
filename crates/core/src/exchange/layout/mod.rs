//! The layout of cells in fields, in messages, and in memory that two processes share.
//!
//! - `side`: one side of a copy, in a field or in a message;
//! - `cut`: cutting pieces into chunks;
//! - `segment`: memory that two processes share, with two messages in it;
//! - `messages`: the pieces that go to a neighbour in one message.

pub(super) mod cut;
pub(super) mod messages;
pub(super) mod segment;
pub(super) mod side;
