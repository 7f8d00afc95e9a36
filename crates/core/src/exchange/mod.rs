//! The exchange: a pattern bound to fields once, and run as often as needed.
//!
//! # What is done once
//! [`Pattern::bind`] is collective. The fields are collected by device. All ranks agree that they bind the same fields
//! to the same pattern, and on the order in which halos are filled. Then each rank negotiates with each neighbour how
//! the cells of each field get there: the sender offers, the receiver chooses.
//!
//! - If the receiver can reach the sender's field, as a thread of the same process or in memory that processes of a
//!   node share, it copies straight from the field into its halo: the sender lends a *window* on the field.
//! - If both are processes of one node, the sender packs into memory that both have mapped, and the receiver unpacks
//!   from it: the sender lends a window on the *message*.
//! - Otherwise the cells travel in a message of the transport, from a buffer or, if they lie in the field as they would
//!   lie in the message, from the field itself. If both ends stage messages through memory of the host, a large one is
//!   split into chunks.
//!
//! The result is a *part* for each device: buffers, channels of the transport, windows, and lists of copies, which the
//! device has bound so that running one costs at most a launch.
//!
//! # What is done every time
//! `start` packs and sends; polling makes progress; `finish` unpacks the rest. None of them allocates.
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
//! An [`Exchange`] owns its fields, or holds exclusive borrows of them; a [`Plan`] is passed fields at each start.
//! Between `start` and `finish` the [`Pending`] exchange borrows them, so that the compiler refuses code that touches
//! halos in flight. Memory of fields that own theirs is also marked as in flight, in case the `Pending` is forgotten.
//! The bound state is a *flight*, shared by the exchange and the engine of its communicator, which polls it. If an
//! exchange fails, its flight is abandoned: channels and windows are closed, memory that the transport may still be
//! using is kept until the transport releases it, and every later use returns an error: the exchange is poisoned.
//!
//! # Where to read on
//! From the bottom up (no file imports from a folder above its own): `options`, the options, errors and reports of an
//! exchange; `layout`, the cells in fields and messages; `run`, the work of every exchange; `bind`, the work that is
//! done once. Beside this file are the types that a user holds: `pending` and `plan`; `owned_fields`, the fields
//! of an exchange; `overlap`, an exchange with other work in one call; and `step`, an exchange recorded together with that
//! work.

mod bind;
#[cfg(doctest)]
mod compile_fail;
mod layout;
mod options;
mod overlap;
mod owned_fields;
mod pending;
mod plan;
mod run;
mod step;

use std::fmt;

pub use bind::{Binder, FieldLayout, FieldSet, OneField, SourceTarget};
pub use options::{
    BindError, BindOptions, Choice, Completion, CopiedBy, DEFAULT_STAGING_CHUNK, DEFAULT_STAGING_COPY,
    DataPath, ExchangeError, HaloOrder, Schedule, StepError, Traffic,
};
pub use pending::{Finish, Pending};
pub use plan::{Begun, Plan};
pub use step::Step;

use bind::bind_fields;
use owned_fields::OwnedFields;
use pending::PendingFields;
use run::bound::Bound;

use crate::comm::CollectiveCall;
use crate::pattern::Pattern;

/// A pattern bound to fields. Binding lays out messages, allocates buffers and binds copies, once; running the exchange
/// does none of that again.
///
/// The exchange owns the fields. [`fields`](Exchange::fields) and [`fields_mut`](Exchange::fields_mut) give access to
/// them; the compiler refuses both while the exchange is pending.
pub struct Exchange<F> {
    /// Dropped before the fields.
    bound: Bound,
    choice: Choice,
    /// Whether it was begun by `begin` and not ended.
    begun: bool,
    fields: OwnedFields<F>,
}

impl<F: fmt::Debug> fmt::Debug for Exchange<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("status", &self.bound.flight.status())
            .field("fields", self.fields())
            .finish_non_exhaustive()
    }
}

impl Pattern {
    /// Collective: binds the pattern to fields. See [`Exchange`].
    ///
    /// # Errors
    /// See [`BindError`]; every rank gets the same error.
    pub fn bind<F: FieldSet>(&self, fields: F) -> Result<Exchange<F>, BindError> {
        self.bind_with(fields, BindOptions::default())
    }

    /// As [`bind`](Pattern::bind), with options.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind_with<F: FieldSet>(&self, fields: F, options: BindOptions) -> Result<Exchange<F>, BindError> {
        Exchange::bind(self, fields, options)
    }
}

impl<F: FieldSet> Exchange<F> {
    fn bind(pattern: &Pattern, fields: F, options: BindOptions) -> Result<Exchange<F>, BindError> {
        let (builders, identities) = Binder::collect(&fields);
        let _steps = pattern.comm().enter(CollectiveCall::Bind { pattern: pattern.number() })?;
        let (bound, choice) = bind_fields(pattern, builders, &options)?;
        bound.flight.on_complete(options.on_complete);
        Ok(Exchange { bound, choice, begun: false, fields: OwnedFields::new(fields, identities) })
    }

