//! The core of Haloport: devices, domains, patterns, fields, the exchange and the in-process transport.
//!
//! It names no backend, no MPI and no other language. From the bottom up:
//!
//! - [`device`]: streams, events, memory, copies and kernels behind one trait;
//! - [`domain`]: grids, boxes, splits and halo widths;
//! - [`transport`]: how bytes travel between ranks;
//! - [`comm`]: a rank and the other ranks: collective calls, waiting, progress, and ranks as threads;
//! - [`pattern`]: who sends which cells to whom;
//! - [`field`]: the memory of distributed fields;
//! - [`interop`]: arrays and streams of other programs (DLPack and the like), as checked plain data;
//! - [`exchange`]: a pattern bound to fields, from start to finish;
//! - [`sparse`]: messages of any length between ranks that change from round to round;
//! - [`mod@line`]: consecutive intervals of a line, and payloads passed along it;
//! - [`trace`]: the time line of a rank, of kernels, exchanges and waits.

#![warn(missing_docs)]

mod callback;
pub mod comm;
pub mod device;
pub mod domain;
pub mod element;
mod error;
pub mod exchange;
pub mod field;
pub mod interop;
pub mod line;
pub mod pattern;
pub mod sparse;
pub mod trace;
pub mod transport;

pub use comm::{Communicator, MOST_RANKS, Progress, RanksError, Reducible, run_ranks};
pub use domain::{Connectivity, Grid, GridError, Halo, HaloCells, IndexBox, IndexSet, Orientation, Split};
pub use element::{Element, ElementType};
pub use error::Error;
pub use exchange::{
    BindError, BindOptions, Binder, DataPath, Exchange, ExchangeError, FieldSet, HaloOrder, Pending, Plan,
    Schedule, Step, StepError,
};
pub use field::{
    BlockLayout, BorrowedField, ComponentPlace, Field, FieldError, Rows, RowsAround, RowsMut, View, ViewMut,
};
pub use line::{Line, LineExchange};
pub use pattern::{CellRegions, Cells, Pattern, PatternError, Piece, Regions};
pub use sparse::{SparseError, SparseExchange, SparseOptions};
pub use transport::{Reduction, TransportError};
