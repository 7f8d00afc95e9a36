//! The cells that travel, with their addresses in fields and in messages.
//!
//! - `side`: one side of a copy, in a field or in a message; and cutting pieces into chunks;
//! - `packed`: the pieces that go to a neighbour in one message;
//! - `fits`: whether fields hold the cells of a pattern.

pub(super) mod fits;
pub(super) mod packed;
pub(super) mod side;
