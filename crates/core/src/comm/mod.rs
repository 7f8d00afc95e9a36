//! A rank and the other ranks: collective calls, waits with a time limit, and the progress of exchanges in flight.
//!
//! A program gets a [`Communicator`] for each rank, from [`run_ranks`], [`threads`] or MPI, and makes its patterns and
//! exchanges with it. Read in this order:
//!
//! - `communicator`: [`Communicator`], one rank's view of all ranks, and how it waits;
//! - `wait`: the limits of a wait, and its interruption;
//! - `collective`: the collective calls. Each begins by comparing the calls of all ranks (`call`); `reducible` has the
//!   numbers that ranks reduce, `exact` sums without rounding;
//! - `engine`: the exchanges of this rank that are in flight; every call that waits for other ranks polls them;
//! - `progress`: the thread that polls them for asynchronous devices while the host does something else;
//! - `tags`: the tags that tell messages of exchanges apart;
//! - `handover`: the distance between the cores of two ranks of a node;
//! - `kept`: what all exchanges of a communicator share on one device;
//! - `ranks`: [`run_ranks`] and [`threads`], ranks as threads of this process;
//! - `trace_file`: the time lines of all ranks, written to one file.

mod call;
mod collective;
mod communicator;
mod engine;
mod exact;
mod handover;
mod kept;
mod progress;
mod ranks;
mod reducible;
mod tags;
mod trace_file;
mod wait;

pub use communicator::Communicator;
pub use exact::{ExactSum, ExactTerm};
pub use progress::Progress;
pub use ranks::{MOST_RANKS, RanksError, run_ranks, threads};
pub use reducible::Reducible;
pub use tags::FREE_TAGS;
pub use wait::{DEFAULT_TIME_LIMIT, DEFAULT_WARN_AFTER, InterruptCheck};

pub(crate) use call::CollectiveCall;
pub(crate) use communicator::{decode, encode};
pub(crate) use engine::{Engine, Served};
pub(crate) use handover::Invitations;
pub(crate) use progress::{drive_meanwhile, drive_until, drives, is_meanwhile};
pub(crate) use tags::Tags;
pub(crate) use wait::{Missing, WaitClock, WaitLimits};
