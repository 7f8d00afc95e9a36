//! The type of an exchange: what it has whether it owns its fields or not, and the starts of one that owns them.

use std::fmt;

use super::agree::{Binder, FieldSet, PassedFields, bind_fields};
use super::options::{BindError, BindOptions, Choice, Description, ExchangeError, Route, Schedule, Traffic};
use super::pending::{OwnedFields, Pending, PendingFields};
use super::turns::{Ticket, Turns};
use crate::comm::CollectiveCall;
use crate::pattern::Pattern;

/// A pattern bound to fields. Binding lays out messages, allocates buffers and binds copies, once; running the exchange
/// does none of that again.
///
/// There are two kinds:
///
/// | | `Exchange<F>`, from [`Pattern::bind`] | [`Exchange<Passed>`](super::Passed), from [`Pattern::plan`] |
/// | --- | --- | --- |
/// | the fields | are owned by the exchange | are passed to each start, and may be others each time |
/// | between ranks that share memory | are copied straight from the neighbour | are packed |
///
/// An exchange is started and finished in one call ([`run`](Exchange::run)), or in two, with work between them
/// ([`start`](Exchange::start) and [`finish`](super::Pending::finish)). These calls are in order with the default stream
/// of each device; those that end in `_on` with another [`Schedule`], such as a stream. Programs that cannot
/// hold a borrow call [`start_detached`](Exchange::start_detached) and [`finish`](Exchange::finish).
pub struct Exchange<F> {
    /// Dropped before the fields.
    pub(super) turns: Turns,
    pub(super) fields: OwnedFields<F>,
}

impl<F: fmt::Debug> fmt::Debug for Exchange<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("statuses", &self.turns.statuses())
            .field("fields", self.fields.get())
            .finish_non_exhaustive()
    }
}

impl<F> Exchange<F> {
    /// Makes progress, and returns whether [`finish`](Exchange::finish) would return without waiting for a neighbour; also
    /// `true` if the exchange of this ticket has ended or failed, or is one of another `Exchange`. Does not block.
    pub fn is_ready(&self, ticket: Ticket) -> bool {
        self.turns.is_ready(ticket)
    }

    /// The pattern; of a [redistribution](crate::Redistribution), that of the target.
    pub fn pattern(&self) -> &Pattern {
        &self.turns.pattern
    }

    /// The amount of data that one exchange moves on this rank.
    pub fn traffic(&self) -> Traffic {
        self.turns.traffic()
    }

    /// The path and the order of this exchange.
    pub fn choice(&self) -> &Choice {
        &self.turns.settled.choice
    }

    /// How each field gets to and from each other rank, and why not by a quicker path: first those that come to this rank,
    /// then those that leave it, by rank and field.
    pub fn routes(&self) -> &[Route] {
        &self.turns.settled.routes
    }

    /// All of this together, which programs can write as a text.
    pub fn describe(&self) -> Description {
        let (choice, traffic, routes) = (*self.choice(), self.traffic(), self.routes().to_vec());
        Description { choice, traffic, routes }
    }
}

impl Pattern {
    /// Collective: binds the pattern to fields, which the [`Exchange`] owns.
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
        Exchange::bound(self, self, fields, options)
    }
}

impl<F: FieldSet> Exchange<F> {
    /// Collective: binds `fields` to the pieces of `pieces`. `pattern` is the one that the exchange names as its own.
    pub(super) fn bound(
        pieces: &Pattern,
        pattern: &Pattern,
        fields: F,
        options: BindOptions,
    ) -> Result<Exchange<F>, BindError> {
        let (builders, identities) = Binder::collect(&fields);
        let _steps = pieces.comm().enter(CollectiveCall::Bind { pattern: pieces.number() })?;
        let (bound, settled) = bind_fields(pieces, builders, &options)?;
        let turns = Turns::new(pattern, vec![bound], &PassedFields::default(), settled, options.on_complete);
        Ok(Exchange { turns, fields: OwnedFields::new(fields, identities) })
    }
}

