//! Ranks as MPI processes: the MPI transport of Haloport.
//!
//! A program that leaves MPI to Haloport calls [`initialize`]:
//!
//! ```no_run
//! haloport_mpi::install_abort_hook();
//! let session = haloport_mpi::initialize()?;
//! let comm = session.world()?;
//! println!("rank {} of {}", comm.rank(), comm.size());
//! # Ok::<(), haloport_core::TransportError>(())
//! ```
//!
//! A library, or a solver that has initialised MPI itself, passes an MPI communicator to [`from_communicator`].
//!
//! # What it needs
//!
//! The crate is built for one MPI library: the one whose compiler wrapper is named by the environment variable `MPICC`
//! (`mpicc` if it is not set). The build also needs libclang. A program must be started by the launcher of the same
//! MPI: [`initialize`] refuses to run in processes that the launcher of another MPI has started.
//!
//! `HALOPORT_MPI_CUDA=1` says that the MPI library takes device memory, `0` that it does not; if the variable is not
//! set, the library is asked (`MPIX_Query_cuda_support`).
//!
//! # How it works
//!
//! Ranks of one node share memory, in files without a name. Halos for other ranks travel in persistent requests, one
//! for each part of a message. Every call of MPI is made under the lock of its transport, and holds a permit, which
//! proves that MPI is running and that this thread may call it. If a channel is closed or a collective is given up
//! before its request is complete, the request is abandoned: the transport keeps its memory alive until MPI no longer
//! uses it. When MPI is finalised, all transports are shut first.
//!
//! From the top down:
//!
//! - `job`: MPI from start to end
//! - `communicator`: Haloport's communicators, made from those of MPI
//! - `transport`: the transport, which checks arguments and passes calls on
//! - `finalize`: shuts transports when MPI is finalised before they are dropped
//! - `collective`: reductions, broadcasts and the sparse exchange
//! - `endpoint`: the state of a transport, and the lock for calls of MPI
//! - `requests`: channels, messages, and abandoned requests
//! - `node`: memory that processes of one node share
//! - `threads`, `waiting`: the threads that may call MPI, and how a rank waits
//! - `raw`: the calls of MPI

mod collective;
mod communicator;
mod endpoint;
mod error;
mod finalize;
mod job;
mod node;
mod raw;
mod requests;
mod threads;
mod transport;
mod waiting;

pub use mpi;

pub use communicator::{from_communicator, from_fortran, from_raw};
pub use job::{MpiSession, initialize, install_abort_hook};
pub use node::try_node_memory;
