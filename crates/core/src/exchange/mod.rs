//! The exchange: a pattern bound to fields once, and run as often as needed.
//!
//! # What is done once
//! [`Pattern::bind`](crate::Pattern::bind) is collective. The fields are collected by device. All ranks agree that they bind
//! the same fields to the same pattern, and on the order in which halos are filled. Then each rank negotiates with each
//! neighbour how the cells of each field get there: the sender offers, the receiver chooses.
//!
//! - If the receiver can reach the sender's field, as a thread of the same process or in memory that processes of a
//!   node share, it copies straight from the field into its halo, or the sender does where streams hand fields over: the sender lends a *window* on the field. Both fields
//!   must own their memory.
//! - If both are processes of one node with devices that work in memory of the host, the sender packs into memory that both have mapped, and the receiver unpacks
//!   from it: the sender lends a window on the *message*.
//! - Otherwise the cells travel in a message of the transport, from a buffer or, if they lie in the field as they would
//!   lie in the message, from the field itself. If both ends stage messages through memory of the host, a large one is
//!   split into chunks. Between nodes, or if the option `path` asks for it, streams of the devices send and receive that
//!   message, if the ranks can form a group for it.
//!
//! The result is a *part* for each device: buffers, channels of the transport, windows, and lists of copies, which the
//! device has bound so that running one costs at most a launch.
//!
//! # What is done every time
//! `start` packs and sends; polling makes progress; `finish` unpacks the rest. After the first exchange none of them allocates.
//!
//! **On a synchronous device** (the CPU: its work is done when a call returns), `start` posts the receives, packs the
//! messages, sends them, opens the windows for neighbours, and copies the cells that the rank sends to itself. Every
//! call that waits, and [`Pending::is_ready`], polls: it copies from the windows that neighbours have opened, and
//! unpacks messages that have arrived. `finish` waits until everything has arrived, and gets fields back that neighbours
//! have not copied from in time: it packs a message in their place. Only `start` and `finish` touch borrowed memory.
//!
//! **On an asynchronous device** (a GPU), `start` records an event in the caller's stream, makes the part's own stream
//! wait for it, puts the packing and the copies of own cells into that stream, and returns. Polling, by a progress
//! thread or by calls that wait, queries the event behind the packing, then sends, and tests the messages. `finish`
//! puts a *gate* into the caller's stream and the unpacking behind it, and returns; when all messages have arrived,
//! polling opens the gate. On a device without gates, and with [`Schedule::Blocking`], `finish` waits for the messages
//! first.
//!
//! # Who owns what
//! An [`Exchange`] owns its fields, or holds exclusive borrows of them; or fields are [`Passed`] to each of its starts.
//! Between `start` and `finish` the [`Pending`] exchange borrows them, so that the compiler refuses code that touches
//! halos in flight. Memory of fields that own theirs is also marked as in flight, in case the `Pending` is forgotten.
//! The bound state is a *flight*, shared by the exchange and the engine of its communicator, which polls it. If an
//! exchange fails, its flight is abandoned: channels and windows are closed, memory that the transport may still be
//! using is kept until the transport releases it, and every later use returns an error: the exchange is poisoned.
//!
//! # Where to read on
//! From the bottom up (no file imports from a folder above its own): `options`, the options, errors and reports of an
//! exchange; `cells`, the cells in fields and messages; `work`, what every way uses; `ways`, a folder for each way of moving
//! cells; `part`, bound exchanges, from start to finish; `agree`, what ranks settle when they bind. Beside this file is what
//! a user holds: `handle`, the type `Exchange`, and the starts of one that owns its fields; `passed`, those of one whose fields
//! are passed; `redistribution`, both of cells that go from one pattern to another; `pattern_set`, both of the fields of several patterns; `turns`, the exchanges that can be in
//! flight at once; `pending`, one in flight; `overlap`, an exchange with other work in one call; and `whole`, all cells as one
//! array on one rank.

mod agree;
mod cells;
#[cfg(doctest)]
mod compile_fail;
mod handle;
mod options;
mod overlap;
mod part;
mod passed;
mod pattern_set;
mod pending;
mod redistribution;
mod turns;
mod ways;
mod whole;
mod work;

pub use agree::{Binder, FieldLayout, FieldSet, OfPattern, OneField, SourceTarget};
pub use handle::Exchange;
pub use options::{
    BindError, BindOptions, Choice, Completion, CopiedBy, DEFAULT_STAGING_CHUNK, DEFAULT_STAGING_COPY,
    DataPath, Description, ExchangeError, HaloOrder, Obstacle, Route, Schedule, StepError, Traffic,
};
pub use passed::Passed;
pub use pending::Pending;
pub use turns::Ticket;
pub use whole::{Whole, WholeError};
