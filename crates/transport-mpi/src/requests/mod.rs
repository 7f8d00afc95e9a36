//! The requests of a transport: those of its `channels`, those of `messages` that receivers need not expect, and those
//! that were `abandoned` before they were complete.

pub(crate) mod abandoned;
pub(crate) mod channels;
pub(crate) mod messages;