    /// Ends the exchange and returns the fields. Completes an exchange in flight first.
    ///
    /// # Errors
    /// [`ExchangeError`] if that fails; the fields are then lost.
    pub fn into_fields(mut self) -> Result<F, ExchangeError> {
        if self.bound.flight.is_in_flight() {
            self.complete()?;
        }
        let Exchange { bound, fields, .. } = self;
        drop(bound);
        Ok(fields.into_inner())
    }

    /// Starts an exchange: packs, sends, and returns without waiting for neighbours. If an earlier pending exchange was
    /// forgotten, completes it first. Allocates nothing.
    ///
    /// On an asynchronous device, it puts the packing into streams and returns. If messages of the last exchange have
    /// not arrived yet, it blocks until they have, since their memory is used again.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn start(&mut self, schedule: Schedule<'_>) -> Result<Pending<'_, F>, ExchangeError> {
        self.make_ready()?;
        self.bound.start(schedule)?;
        let Exchange { bound, fields, .. } = self;
        Ok(Pending::new(bound, PendingFields::Bound(fields)))
    }

    /// Starts and finishes an exchange in one call.
    ///
    /// # Errors
    /// As for [`start`](Exchange::start) and [`Pending::finish`].
    pub fn run(&mut self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        self.make_ready()?;
        self.bound.start_to_end(schedule)?;
        self.bound.end(schedule)
    }

    /// Begins an exchange, as [`start`](Exchange::start), for programs that cannot hold a [`Pending`]: nothing is
    /// borrowed. Until [`end`](Exchange::end), access to the cells of fields that own their memory returns
    /// [`FieldError::InFlight`](crate::FieldError::InFlight).
    ///
    /// # Errors
    /// [`ExchangeError::AllInFlight`] if it was begun before and not ended. Others as for [`start`](Exchange::start).
    pub fn begin(&mut self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        self.make_ready()?;
        self.bound.start(schedule)?;
        self.begun = true;
        Ok(())
    }

    /// Ends an exchange that [`begin`](Exchange::begin) began. Blocks, and orders, as [`Pending::finish`] does.
    ///
    /// # Errors
    /// [`ExchangeError::NotInFlight`] if none was begun; [`ExchangeError::FieldsReplaced`]. Others as for
    /// [`Pending::finish`].
    pub fn end(&mut self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        if !self.begun {
            return Err(ExchangeError::NotInFlight);
        }
        self.fields.check()?;
        self.bound.pattern.comm().check_thread()?;
        self.begun = false;
        self.bound.end(schedule)
    }

    /// Makes progress, and returns whether [`end`](Exchange::end) would return without waiting for a neighbour; also
    /// `true` if nothing is in flight or the exchange has failed. Does not block.
    pub fn is_ready(&self) -> bool {
        self.bound.is_ready()
    }

    /// Completes an exchange that was begun and not ended, or whose pending exchange was forgotten; does nothing
    /// otherwise.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn complete(&mut self) -> Result<(), ExchangeError> {
        self.fields.check()?;
        self.begun = false;
        self.bound.complete()
    }

    /// Completes an exchange that was forgotten, so that the next one can start.
    fn make_ready(&mut self) -> Result<(), ExchangeError> {
        if self.begun {
            return Err(ExchangeError::AllInFlight { most: 1 });
        }
        self.complete()
    }

    /// Blocks until the halos of the last exchange are in place, also for the host. Does nothing with
    /// [`Schedule::Blocking`] and on the CPU, where `finish` has waited for that.
    ///
    /// # Errors
    /// [`ExchangeError`], including that of an exchange that has failed after `finish` returned.
    pub fn synchronize(&mut self) -> Result<(), ExchangeError> {
        self.complete()?;
        self.bound.synchronize()
    }
}

impl<F> Exchange<F> {
    /// The fields. If a pending exchange was forgotten, access to their cells returns
    /// [`FieldError::InFlight`](crate::FieldError::InFlight).
    pub fn fields(&self) -> &F {
        self.fields.get()
    }

    /// The fields, for writing. If a field is replaced by another, every later use of the exchange is an error until it
    /// is put back.
    pub fn fields_mut(&mut self) -> &mut F {
        self.fields.get_mut()
    }

    /// The pattern.
    pub fn pattern(&self) -> &Pattern {
        &self.bound.pattern
    }

    /// The amount of data that one exchange moves on this rank.
    pub fn traffic(&self) -> Traffic {
        self.bound.flight.traffic()
    }

    /// The path and the order of this exchange.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }
}
