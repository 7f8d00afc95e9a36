//! A rank and the other ranks: collective calls, waiting with a time limit, and progress of what is in flight.
//!
//! - [`Communicator`]: what a rank holds; everything collective begins with it;
//! - `collective`: the collective calls, each of which begins by comparing what the ranks are about to do (`call`);
//! - `patience`: how long a wait may take;
//! - `engine`: what is in flight on this rank, polled by every call that waits;
//! - `progress`: the thread that polls for asynchronous devices while the host does something else;
//! - [`run_ranks`]: ranks as threads of this process;
//! - `trace_file`: the time lines of all ranks, written to one file.

mod call;
mod collective;
mod communicator;
mod engine;
mod progress;
mod ranks;
mod reducible;
mod trace_file;
mod wait;

pub use communicator::{Communicator, FREE_TAGS};
pub use progress::Progress;
pub use ranks::{MOST_RANKS, RanksError, run_ranks};
pub use reducible::Reducible;
pub use wait::{DEFAULT_TIME_LIMIT, DEFAULT_WARN_AFTER};

pub(crate) use call::CollectiveCall;
pub(crate) use communicator::{decode, encode};
pub(crate) use engine::Served;
pub(crate) use progress::drive_meanwhile;
pub(crate) use wait::{WaitClock, WaitLimits};
