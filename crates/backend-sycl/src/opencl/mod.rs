//! The part of OpenCL that the crate uses, from the bottom up:
//!
//! - `library`: the loaded library, and the results of its calls
//! - `handles`: owners of OpenCL objects
//! - `unified`: memory that host and device address alike
//! - `select`: the devices that there are, and the one that a name means
//! - `place`: a device in a context
//! - `allocation`: the memory that an address belongs to
//! - `queue`, `event`: queues, points in them, and their times
//! - `program`, `kernel`: programs, and kernels with their arguments

mod allocation;
pub(crate) mod event;
pub(crate) mod handles;
pub(crate) mod kernel;
pub(crate) mod library;
pub(crate) mod place;
pub(crate) mod program;
pub(crate) mod queue;
pub(crate) mod select;
pub(crate) mod unified;

pub use library::blocking_calls;
pub use select::Selector;
