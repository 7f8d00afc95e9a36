//! The calls of MPI, of the library that is found at run time, each with its error as a value.
//!
//! A [`Permit`] proves that MPI may be called here and now, so that calls without memory of the caller are safe.
//! Requests are made by unsafe functions, whose contracts say how long the memory must live.
//!
//! - `library`: the library as a whole
//! - `comm`: communicators
//! - `request`: requests, for which `span` counts bytes
//! - `plain`: calls as a program makes them by itself
//! - `chosen`: the library of this process, and `find`, the search for it in the `loader`; `gtl`: a library that Cray's
//!   needs
//! - `mpi`: a library that is loaded: the `device_memory` that it takes, its functions in a `table`, its constants and
//!   layouts in `abi`, its `handle`s, and the functions that it calls (`callback`)

mod abi;
mod callback;
mod chosen;
mod comm;
mod device_memory;
mod find;
mod gtl;
mod handle;
#[cfg(test)]
mod headers;
mod library;
mod loader;
mod mpi;
mod permit;
#[doc(hidden)]
pub mod plain;
mod request;
mod span;
mod table;

pub(crate) use chosen::{chosen, chosen_running, describe, running};
pub(crate) use comm::Comm;
pub use handle::RawComm;
pub(crate) use library::{
    ThreadLevel, abort, device_memory, finalize, initialize, is_main_thread, set_finalize_callback,
    tag_bound, thread_level,
};
pub(crate) use mpi::{Mpi, MpiState};
pub(crate) use permit::Permit;
pub(crate) use request::{Arrival, Progress, Request, SendMode};
