//! Fields: one value (or several components) for each cell of every domain of a rank, halos included.

mod arrays;
mod borrowed;
mod builder;
mod description;
mod error;
mod layout;
mod owned;
mod placement;
mod ranges;
mod set;
mod vector;
mod view;

pub use borrowed::BorrowedField;
pub use builder::{ComponentPlace, FieldBuilder};
pub use error::FieldError;
pub use layout::BlockLayout;
pub use owned::Field;
pub use set::{Binder, FieldSet};
pub use view::{Rows, RowsAround, RowsMut, View, ViewMut};

pub(crate) use layout::copy_axes;
pub(crate) use owned::{LastWrite, Storage};
pub(crate) use ranges::ranges_of;
pub(crate) use set::{BoundField, FieldRef};
pub(crate) use vector::VectorAxes;
