//! A flight and the ranks that it is between: what is bound, and ends with the exchange.

use std::sync::Arc;

use super::flight::Flight;
use super::{ExchangeError, Schedule};
use crate::pattern::Pattern;
use crate::transport::TransportError;

/// What is bound, and ends with the exchange.
pub(super) struct Bound {
    pub(super) pattern: Pattern,
    pub(super) flight: Arc<Flight>,
}

impl Bound {
    pub(super) fn start(&self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        let comm = self.pattern.comm();
        comm.engine().add(&self.flight);
        let started = self.flight.start(&**comm.transport(), &schedule);
        if started.is_err() {
            comm.engine().remove(&self.flight);
        }
        started
    }

    pub(super) fn end(&self, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
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

    pub(super) fn give_up(&self, error: ExchangeError) {
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
