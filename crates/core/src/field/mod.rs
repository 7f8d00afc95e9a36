//! Fields: one value, or several components, for each cell of every domain of a rank, with its halo.
//!
//! - [`Field`] owns its memory (`owned`, `storage`), made by a [`FieldBuilder`]; or it lies in arrays of other programs
//!   (`arrays`). [`AnyField`] is the same for a type that is known at run time (`any`). [`BorrowedField`] lies in slices
//!   that the caller lends.
//! - [`BlockLayout`] says how the cells of one domain lie in memory, [`CellBlocks`] in which blocks; [`ArrayShape`] makes
//!   it of an array whose axes run along cells, levels or components.
//! - [`View`] and [`ViewMut`] access the cells from the host.
//! - For the exchange: `untyped` fields, the bytes that neighbours read (`byte_ranges`), the memory that processes
//!   share (`sharing`), whether cells travel packed (`packing_cost`), components that are turned (`vector`), and cells of a
//!   grid that are copied one by one (`rows_in_box`).

mod any;
mod array_shape;
mod arrays;
mod borrowed;
mod builder;
mod byte_ranges;
mod cell_blocks;
mod error;
mod layout;
mod layout_options;
mod owned;
mod packing_cost;
mod rows_in_box;
mod sharing;
mod storage;
mod untyped;
mod vector;
mod view;

pub use any::AnyField;
pub use array_shape::{ArrayCells, ArrayShape, AxisRole, FittedAxis, ShapeError};
pub use borrowed::BorrowedField;
pub use builder::FieldBuilder;
pub use cell_blocks::CellBlocks;
pub use error::FieldError;
pub use layout::BlockLayout;
pub use layout_options::ComponentPlace;
pub use owned::Field;
pub use view::{Rows, RowsAround, RowsMut, View, ViewMut};

pub(crate) use byte_ranges::{extents_of, ranges_of};
pub(crate) use layout::copy_axes;
pub(crate) use packing_cost::{Handover, LINE_BYTES, Load, PAST_CACHES, SCATTERED};
pub(crate) use rows_in_box::RowsInBox;
pub(crate) use sharing::program_ranges;
pub(crate) use storage::{LastWrite, Storage};
pub(crate) use untyped::{BoundField, End, FieldRef, SourceField};
pub(crate) use vector::VectorAxes;
