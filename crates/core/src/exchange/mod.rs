//! The exchange: a pattern bound to fields, run as often as wanted.
//!
//! Read in this order:
//! - this file: [`Exchange`], what a user holds;
//! - `path`: how cells may get to a neighbour, and which way is taken;
//! - `plan`: what ranks agree on at [`bind`](crate::Pattern::bind), `settle`: the way of each field, `layout`: where
//!   cells lie in messages, and `bind`: copies bound, each between two `side`s, to messages of which some lie in a
//!   `segment` that two processes share;
//! - `part`: what one device does in each phase of an exchange, and `message`: with each message;
//! - `order`: halos filled all at once or axis by axis, and `staged`: what a device does in the second case;
//! - `flight`: the parts together, from start to finish, and poisoning;
//! - `engine`: who drives the flights of a rank;
//! - `pending`: the borrow that keeps fields from being touched in flight.

mod bind;
#[cfg(doctest)]
mod compile_fail;
mod engine;
mod error;
mod flight;
mod layout;
mod message;
mod order;
mod part;
mod path;
mod pending;
mod plan;
mod schedule;
mod segment;
mod settle;
mod side;
mod staged;

use std::fmt;
use std::sync::Arc;

pub use error::{BindError, ExchangeError};
pub use flight::Completion;
pub use order::HaloOrder;
pub use part::Traffic;
pub use path::DataPath;
pub use pending::{Finish, Pending};
pub use schedule::Schedule;

pub(crate) use engine::{Engine, Served};
pub(crate) use path::has_short_runs;
pub(crate) use plan::{PartBuilder, PartFields};

use crate::field::{Binder, FieldSet};
use crate::pattern::Pattern;
use crate::transport::TransportError;
use flight::{Flight, Status};

/// Options of [`Pattern::bind_with`].
#[derive(Default)]
pub struct BindOptions {
    on_complete: Option<Completion>,
    path: DataPath,
    order: HaloOrder,
}

impl fmt::Debug for BindOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BindOptions")
            .field("on_complete", &self.on_complete.is_some())
            .field("path", &self.path)
            .field("order", &self.order)
            .finish()
    }
}

impl BindOptions {
    /// Calls `call` each time an exchange is complete, so that `finish` would not wait, or has failed on its way. It
    /// runs inside the call that makes the last progress, whichever that is, and may start other exchanges; it must not
    /// wait for other ranks, nor touch the exchange that it belongs to. What `start` and `finish` themselves run into
    /// they return; it is not reported twice.
    #[must_use]
    pub fn on_complete(mut self, call: impl FnMut(Result<(), &ExchangeError>) + Send + 'static) -> Self {
        self.on_complete = Some(Box::new(call));
        self
    }

    /// How data gets to ranks that share memory ([`DataPath::Quickest`] if not said). The same on every rank.
    /// [`Exchange::traffic`] says what came of it.
    #[must_use]
    pub fn path(mut self, path: DataPath) -> Self {
        self.path = path;
        self
    }

    /// In which order halos are filled ([`HaloOrder::AllNeighbours`] if not said). The same on every rank.
    #[must_use]
    pub fn order(mut self, order: HaloOrder) -> Self {
        self.order = order;
        self
    }
}

/// A pattern bound to fields: messages are laid out, buffers allocated and copies bound, once. Running it does none
/// of that again.
///
/// It owns the fields; they are reached through [`fields`](Exchange::fields) and
/// [`fields_mut`](Exchange::fields_mut), which the compiler refuses while the exchange is pending.
pub struct Exchange<F> {
    /// Dropped before the fields.
    bound: Bound,
    fields: F,
}

/// What is bound, and ends with the exchange.
struct Bound {
    pattern: Pattern,
    flight: Arc<Flight>,
    /// What tells the fields from others.
    identities: Arc<[usize]>,
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
        let (parts, storages) = plan::plan(pattern, builders, options.path, options.order)?;
        let flight = Arc::new(Flight::new(parts, storages, options.on_complete));
        Ok(Exchange { bound: Bound { pattern: pattern.clone(), flight, identities }, fields })
    }

    /// Ends the exchange and gives the fields back. Completes what is in flight first.
    ///
    /// # Errors
    /// [`ExchangeError`] where that fails; the fields are lost with it.
    pub fn into_fields(mut self) -> Result<F, ExchangeError> {
        if self.bound.flight.is_in_flight() {
            self.complete()?;
        }
        let Exchange { bound, fields } = self;
        drop(bound);
        Ok(fields)
    }

    /// Starts an exchange: packs, sends, and returns; neighbours need not have come as far. If an earlier pending
    /// exchange was forgotten, it is completed first. Allocates nothing.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn start(&mut self, schedule: Schedule<'_>) -> Result<Pending<'_, F>, ExchangeError> {
        self.complete()?;
        self.bound.start(schedule)?;
        Ok(Pending::new(self))
    }

    /// Starts and finishes an exchange in one call.
    ///
    /// # Errors
    /// As for [`start`](Exchange::start) and [`Pending::finish`].
    pub fn exchange(&mut self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
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
        if !Binder::is_same(&self.fields, &self.bound.identities) {
            return Err(ExchangeError::FieldsReplaced);
        }
        match self.bound.flight.status() {
            Status::Idle => Ok(()),
            Status::Poisoned(error) => Err(ExchangeError::Poisoned(error.to_string())),
            Status::Travelling | Status::Arrived => self.bound.end(Schedule::DefaultStream),
        }
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

    fn end(&mut self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        self.bound.end(schedule)
    }

    /// Whether `identity` is one of the fields that were bound.
    fn is_bound(&self, identity: usize) -> bool {
        self.bound.identities.contains(&identity)
    }

    fn is_ready(&self) -> bool {
        self.bound.pattern.comm().engine().serve(&**self.bound.pattern.comm().transport());
        !self.bound.flight.is_travelling()
    }

    fn give_up(&mut self, error: ExchangeError) {
        self.bound.give_up(error);
    }
}

impl Bound {
    fn start(&self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        let comm = self.pattern.comm();
        comm.engine().add(&self.flight);
        let started = self.flight.start(&**comm.transport(), &schedule);
        if started.is_err() {
            comm.engine().remove(&self.flight);
        }
        started
    }

    fn end(&self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        let comm = self.pattern.comm();
        let finishing = self.flight.finishing();
        let waited = comm.wait(|| self.flight.missing(), || Ok(!self.flight.is_travelling()));
        if let Err(error) = waited {
            self.give_up(match error {
                TransportError::TimeLimit { what, limit } => {
                    ExchangeError::TimeLimit { missing: what, limit }
                }
                other => other.into(),
            });
        }
        let finished = self.flight.finish(&**comm.transport(), &schedule);
        drop(finishing);
        comm.engine().remove(&self.flight);
        finished
    }

    fn give_up(&self, error: ExchangeError) {
        let comm = self.pattern.comm();
        self.flight.abandon(&**comm.transport(), error);
        comm.engine().remove(&self.flight);
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.flight.is_travelling() && !std::thread::panicking() {
            // Neighbours get what they wait for. Nothing is unpacked: the fields may be somebody else's by now.
            let flight = &self.flight;
            if let Err(error) = self.pattern.comm().wait(|| flight.missing(), || Ok(!flight.is_travelling()))
            {
                tracing::error!(%error, "an exchange failed while it was dropped in flight");
            }
        }
        self.give_up(ExchangeError::Poisoned("it was dropped".into()));
    }
}
