//! Work in streams, which is done late, by a thread for each hardware queue.
//!
//! - `job`: what streams are given, and doing it; `kernel`: the memory that a kernel reaches; `access`: that of copies.
//! - `queue`: a hardware queue; `point`: a point in a stream that can be waited for; `random`: delays.

pub(crate) mod access;
pub(crate) mod job;
mod kernel;
pub(crate) mod point;
pub(crate) mod queue;
mod random;
