//! Binding a pattern to fields: what ranks settle with each other, once.
//!
//! In this order:
//! - `set` collects the fields by device (`source_target`: two of them, one to read, one to write); for a plan, `layouts` has
//!   what it needs to know of fields, and `passed` the fields with which it is started;
//! - `terms`: the ranks agree that they bind the same fields, and on the order in which halos are filled
//!   (`cost`);
//! - `negotiate`: for each field, the sender makes an offer and the receiver chooses a way.

mod cost;
mod layouts;
mod negotiate;
mod passed;
mod set;
mod source_target;
mod terms;

pub use layouts::FieldLayout;
pub use set::{Binder, FieldSet};
pub use source_target::{OneField, SourceTarget};

pub(super) use layouts::LayoutSet;
pub(super) use passed::PassedFields;
pub(super) use terms::{bind_fields, bind_layouts};
