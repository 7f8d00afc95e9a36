//! The ways of moving cells, each in a folder: what is done once, when a pattern is bound, and what is done every time.
//!
//! - `own_cells`: copies within a rank;
//! - `memory`: through memory that the two ranks share: straight from fields, or packed; hosts hand it over;
//! - `words`: straight from fields or into halos; streams hand them over, by words that they write and await;
//! - `messages`: messages of the transport;
//! - `stream_messages`: messages that streams send and receive.
//!
//! Beside them: `fields`, the fields of one device and what binding needs of it, and `offer`, what neighbours tell each
//! other about a way.

pub(super) mod fields;
pub(super) mod memory;
pub(super) mod messages;
pub(super) mod offer;
pub(super) mod own_cells;
pub(super) mod stream_messages;
pub(super) mod words;
