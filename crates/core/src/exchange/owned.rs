//! Exchanges that own their fields.

use super::agree::{Binder, FieldSet, PassedFields, bind_fields};
use super::handle::{Exchange, OwnedFields};
use super::options::{BindError, BindOptions, ExchangeError, Schedule};
use super::passed::Passed;
use super::pending::{Pending, PendingFields};
use super::turns::{Ticket, Turns};
use crate::comm::CollectiveCall;
use crate::pattern::Pattern;

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
        let (builders, identities) = Binder::collect(&fields);
        let _steps = self.comm().enter(CollectiveCall::Bind { pattern: self.number() })?;
        let (bound, settled) = bind_fields(self, builders, &options)?;
        let turns = Turns::new(self, vec![bound], &PassedFields::default(), settled, options.on_complete);
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

impl<F: FieldSet + Send + 'static> Exchange<F> {
    /// Forgets the type of the fields, which the exchange keeps: its starts are then those of an exchange to which fields
    /// are [`Passed`], with no fields and no addresses.
    ///
    /// # Errors
    /// [`ExchangeError::FieldsReplaced`]; the exchange is then lost.
    pub fn into_passed(mut self) -> Result<Exchange<Passed>, ExchangeError> {
        self.fields.check()?;
        let Exchange { turns, fields } = self;
        Ok(Exchange {
            turns,
            fields: OwnedFields::new(Passed::none(Box::new(fields.into_inner())), [].into()),
        })
    }
}
