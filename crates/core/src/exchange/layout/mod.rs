//! Where cells lie: in fields, in messages, and in the memory that two processes share.
//!
//! - `side`: one side of a copy, the cells of a block;
//! - `cut`: cells cut into chunks;
//! - `segment`: memory that two processes share for messages;
//! - `messages`: where the pieces lie that go to a neighbour in one message.

pub(super) mod cut;
pub(super) mod messages;
pub(super) mod segment;
pub(super) mod side;
