//! Fields: one value (or several components) for each cell of every domain of a rank, halos included.

mod arrays;
mod borrowed;
mod builder;
mod description;
mod error;
mod layout;
mod load;
mod owned;
mod placement;
mod ranges;
mod storage;
mod untyped;
mod vector;
mod view;

pub use borrowed::BorrowedField;
pub use builder::FieldBuilder;
pub use description::ComponentPlace;
pub use error::FieldError;
pub use layout::BlockLayout;
pub use owned::Field;
pub use view::{Rows, RowsAround, RowsMut, View, ViewMut};

pub(crate) use layout::copy_axes;
pub(crate) use load::{LINE_BYTES, Load};
pub(crate) use ranges::ranges_of;
pub(crate) use storage::{LastWrite, Storage};
pub(crate) use untyped::{BoundField, FieldRef};
pub(crate) use vector::VectorAxes;
