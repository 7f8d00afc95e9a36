//! What is done in every exchange.
//!
//! From the top down:
//! - `bound`: a flight and the ranks that it is between: starting, waiting, giving up;
//! - `flight`: the state of one exchange, shared with the engine that polls it: idle, travelling, arrived, poisoned;
//! - `part`: what one device does in each phase; `axis_by_axis`: several parts, one after another;
//! - `messages` (with `message`), `windows` and lists of copies (`copy_list`): the three ways of cells, each with what it does in
//!   each phase;
//! - `buffers`, `streams`, `unpacked`: the memory, the streams and the events of a part;
//! - `capture`: an exchange recorded as one launch, by `capture_part` and `capture_flight`;
//! - `trace`: what the time line of the rank is told.

pub(super) mod axis_by_axis;
pub(super) mod bound;
pub(super) mod buffers;
pub(super) mod capture;
mod capture_flight;
mod capture_part;
pub(super) mod copy_list;
pub(super) mod flight;
pub(super) mod message;
pub(super) mod messages;
pub(super) mod part;
pub(super) mod streams;
pub(super) mod trace;
pub(super) mod unpacked;
pub(super) mod windows;
