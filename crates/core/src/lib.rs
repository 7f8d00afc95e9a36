//! The core of Haloport: halo exchange on any device and over any transport.
//!
//! A halo exchange fills the ghost cells of a distributed field from the neighbours that own them. This crate contains
//! everything but the backends and MPI, which other crates add by implementing one of its two traits. Programs depend
//! on the crate `haloport`, which re-exports it together with them; authors of backends and transports depend on this
//! crate.
//!
//! # Two traits
//!
//! - [`Device`](device::Device): a processor with streams, events, memory, lists of copies and kernels. Its calls are
//!   unsafe, with written contracts. Generic code is compiled for each device. What only some devices can do is in traits
//!   of their own, such as [`Gates`](device::Gates), which a device hands out.
//! - [`Transport`](transport::Transport): moves bytes between ranks. It knows no devices' events, fields or patterns.
//!   Ranks are threads of one process, with the transport of this crate, or processes.
//!
//! # The way of a halo
//!
//! 1. Each rank describes its *domains*: boxes of a [`Grid`], or sets of numbered cells.
//! 2. All ranks together make a [`Pattern`] once: the cells that each rank sends to each other rank. No rank holds a
//!    table of all ranks. If ranks disagree, all of them get the same error.
//! 3. Each rank allocates a [`Field`], or lends memory as a [`BorrowedField`].
//! 4. [`Pattern::bind`] makes an [`Exchange`]. It chooses how the cells reach each neighbour: copied directly from its
//!    field, through shared memory, or in messages, with all fields for a neighbour in one message. It lays out
//!    messages, allocates buffers, binds lists of copies and opens channels. [`Pattern::plan`] makes one for fields that
//!    are [`Passed`] to each start.
//! 5. [`Exchange::start`] packs and sends; [`Pending::finish`] ends with the halos in place. Neither allocates. Both are
//!    in order with a stream of the device, so that the host need not wait. In between, the [`Pending`]
//!    exchange lends the cells that can be computed meanwhile, and the compiler refuses all other access.
//! 6. Each call that waits polls all exchanges of its rank; on asynchronous devices, a thread does so while the host
//!    goes on.
//!
//! Safety does not depend on destructors: memory that a neighbour or a device may still use is kept alive and marked as
//! in flight, even if a pending exchange is forgotten. Waits have a time limit, by default 30 minutes.
//!
//! # The modules
//!
//! Each module imports only from those before it; `scripts/imports` checks that.
//!
//! | module | contents |
//! | --- | --- |
//! | [`log`] | warnings, and where they go |
//! | [`launcher`] | what MPI launchers tell the processes that they start |
//! | [`device`] | the trait `Device`, copies, kernels, the kernel cache |
//! | [`element`] | the types of numbers in fields |
//! | [`domain`] | grids, boxes, splits, halo widths, sets of cells |
//! | [`transport`] | the trait `Transport`, windows into memory of neighbours, ranks as threads |
//! | [`trace`] | the time line of a rank: kernels, exchanges and waits |
//! | [`comm`] | [`Communicator`]: collective calls, time limits, progress, [`run_ranks`], [`threads`] |
//! | [`pattern`] | from domains to pieces that are sent and received |
//! | [`interop`] | arrays and streams of other programs (DLPack and the like), as checked plain data |
//! | [`field`] | the memory of fields, their layouts, views from the host |
//! | [`exchange`] | a pattern bound to fields, from start to finish |
//! | [`sparse`] | messages of any size to any rank; receivers need not know in advance |
//! | [`mod@line`] | consecutive intervals of a line, and payloads passed along it |

#![warn(missing_docs)]

mod callback;
pub mod comm;
pub mod device;
pub mod domain;
pub mod element;
mod error;
mod error_kind;
pub mod exchange;
pub mod field;
pub mod interop;
pub mod launcher;
pub mod line;
mod lock;
pub mod log;
pub mod pattern;
pub mod sparse;
pub mod trace;
pub mod transport;

pub use comm::{
    Communicator, InterruptCheck, MOST_RANKS, Progress, RanksError, Reducible, run_ranks, threads,
};
pub use domain::{
    Connectivity, Fold, Grid, GridError, Halo, HaloCells, IndexBox, IndexSet, Orientation, Pivot, Points,
    Split,
};
pub use element::{Element, ElementType};
pub use error::Error;
pub use error_kind::ErrorKind;
pub use exchange::{
    BindError, BindOptions, Binder, DataPath, Exchange, ExchangeError, FieldLayout, FieldSet, HaloOrder,
    OfPattern, Passed, Pending, Schedule, SourceTarget, StepError, Ticket, Whole, WholeError,
};
pub use field::{
    AnyField, ArrayCells, ArrayShape, AxisRole, BlockLayout, BorrowedField, CellBlocks, ComponentPlace,
    Field, FieldBuilder, FieldError, FittedAxis, Rows, RowsAround, RowsMut, ShapeError, View, ViewMut,
};
pub use line::{Line, LineExchange};
pub use pattern::{
    CellRegions, Cells, GridPattern, Pattern, PatternError, PatternSet, Piece, Redistribution, Regions, Slab,
    SlabPart, Slabs,
};
pub use sparse::{SparseError, SparseExchange, SparseOptions};
pub use transport::{Reduction, TransportError};
