//! The exchange: a pattern bound to fields, run as often as wanted.
//!
//! Read in this order:
//! - this file: [`Exchange`], what a user holds, and `options`: what can be said when it is bound;
//! - `path`: how cells may get to a neighbour, `order`: halos filled all at once or axis by axis, and `cost`: what either
//!   is expected to cost;
//! - `agree`: what ranks agree on at [`bind`](crate::Pattern::bind), `fits`: what fields must be like, `settle`: the way
//!   of each field, with its `places` in memory that neighbours reach, `layout`: where cells lie in messages, and in the
//!   `chunks` that large ones are `cut` into, and `bind`: copies bound, each between two `side`s, to messages of which some
//!   lie in a `segment` that two processes share; `exported`: which of them is done first with a device's memory;
//! - `part`: what one device does in each phase of an exchange, `message`: with each message, in the memory that `buffers`
//!   has, `groups`: with chunks, and `windows`: with memory that ranks lend each other, until all is `unpacked`; `staged`:
//!   the same axis by axis; and what it moves, as `traffic`;
//! - `flight`: the parts together, from start to finish, and poisoning; `bound`: a flight between its ranks;
//! - `engine`: what drives the flights of a rank, and `progress`: the thread that does so while the host goes on;
//! - `traced`: what the time line of the rank is told, if there is one;
//! - `pending`: the borrow that keeps fields from being touched in flight, and `overlap`: work between start and finish;
//! - `recorded`: an exchange with the work beside it, captured, and `step`: what a user holds of it;
//! - `plan`: an exchange of fields that are passed at each start, and `passing`: what these must be like;
//! - `names`: values that are written and read by name.

mod bind;
#[cfg(doctest)]
mod compile_fail;
mod layout;
mod options;
mod overlap;
mod pending;
mod plan;
mod run;
mod step;

use std::fmt;
use std::sync::Arc;

pub use bind::{Binder, FieldSet};
pub use options::{
    BindError, BindOptions, Choice, Completion, DEFAULT_STAGING_CHUNK, DataPath, ExchangeError, HaloOrder,
    Schedule, StepError, Traffic,
};
pub use pending::{Finish, Pending};
pub use plan::Plan;
pub use step::Step;

use bind::bind_fields;
use pending::PendingFields;
use run::bound::Bound;

use crate::comm::Call;
use crate::pattern::Pattern;

/// A pattern bound to fields: messages are laid out, buffers allocated and copies bound, once. Running it does none
/// of that again.
///
/// It owns the fields; they are reached through [`fields`](Exchange::fields) and
/// [`fields_mut`](Exchange::fields_mut), which the compiler refuses while the exchange is pending.
pub struct Exchange<F> {
    /// Dropped before the fields.
    bound: Bound,
    choice: Choice,
    /// What tells the fields from others.
    identities: Arc<[usize]>,
    fields: F,
}

impl<F: fmt::Debug> fmt::Debug for Exchange<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("status", &self.bound.flight.status())
            .field("fields", &self.fields)
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
        let _steps = pattern.comm().enter(Call::Bind { pattern: pattern.number() })?;
        let (bound, choice) = bind_fields(pattern, builders, &options)?;
        bound.flight.on_complete(options.on_complete);
        Ok(Exchange { bound, choice, identities, fields })
    }

    /// Ends the exchange and gives the fields back. Completes what is in flight first.
    ///
    /// # Errors
    /// [`ExchangeError`] where that fails; the fields are lost with it.
    pub fn into_fields(mut self) -> Result<F, ExchangeError> {
        if self.bound.flight.is_in_flight() {
            self.complete()?;
        }
        let Exchange { bound, fields, .. } = self;
        drop(bound);
        Ok(fields)
    }

    /// Starts an exchange: packs, sends, and returns; neighbours need not have come as far. If an earlier pending
    /// exchange was forgotten, it is completed first. Allocates nothing.
    ///
    /// On an asynchronous device it puts the packing into streams and returns. Where the messages of the last exchange have
    /// not all come yet, it waits for them first: their memory is used again.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn start(&mut self, schedule: Schedule<'_>) -> Result<Pending<'_, F>, ExchangeError> {
        self.complete()?;
        self.bound.start(schedule)?;
        let Exchange { bound, identities, fields, .. } = self;
        Ok(Pending::new(bound, identities, PendingFields::Bound(fields)))
    }

    /// Starts and finishes an exchange in one call.
    ///
    /// # Errors
    /// As for [`start`](Exchange::start) and [`Pending::finish`].
    pub fn run(&mut self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        self.complete()?;
        self.bound.start(schedule)?;
        self.bound.end(schedule)
    }

    /// Completes an exchange whose pending exchange was forgotten; does nothing otherwise.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn complete(&mut self) -> Result<(), ExchangeError> {
        // Fields that were replaced are no longer ours to touch, see `fields_mut`.
        if !Binder::is_same(&self.fields, &self.identities) {
            return Err(ExchangeError::FieldsReplaced);
        }
        self.bound.complete()
    }

    /// Blocks until the halos of the last exchange are in place, also for the host. Does nothing where `finish` has seen to
    /// that: with [`Schedule::Blocking`], and on the CPU.
    ///
    /// # Errors
    /// [`ExchangeError`], also of an exchange that has failed since `finish` returned.
    pub fn synchronize(&mut self) -> Result<(), ExchangeError> {
        self.complete()?;
        self.bound.synchronize()
    }
}

impl<F> Exchange<F> {
    /// The fields. While a pending exchange was forgotten, access to their cells gives
    /// [`FieldError::InFlight`](crate::FieldError::InFlight).
    pub fn fields(&self) -> &F {
        &self.fields
    }

    /// The fields, for writing. Replacing one by another field makes every later use of the exchange an error,
    /// until it is put back.
    pub fn fields_mut(&mut self) -> &mut F {
        &mut self.fields
    }

    /// The pattern.
    pub fn pattern(&self) -> &Pattern {
        &self.bound.pattern
    }

    /// What one exchange moves on this rank.
    pub fn traffic(&self) -> Traffic {
        self.bound.flight.traffic()
    }

    /// How an exchange is done.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }
}
