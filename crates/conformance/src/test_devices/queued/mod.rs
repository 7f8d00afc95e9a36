//! A device that goes on working after a call has returned, with gates. It is made of a device whose work is done when a
//! call returns. Each stream is a thread, except immediate ones. So the suites for such devices run anywhere.
//!
//! - `device`: the device;
//! - `queue`: streams, and the points that they wait for;
//! - `event`: events.

mod device;
mod event;
mod queue;

pub use device::{Queued, QueuedLaunch};
pub use event::QueuedEvent;
pub use queue::QueuedStream;
