//! What is done once, when a pattern is bound to fields.
//!
//! In this order:
//! - `set`: the fields are collected by device, each device's as `fields`; `passing`: those that a plan is started with;
//! - `agree`: the ranks agree that they bind the same fields (`fits`), and on the order in which halos are filled (`cost`);
//! - `negotiate`: neighbours settle the way of each field: the sender makes an `offer`, the receiver chooses; `places` finds
//!   fields in memory that processes share, `exported` keeps such memory of devices, `chunks` cuts what is staged;
//! - `build`: the part of each device is bound: its `messages`, laid out as `message_sets` says, its `windows` and the rank's
//!   `own_cells`; and its channels are opened.

mod agree;
mod build;
mod chunks;
mod cost;
mod exported;
mod fields;
mod fits;
mod message_sets;
mod messages;
mod negotiate;
mod offer;
mod own_cells;
mod passing;
mod places;
mod set;
mod windows;

pub use set::{Binder, FieldSet};

pub(super) use agree::bind_fields;
pub(super) use passing::Passing;
