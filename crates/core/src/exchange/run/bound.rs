//! A flight and the ranks that it is between: what is bound, and ends with the exchange.

use std::sync::Arc;

use super::flight::{Flight, Status};
use super::part::Sharing;
use super::trace::Waits;
use crate::comm::Served as _;
use crate::exchange::options::{ExchangeError, Schedule};
use crate::pattern::Pattern;
use crate::transport::TransportError;

/// What is bound, and ends with the exchange.
pub(crate) struct Bound {
    pub(crate) pattern: Pattern,
    pub(crate) flight: Arc<Flight>,
    pub(crate) waits: Waits,
}

impl Bound {
    pub(crate) fn start(&self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        let comm = self.pattern.comm();
        comm.engine().add(&self.flight);
        let started = self.flight.start(&**comm.transport(), &schedule);
        if started.is_err() {
            comm.engine().remove(&self.flight);
        } else if !matches!(schedule, Schedule::Blocking) && self.flight.is_asynchronous() {
            comm.drive();
        }
        started
    }

    pub(crate) fn end(&self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        let comm = self.pattern.comm();
        let may_close = !matches!(schedule, Schedule::Blocking) && self.flight.is_asynchronous();
        if may_close && comm.drive() {
            let sharing = if comm.has_threads() { Sharing::DefaultStream } else { Sharing::Nothing };
            // Where that fails, so does `finish`.
            self.flight.close(&**comm.transport(), &schedule, sharing, comm.limits());
        }
        let finishing = self.flight.finishing();
        self.wait_until("finish", |flight| !flight.is_waited_for());
        let finished = self.flight.finish(&**comm.transport(), &schedule);
        drop(finishing);
        if self.flight.status() != Status::Closing {
            comm.engine().remove(&self.flight);
        }
        finished
    }

    /// Completes what is in flight, and waits for what gates hold back.
    pub(crate) fn complete(&self) -> Result<(), ExchangeError> {
        if self.flight.status() == Status::Closing {
            self.wait_until("start", |flight| !flight.is_under_way());
        }
        match self.flight.status() {
            Status::Idle | Status::Closing => Ok(()),
            Status::Poisoned(error) => Err(ExchangeError::Poisoned(error.to_string())),
            Status::Travelling | Status::Arrived => self.end(Schedule::DefaultStream),
        }
    }

    /// Begins an exchange that was recorded, with the work of the caller in it. Where there is nobody else who opens its
    /// gate, waits until all messages have come.
    pub(crate) fn replay(&self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        let comm = self.pattern.comm();
        comm.engine().add(&self.flight);
        let begun = self.flight.replay(&**comm.transport(), &schedule, comm.limits());
        if begun.is_err() {
            comm.engine().remove(&self.flight);
            return begun;
        }
        if comm.drive() {
            return Ok(());
        }
        self.wait_until("replay", |flight| !flight.is_under_way());
        self.flight.finish(&**comm.transport(), &schedule)
    }

    /// Completes what is in flight of what was recorded, and forgets that. Gives up where its thread is panicking.
    pub(crate) fn forget_recorded(&self) {
        if self.flight.is_under_way() {
            if std::thread::panicking() {
                self.give_up(ExchangeError::Panicking);
            } else {
                self.wait_until("drop", |flight| !flight.is_under_way());
            }
            if let Status::Poisoned(error) = self.flight.status() {
                // Not lost: the exchange says so at its next use.
                tracing::error!(%error, "an exchange failed while its step was dropped");
            }
        }
        self.flight.forget_recorded();
    }

    /// Blocks until the halos of the last exchange are in place.
    pub(crate) fn synchronize(&self) -> Result<(), ExchangeError> {
        self.waits.during("synchronize", || !self.flight.is_asynchronous(), || self.flight.synchronize())
    }

    /// Waits in the call of this name. Gives up where that takes too long.
    fn wait_until(&self, name: &'static str, done: impl Fn(&Flight) -> bool) {
        let wait = || self.pattern.comm().wait(|| self.flight.missing(), || Ok(done(&self.flight)));
        let waited = self.waits.during(name, || done(&self.flight), wait);
        if let Err(error) = waited {
            self.give_up(match error {
                TransportError::TimeLimit { what, limit } => {
                    ExchangeError::TimeLimit { missing: what, limit }
                }
                other => other.into(),
            });
        }
    }

    /// On asynchronous devices, waits until no exchange of this rank holds back a stream by a gate: meanwhile, nobody may
    /// allocate or free.
    pub(crate) fn wait_for_gates(&self) -> Result<(), ExchangeError> {
        let comm = self.pattern.comm();
        if self.flight.is_asynchronous() {
            comm.wait(|| "exchanges that have been finished".into(), || Ok(!comm.engine().is_closing()))?;
        }
        Ok(())
    }

    /// Makes progress, and says whether the end would not wait for anyone. Does not block.
    pub(crate) fn is_ready(&self) -> bool {
        let comm = self.pattern.comm();
        comm.engine().serve(&**comm.transport());
        !self.flight.is_travelling()
    }

    pub(crate) fn give_up(&self, error: ExchangeError) {
        let comm = self.pattern.comm();
        self.flight.abandon(&**comm.transport(), error);
        comm.engine().remove(&self.flight);
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.flight.is_under_way() && !std::thread::panicking() {
            // Neighbours get what they wait for. Nothing is unpacked that is not on its way: the fields may be somebody
            // else's by now.
            let flight = &self.flight;
            if let Err(error) = self.pattern.comm().wait(|| flight.missing(), || Ok(!flight.is_under_way())) {
                tracing::error!(%error, "an exchange failed while it was dropped in flight");
            }
        }
        self.give_up(ExchangeError::Poisoned("it was dropped".into()));
        self.flight.take_apart();
    }
}
