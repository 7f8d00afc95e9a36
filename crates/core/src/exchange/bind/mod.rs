//! Binding a pattern to fields, which is done once.
//!
//! In this order:
//! - `set` collects the fields by device, as `fields` (`source_target`: two of them, one to read, one to write); for a
//!   plan, `layouts` has what it needs to know of fields, and `passed` the fields with which it is started;
//! - `agree`: the ranks agree that they bind the same fields (`fits`), and on the order in which halos are filled
//!   (`cost`);
//! - `stream_groups`: the ranks join groups whose streams send each other messages;
//! - `negotiate`: for each field, the sender makes an `offer` and the receiver chooses a way; `mapping` maps fields of
//!   other processes, `exported` keeps exported device memory alive, and `chunks` splits staged messages;
//! - `build` binds the part of each device, and opens its channels: its `messages` and `stream_messages`, laid out by
//!   `message_sets`; its `windows`, also those on `halos` into which the sender writes; and the rank's `own_cells`.

mod agree;
mod build;
mod chunks;
mod cost;
mod exported;
mod fields;
mod fits;
mod halos;
mod layouts;
mod mapping;
mod message_sets;
mod messages;
mod negotiate;
mod offer;
mod own_cells;
mod passed;
mod set;
mod source_target;
mod stream_groups;
mod stream_messages;
mod windows;

pub use layouts::FieldLayout;
pub use set::{Binder, FieldSet};
pub use source_target::{OneField, SourceTarget};

pub(super) use agree::{bind_fields, bind_layouts};
pub(super) use layouts::LayoutSet;
pub(super) use passed::PassedFields;
