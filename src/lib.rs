//! Halo exchange for distributed fields, written once and run on CPUs and accelerators.
//!
//! A halo exchange fills the ghost cells of a field from the neighbours that own them. State once what each rank owns
//! ([`Pattern`]), bind fields to that ([`Pattern::bind`]), and exchange as often as you want. Ranks are threads or MPI
//! processes.
//!
//! # Why it is faster
//!
//! - **One pass over the cells.** A neighbour on the same node copies straight from your field into its halo.
//! - **Everything is bound once.** An exchange after the first one allocates nothing, and all fields for one neighbour travel in one
//!   message.
//! - **Work while halos travel.** [`Exchange::overlap`] computes meanwhile what needs no halo.
//!
//! # How to use it
//!
//! Two ranks, as threads of this process, share a periodic grid of 8 × 6 cells with a halo of one cell:
//!
//! ```
//! use haloport::cpu::CpuDevice;
//! use haloport::{Pattern, run_ranks};
//!
//! run_ranks(2, |comm| {
//!     let pattern = Pattern::on_grid(&comm, [8, 6]).periodic([true, true]).halo(1).build()?;
//!     let mut depth = pattern.field::<f64, _>(&CpuDevice::with_threads(1)?)?; // one core for each rank
//!     let mine = depth.layout(0)?.owned();
//!     depth.view_mut(0)?.fill_with(|index, _| if mine.contains(index) { comm.rank() as f64 } else { -1.0 });
//!
//!     let mut exchange = pattern.bind(depth)?;
//!     exchange.run()?; // or `start`, other work, and `finish`
//!
//!     let below = [mine.lower()[0] - 1, mine.lower()[1]]; // a halo cell, which the other rank owns
//!     assert_eq!(exchange.fields().view(0)?[below], (1 - comm.rank()) as f64);
//!     Ok(())
//! })?;
//! # Ok::<(), haloport::comm::RanksError>(())
//! ```
//!
//! | to | see |
//! | --- | --- |
//! | choose a device, at compile time or at run time | [`default_device`]; [`AnyDevice::select`], [`device::backends`] |
//! | run as MPI processes | the module `mpi`, with the feature of that name (on by default); [`comm::launched_by`] |
//! | exchange on a cubed sphere or a mesh | [`Grid::cubed_sphere`], [`Pattern::unstructured`] |
//! | read and write cells | [`View`], [`ViewMut`]; fastest row by row |
//! | exchange memory of your own, or fields that change places | [`Pattern::plan`], [`BorrowedField`], [`interop`] |
//! | add what was computed in halos to the owners of the cells | [`BindOptions::accumulate`] |
//! | take fields to other owners of the same cells, as a transpose does | [`Pattern::redistribute`] |
//! | launch kernels in order with exchanges | [`mod@device`], [`Exchange::start_on`] |
//! | send irregular messages | [`SparseExchange`], [`line::LineExchange`] |
//! | see when a rank computed, exchanged and waited | [`trace`] |
//!
//! The [`tour`] has programs for the first of these; the examples and pages of the repository have others.
//!
//! Functions that return [`Error`] take any other error with `?`, and `main` prints it as text; [`Error::kind`] says which
//! it is. Authors of backends and
//! transports depend on `haloport-core`.

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

#[doc(inline)]
pub use haloport_core::{
    AnyField, BindOptions, BorrowedField, Communicator, DataPath, Element, ElementType, Error, ErrorKind,
    Exchange, Field, Grid, Halo, HaloCells, IndexBox, IndexSet, Passed, Pattern, PatternSet, Pending,
    Redistribution, Reduction, Schedule, SparseExchange, Split, Ticket, View, ViewMut, field_set, interop,
    log, run_ranks, trace,
};
#[cfg(any(feature = "cpu", feature = "cuda", feature = "sycl"))]
pub use {
    any_device::AnyDevice,
    default_device::{DefaultDevice, default_device},
};

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

/// Ranks: how they are made, how they wait, and what their transport can do.
pub mod comm {
    #[doc(inline)]
    pub use haloport_core::comm::{
        DEFAULT_TIME_LIMIT, DEFAULT_WARN_AFTER, ExactSum, ExactTerm, InterruptCheck, MOST_RANKS, Progress,
        RanksError, Reducible, threads,
    };
    #[doc(inline)]
    pub use haloport_core::launcher::launched_by;
    #[doc(inline)]
    pub use haloport_core::transport::{Reach, TransportError, TransportInfo};
}

