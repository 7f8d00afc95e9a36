//! Ranks as MPI processes: the MPI transport of Haloport.
//!
//! A program that leaves MPI to Haloport calls [`initialize`]:
//!
//! ```no_run
//! haloport::mpi::install_abort_hook();
//! let session = haloport::mpi::initialize()?;
//! let comm = session.world()?;
//! println!("rank {} of {}", comm.rank(), comm.size());
//! # Ok::<(), haloport::comm::TransportError>(())
//! ```
//!
//! A library, or a solver that has initialised MPI itself, passes an MPI communicator to [`from_raw`].
//!
//! # The library
//!
//! The build needs no MPI. The first call that needs one chooses it, once for the process, in this order:
//!
//! 1. the file that the variable `HALOPORT_MPI` names, such as `/opt/mpi/lib/libmpi.so.40`;
//! 2. an MPI that the process has loaded already, for example by its solver or by mpi4py; of several, the one that is
//!    initialised;
//! 3. the first one that the system's loader finds by its usual name, that of the launcher's MPI first.
//!
//! It can be Open MPI 4 or 5, MPICH from version 3 on or an MPI with its binary interface (Intel MPI, MVAPICH, Cray
//! MPICH), and any MPI with the standard binary interface of MPI 5. A program must be started by the launcher of the
//! same MPI: processes that the launcher of another MPI has started, each of them a job of its own, are refused.
//!
//! Functions of an MPI that is linked to a program statically are found if the program is linked with `-rdynamic`, and
//! with the whole library (`-Wl,--whole-archive`).
//!
//! If `MPICH_GPU_SUPPORT_ENABLED` is 1, Cray MPICH needs the library of its GPU transport layer
//! (`libmpi_gtl_cuda.so`, `libmpi_gtl_hsa.so`), to which the compilers of Cray link programs. [`initialize`] loads it if
//! the process has not: from beside MPI, from where the system's loader looks, or from the folder of Cray's module.
//!
//! Functions of Open MPI and of MPICH (`MPIX_Query_cuda_support`, `MPIX_GPU_query_support` and their like) tell which
//! kinds of device memory the library takes. `HALOPORT_MPI_CUDA=1` says that it takes memory of CUDA devices, `0`
//! that it does not.
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
//! - `raw`: the calls of MPI, and the search for it

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

/// The crate `mpi` (rsmpi).
#[cfg(feature = "rsmpi")]
pub use mpi;

#[cfg(feature = "rsmpi")]
pub use communicator::from_communicator;
pub use communicator::{from_fortran, from_raw, from_world};
pub use job::{MpiSession, initialize, install_abort_hook};
pub use node::try_node_memory;
pub use raw::RawComm;
#[doc(hidden)]
pub use raw::plain;

/// The MPI library that would be used now: its version and its file. Loads it, but does not start MPI, nor settle the
/// choice.
///
/// # Errors
/// [`TransportError::Layer`](haloport_core::TransportError::Layer) if there is none: what was looked for, and what to
/// do.
pub fn library() -> Result<String, haloport_core::TransportError> {
    raw::describe()
}
