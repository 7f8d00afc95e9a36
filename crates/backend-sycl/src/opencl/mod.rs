//! The part of OpenCL that the crate uses, from the bottom up:
//!
//! - `library`: the loaded library, and the results of its calls
//! - `handles`: owners of OpenCL objects
//! - `unified`: memory that host and device address alike
//! - `select`: the devices that there are, and the one that a name means
//! - `queue`: queues, and markers in them
//! - `opened`: a device with its context, queues and programs

pub(crate) mod handles;
pub(crate) mod library;
pub(crate) mod opened;
pub(crate) mod queue;
pub(crate) mod select;
pub(crate) mod unified;

pub use library::blocking_calls;
pub use select::Selector;