/// What ranks own: grids, cubed spheres and folded grids.
pub mod domain {
    #[doc(inline)]
    pub use haloport_core::domain::{
        Connectivity, Fold, GridError, MAX_AXES, Orientation, Pivot, Points, cubed_sphere, fold,
    };
}

/// The cells that travel, and those that can be computed meanwhile.
pub mod pattern {
    #[doc(inline)]
    pub use haloport_core::pattern::{
        CellRegions, Cells, DEFAULT_SLAB_BYTES, GridPattern, PatternError, Piece, Regions, SetupCost, Slab,
        SlabPart, Slabs,
    };
}

/// Devices, their memory and streams, and kernels: for programs that are generic over the device, launch kernels, or list
/// what there is.
///
/// `haloport_core::device::dialect` describes the language of kernels that run on any device. What only backends need
/// (copies, the kernel cache) is in `haloport_core::device`.
pub mod device {
    /// What an [`AnyDevice`](crate::AnyDevice) makes.
    #[cfg(any(feature = "cpu", feature = "cuda", feature = "sycl"))]
    pub mod any {
        pub use crate::any_device::{Buffer, Copies, Event, Kernel, Launch, Stream};
    }

    #[cfg(any(feature = "cpu", feature = "cuda", feature = "sycl"))]
    pub use crate::{
        backends::{BackendReport, BackendRole, Peers, RankPaths, backends},
        spec::{DeviceSpec, SelectError},
    };
    #[doc(inline)]
    pub use haloport_core::device::{
        AnyStream, Buffer, Capabilities, Device, DeviceError, DeviceId, DeviceInfo, Event, HostKernel,
        IndexRange, KernelArgument, KernelSource, LaunchConfig, MemoryKind, ParameterType, Pointer, Priority,
        Stream,
    };
}

/// The layouts of fields, and their rows.
pub mod field {
    #[doc(inline)]
    pub use haloport_core::field::{
        ArrayCells, ArrayShape, AxisRole, BlockLayout, CellBlocks, ComponentPlace, FieldBuilder, FieldError,
        FittedAxis, Rows, RowsAround, RowsMut, ShapeError,
    };
}

/// The options, the reports and the errors of exchanges.
pub mod exchange {
    #[doc(inline)]
    pub use haloport_core::device::Combine;
    #[doc(inline)]
    pub use haloport_core::exchange::{
        BindError, Binder, Choice, Completion, CopiedBy, DEFAULT_STAGING_CHUNK, DEFAULT_STAGING_COPY,
        Description, ExchangeError, FieldLayout, FieldSet, HaloOrder, Obstacle, OfPattern, Route,
        SourceTarget, StepError, Traffic, Whole, WholeError,
    };
}

/// Messages of any length to ranks that change from round to round, from several threads if you want.
pub mod sparse {
    #[doc(inline)]
    pub use haloport_core::sparse::{Inserter, Round, Slot, SparseError, SparseOptions};
}

/// Consecutive intervals of a line, and payloads that ranks pass along it.
pub mod line {
    #[doc(inline)]
    pub use haloport_core::line::{Line, LineExchange, NextRound, Payloads};
}

// A page, so that its programs are tested.
#[cfg(feature = "cpu")]
#[doc = include_str!("../docs/rust.md")]
pub mod tour {}

/// Tests the page about accumulated halos.
#[cfg(all(doctest, feature = "cpu"))]
#[doc = include_str!("../docs/accumulate.md")]
struct Accumulate;

/// Tests the page about exact sums.
#[cfg(all(doctest, feature = "cpu"))]
#[doc = include_str!("../docs/exact-sums.md")]
struct ExactSums;

/// Tests the page about redistribution.
#[cfg(all(doctest, feature = "cpu"))]
#[doc = include_str!("../docs/redistribute.md")]
struct Redistribute;

/// Tests the page about fields.
#[cfg(all(doctest, feature = "cpu"))]
#[doc = include_str!("../docs/fields.md")]
struct Fields;

/// Tests the page about schedules.
#[cfg(all(doctest, feature = "cpu"))]
#[doc = include_str!("../docs/scheduling.md")]
struct Scheduling;

/// Tests the page about time lines.
#[cfg(all(doctest, feature = "cpu"))]
#[doc = include_str!("../docs/time-line.md")]
struct TimeLine;

/// Tests the README's example.
#[cfg(all(doctest, feature = "cpu", feature = "mpi"))]
#[doc = include_str!("../README.md")]
struct Readme;
