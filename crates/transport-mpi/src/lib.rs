//! Ranks as MPI processes: the MPI transport of Haloport.
//!
//! A library or a solver that has initialised MPI itself hands in a communicator
//! ([`from_communicator`]); a command has [`initialize`] do all:
//!
//! ```no_run
//! haloport_mpi::install_abort_hook();
//! let session = haloport_mpi::initialize()?;
//! let comm = session.world()?;
//! println!("rank {} of {}", comm.rank(), comm.size());
//! # Ok::<(), haloport_core::TransportError>(())
//! ```
//!
//! The crate is built for one MPI library, the one whose compiler wrapper the environment variable `MPICC` names
//! (`mpicc` if it is not set), and needs libclang for that. A program of it is started by the launcher of the same MPI:
//! [`initialize`] refuses processes that the launcher of another one has started.
//!
//! `HALOPORT_MPI_CUDA=1` says that the library takes device memory, `0` that it does not; otherwise it is asked
//! (`MPIX_Query_cuda_support`).
//!
//! How it works, from the top down:
//! - `session`: MPI from start to end, `launcher`: whether that is what started this process, and
//!   `room`: whether it can share memory;
//! - `communicator`: what is made from communicators of MPI;
//! - `transport`: the transport, which checks arguments and hands on;
//! - `endpoint`: what a transport holds, and the lock that every call of MPI is made under;
//! - `channels`: persistent requests; `messages`: those that receivers need not know of; `collectives` and `sparse`:
//!   setup;
//! - `node`: which ranks share memory, and `segment`: memory that processes of one node share;
//! - `ghosts`: requests that were given up; `finalize`: the end of MPI before that of a transport;
//! - `threads`, `waiting`: who may call, and how to wait;
//! - `raw`: the calls of MPI.

mod channels;
mod collectives;
mod communicator;
mod endpoint;
mod finalize;
mod ghosts;
mod launcher;
mod mapping;
mod messages;
mod node;
mod raw;
mod room;
mod segment;
mod session;
mod sparse;
mod threads;
mod transport;
mod waiting;

pub use mpi;

pub use communicator::{from_communicator, from_fortran, from_raw};
pub use node::try_node_memory;
pub use session::{MpiSession, initialize, install_abort_hook};
