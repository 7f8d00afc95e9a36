//! Halo exchange for distributed fields, written once and run on CPUs and accelerators.
//!
//! A halo exchange fills the ghost cells of a field from the neighbours that own them. State once what each rank owns
//! ([`Pattern`]), bind fields to that ([`Pattern::bind`]), and exchange as often as you want. Ranks are threads or MPI
//! processes.
//!
//! # Why it is faster
//!
//! - **One pass over the cells.** A neighbour on the same node copies straight from your field into its halo.
//! - **Everything is bound once.** An exchange allocates nothing, and all fields for one neighbour travel in one
//!   message.
//! - **Work while halos travel.** [`Exchange::overlap`] computes meanwhile what needs no halo. [`Exchange::record`] can
//!   make a whole step one launch on a GPU.
//!
//! # How to use it
//!
//! Two ranks, as threads of this process, share a periodic grid of 8 × 6 cells with a halo of one cell:
//!
//! ```
//! use haloport::cpu::CpuDevice;
//! use haloport::{Field, Grid, Halo, Pattern, Schedule, Split, run_ranks};
//!
//! run_ranks(2, |comm| {
//!     let grid = Grid::new([8, 6])?.periodic([true, true])?;
//!     let mine = Split::balanced(&grid, comm.size())?.part(comm.rank()).ok_or("there are more ranks than parts")?;
//!     let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
//!
//!     let device = CpuDevice::with_threads(1)?; // one core for each rank
//!     let mut depth = Field::<f64, _>::new(&device, &pattern)?;
//!     depth.view_mut(0)?.fill_with(|index, _| if mine.contains(index) { comm.rank() as f64 } else { -1.0 });
//!
//!     let mut exchange = pattern.bind(depth)?;
//!     exchange.run(Schedule::DefaultStream)?; // or `start`, other work, and `finish`
//!
//!     let below = [mine.lower()[0] - 1, mine.lower()[1]]; // a halo cell, which the other rank owns
//!     assert_eq!(exchange.fields().view(0)?[below], (1 - comm.rank()) as f64);
//!     Ok(())
//! })?;
//! # Ok::<(), haloport::RanksError>(())
//! ```
//!
//! | to | see |
//! | --- | --- |
//! | choose a device, at compile time or at run time | [`DefaultDevice`]; [`AnyDevice::select`], [`with_device!`], [`backends`] |
//! | run as MPI processes | the module `mpi`, with the feature of that name (on by default); [`launched_by`] |
//! | exchange on a cubed sphere or a mesh | [`Grid::cubed_sphere`], [`Pattern::unstructured`] |
//! | read and write cells | [`View`], [`ViewMut`]; fastest row by row |
//! | exchange memory of your own, or fields that change places | [`Pattern::plan`], [`BorrowedField`], [`interop`] |
//! | launch kernels in order with exchanges | [`device`], [`Schedule`] |
//! | send irregular messages | [`SparseExchange`], [`LineExchange`] |
//! | see when a rank computed, exchanged and waited | [`trace`] |
//!
//! Functions that return [`Error`] take any other error with `?`, and `main` prints it as text. Authors of backends and
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

// Ranks.
#[doc(inline)]
pub use haloport_core::comm::{
    Communicator, DEFAULT_TIME_LIMIT, DEFAULT_WARN_AFTER, InterruptCheck, MOST_RANKS, Progress, RanksError,
    Reducible, run_ranks, threads,
};
#[doc(inline)]
pub use haloport_core::launcher::launched_by;
#[doc(inline)]
pub use haloport_core::transport::{Reach, Reduction, TransportError, TransportInfo};
/// Ranks as MPI processes.
#[cfg(feature = "mpi")]
pub use haloport_mpi as mpi;

// Domains, and the cells that travel.
#[doc(inline)]
pub use haloport_core::domain::{
    Connectivity, Fold, Grid, GridError, Halo, HaloCells, IndexBox, IndexSet, MAX_AXES, Orientation, Pivot,
    Points, Split, cubed_sphere, fold,
};
#[doc(inline)]
pub use haloport_core::pattern::{CellRegions, Cells, Pattern, PatternError, Piece, Regions, SetupCost};

// Devices.
/// The CPU backend, on rayon.
#[cfg(feature = "cpu")]
pub use haloport_cpu as cpu;
/// The CUDA backend.
#[cfg(feature = "cuda")]
pub use haloport_cuda as cuda;
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

// Fields.
#[doc(inline)]
pub use haloport_core::element::{Element, ElementType};
#[doc(inline)]
pub use haloport_core::field::{
    AnyField, ArrayCells, ArrayShape, AxisRole, BlockLayout, BorrowedField, CellBlocks, ComponentPlace,
    Field, FieldBuilder, FieldError, FittedAxis, Rows, RowsAround, RowsMut, ShapeError, View, ViewMut,
};

// Exchanges.
#[doc(inline)]
pub use haloport_core::exchange::{
    Begun, BindError, BindOptions, Binder, Choice, Completion, CopiedBy, DEFAULT_STAGING_CHUNK,
    DEFAULT_STAGING_COPY, DataPath, Exchange, ExchangeError, FieldLayout, FieldSet, Finish, HaloOrder,
    Pending, Plan, Schedule, SourceTarget, Step, StepError, Traffic,
};
#[doc(inline)]
pub use haloport_core::{Error, field_set};

// Irregular communication.
#[doc(inline)]
pub use haloport_core::line::{Line, LineExchange};
#[doc(inline)]
pub use haloport_core::sparse::{SparseError, SparseExchange, SparseOptions};

// Arrays of other programs, warnings, and the time line.
#[doc(inline)]
pub use haloport_core::{interop, log, trace};

/// Devices, their memory and streams, and kernels: for programs that are generic over the device or launch kernels.
///
/// `haloport_core::device::dialect` describes the language of kernels that run on any device. What only backends need
/// (copies, captured work, the kernel cache) is in `haloport_core::device`.
pub mod device {
    #[doc(inline)]
    pub use haloport_core::device::{
        AnyStream, Buffer, Capabilities, CurrentStream, Device, DeviceError, DeviceId, DeviceInfo, Event,
        HostKernel, IndexRange, KernelArgument, KernelSource, LaunchConfig, MemoryKind, ParameterType,
        Pointer, Priority, Stream, current_stream, make_current,
    };
}

/// The rounds of a line exchange: the payloads that a rank gets and passes on.
pub mod line {
    #[doc(inline)]
    pub use haloport_core::line::{NextRound, Payloads};
}

/// The rounds of a sparse exchange: sending, from several threads if you want, and receiving.
pub mod sparse {
    #[doc(inline)]
    pub use haloport_core::sparse::{Completing, Inserter, Round, Slot};
}

/// Tests the README's example.
#[cfg(all(doctest, feature = "cpu"))]
#[doc = include_str!("../README.md")]
struct Readme;
