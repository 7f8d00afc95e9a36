//! Binding a pattern to fields: what ranks settle with each other, once.
//!
//! In this order:
//! - `set` collects the fields by device; for a plan, `layouts` has what it needs to know of fields, and `passed` the fields
//!   with which it is started;
//! - `terms`: the ranks agree that they bind the same fields, and on the order in which halos are filled;
//! - `negotiate`: for each field, the `sender` makes an offer, the `receiver` chooses a way, and the sender lends its windows.

mod layouts;
mod negotiate;
mod passed;
mod receiver;
mod sender;
mod set;
mod terms;

pub use layouts::FieldLayout;
pub use set::{Binder, FieldSet, OneField, SourceTarget};

pub(super) use layouts::LayoutSet;
pub(super) use passed::PassedFields;
pub(super) use terms::{bind_fields, bind_layouts};