/// An exchange that owns its fields. The compiler refuses access to them while the exchange is pending.
impl<F: FieldSet> Exchange<F> {
    /// Starts an exchange, in order with the default stream: packs, sends, and returns without waiting for neighbours. If
    /// an earlier pending exchange was forgotten, completes it first. Allocates nothing.
    ///
    /// On an asynchronous device, it puts the packing into streams and returns. If messages of the last exchange have
    /// not arrived yet, it blocks until they have, since their memory is used again.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn start(&mut self) -> Result<Pending<'_, F>, ExchangeError> {
        self.start_on(Schedule::DefaultStream)
    }

    /// As [`start`](Exchange::start), in order with a stream, or as a [`Schedule`] says.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn start_on<'s>(&mut self, order: impl Into<Schedule<'s>>) -> Result<Pending<'_, F>, ExchangeError> {
        let schedule = order.into();
        let Exchange { turns, fields } = self;
        fields.check()?;
        turns.make_ready()?;
        let slot = turns.start(|bound| bound.start(schedule))?;
        Ok(Pending::new(&slot.bound, PendingFields::Bound(fields)))
    }

    /// Starts and finishes an exchange in one call, in order with the default stream.
    ///
    /// # Errors
    /// As for [`start`](Exchange::start) and [`Pending::finish`].
    pub fn run(&mut self) -> Result<(), ExchangeError> {
        self.run_on(Schedule::DefaultStream)
    }

    /// As [`run`](Exchange::run), in order with a stream, or as a [`Schedule`] says.
    ///
    /// # Errors
    /// As for [`run`](Exchange::run).
    pub fn run_on<'s>(&mut self, order: impl Into<Schedule<'s>>) -> Result<(), ExchangeError> {
        let schedule = order.into();
        self.fields.check()?;
        self.turns.make_ready()?;
        let slot = self.turns.start(|bound| bound.start_to_end(schedule))?;
        slot.bound.end(schedule)
    }

    /// As [`run`](Exchange::run), of a caller that has synchronised before; returns when the halos are in place.
    ///
    /// # Errors
    /// As for [`run`](Exchange::run).
    pub fn run_blocking(&mut self) -> Result<(), ExchangeError> {
        self.run_on(Schedule::Blocking)
    }

    /// Starts an exchange, as [`start_on`](Exchange::start_on), for programs that cannot hold a [`Pending`]: nothing is
    /// borrowed. Until [`finish`](Exchange::finish), access to the cells of fields that own their memory returns
    /// [`FieldError::InFlight`](crate::FieldError::InFlight).
    ///
    /// # Errors
    /// [`ExchangeError::AllInFlight`] if the last one that was started in this way is not finished. Others as for
    /// [`start`](Exchange::start).
    pub fn start_detached<'s>(&mut self, order: impl Into<Schedule<'s>>) -> Result<Ticket, ExchangeError> {
        let schedule = order.into();
        self.fields.check()?;
        self.turns.make_ready()?;
        self.turns.start_detached(schedule)
    }

    /// Finishes an exchange that [`start_detached`](Exchange::start_detached) has started. Blocks, and orders, as
    /// [`Pending::finish_on`] does.
    ///
    /// # Errors
    /// [`ExchangeError::NotInFlight`] if it is finished, or is one of another `Exchange`;
    /// [`ExchangeError::FieldsReplaced`]. Others as for [`Pending::finish`].
    pub fn finish<'s>(
        &mut self,
        ticket: Ticket,
        order: impl Into<Schedule<'s>>,
    ) -> Result<(), ExchangeError> {
        self.turns.check(ticket)?;
        self.fields.check()?;
        self.turns.finish(ticket, order.into())
    }

    /// Completes an exchange whose pending exchange was forgotten, or whose ticket is lost; does nothing otherwise.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn complete(&mut self) -> Result<(), ExchangeError> {
        self.fields.check()?;
        self.turns.complete_all()
    }

    /// Blocks until the halos of the last exchange are in place, also for the host. Does nothing with
    /// [`Schedule::Blocking`] and on the CPU, where `finish` has waited for that. Completes an exchange in flight first.
    ///
    /// # Errors
    /// [`ExchangeError`], including that of an exchange that has failed after `finish` returned.
    pub fn synchronize(&mut self) -> Result<(), ExchangeError> {
        self.complete()?;
        self.turns.synchronize()
    }

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

    /// Ends the exchange and returns the fields. Completes an exchange in flight first.
    ///
    /// # Errors
    /// [`ExchangeError`] if that fails; the fields are then lost.
    pub fn into_fields(mut self) -> Result<F, ExchangeError> {
        if self.turns.are_in_flight() {
            self.complete()?;
        }
        let Exchange { turns, fields } = self;
        drop(turns);
        Ok(fields.into_inner())
    }
}
