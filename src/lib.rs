//! Halo exchange for distributed fields, written once and run on CPUs and accelerators.
//!
//! A halo exchange fills the ghost cells of a field from the neighbours that own them. With Haloport a solver says
//! once what each rank owns ([`Pattern`]), binds its fields to that ([`Pattern::bind`]) and then calls
//! [`Exchange::run`], or [`Exchange::start`] and [`Pending::finish`] with work in between, as often as it wants.
//!
//! Two ranks, as threads of this process, share a periodic grid of 8 × 6 cells with a halo of one cell:
//!
//! ```
//! use haloport::cpu::CpuDevice;
//! use haloport::{Field, Grid, Halo, Pattern, Schedule, Split, run_ranks};
//!
//! run_ranks(2, |comm| {
//!     let grid = Grid::new([8, 6])?.periodic([true, true])?;
//!     let split = Split::balanced(&grid, comm.size())?;
//!     let mine = split.part(comm.rank()).ok_or("there are more ranks than parts")?;
//!     let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
//!
//!     let device = CpuDevice::with_threads(1)?; // every rank has a core of its own
//!     let mut depth = Field::<f64, _>::new(&device, &pattern)?;
//!     depth.view_mut(0)?.fill_with(|index, _| if mine.contains(index) { comm.rank() as f64 } else { -1.0 });
//!
//!     let mut exchange = pattern.bind(depth)?;
//!     exchange.run(Schedule::DefaultStream)?;
//!
//!     let below = [mine.lower()[0] - 1, mine.lower()[1]]; // a halo cell, which the other rank owns
//!     assert_eq!(exchange.fields().view(0)?[below], (1 - comm.rank()) as f64);
//!     Ok(())
//! })?;
//! # Ok::<(), haloport::RanksError>(())
//! ```
//!
//! Code on the host reads and writes cells through [`View`] and [`ViewMut`], fastest row by row. Functions that return
//! [`Error`] take any other with `?`, and `main` prints it as text.
//!
//! # Devices
//!
//! Backends are cargo features: `cpu` (on by default), `cuda` and `sycl`. A program is generic over [`device::Device`] and
//! picks a device
//! - at compile time: [`DefaultDevice`];
//! - at run time, by a string such as `auto` or `cpu:threads=4`: [`AnyDevice::select`] and [`with_device!`], once, in
//!   the outermost function.
//!
//! [`backends`] tells what this build and this machine have.

#![warn(missing_docs)]

#[cfg(not(any(feature = "cpu", feature = "cuda", feature = "sycl")))]
compile_error!(
    "haloport is built without a backend: enable at least one of its features, for example \
     `haloport = { version = \"0.1\", features = [\"cpu\"] }`; a library that needs no device can use haloport-core"
);

#[cfg(any(feature = "cpu", feature = "cuda", feature = "sycl"))]
mod any_device;
#[cfg(any(feature = "cpu", feature = "cuda", feature = "sycl"))]
mod backends;
#[cfg(any(feature = "cpu", feature = "cuda", feature = "sycl"))]
mod default_device;
#[cfg(any(feature = "cpu", feature = "cuda", feature = "sycl"))]
mod spec;

pub use haloport_core::*;
/// The CPU backend, on rayon.
#[cfg(feature = "cpu")]
pub use haloport_cpu as cpu;
/// The CUDA backend.
#[cfg(feature = "cuda")]
pub use haloport_cuda as cuda;
/// Ranks as MPI processes.
#[cfg(feature = "mpi")]
pub use haloport_mpi as mpi;
/// The SYCL backend, on OpenCL.
#[cfg(feature = "sycl")]
pub use haloport_sycl as sycl;

#[cfg(any(feature = "cpu", feature = "cuda", feature = "sycl"))]
pub use {
    any_device::AnyDevice,
    backends::{BackendReport, BackendRole, Peers, RankPaths, backends},
    default_device::DefaultDevice,
    spec::{DeviceSpec, SelectError},
};

/// Tests the README's example.
#[cfg(all(doctest, feature = "cpu"))]
#[doc = include_str!("../README.md")]
struct Readme;
