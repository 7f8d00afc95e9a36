//! Bound exchanges: what is done every time, from start to finish.
//!
//! From the top down:
//! - `bound`: a bound exchange: starting it, waiting for it, abandoning it;
//! - `flight`: the state of one exchange, shared with the engine that polls it: idle, travelling, arrived, gated or
//!   poisoned;
//! - the parts, one for each device: `host`, of a device that has done its work when a call returns; `stream` with
//!   `stream_phases`, of a device with streams, whose `course` is chosen at the start;
//! - `build`: makes the part of a device, once.

pub(super) mod bound;
mod build;
mod course;
pub(super) mod flight;
pub(super) mod host;
mod stream;
mod stream_phases;
