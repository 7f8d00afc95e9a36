//! The exchanges of one [`Exchange`](super::Exchange) that can be in flight at once. They take turns.

use std::sync::atomic::{AtomicU64, Ordering};

use super::agree::PassedFields;
use super::options::{Completion, ExchangeError, Schedule, Settled, Traffic};
use super::part::Bound;
use super::part::flight_state::Status;
use crate::pattern::Pattern;

/// An exchange that was started without a borrow and is not finished; see
/// [`Exchange::start_detached`](super::Exchange::start_detached).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The number of its `Exchange`, so that no other one takes it for one of its own.
    exchange: u64,
    number: u64,
}

/// The number of `Turns` that were made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// The exchanges that can be in flight at once.
pub(super) struct Turns {
    pub(super) pattern: Pattern,
    /// A number that no other `Turns` of the process have.
    number: u64,
    /// At least one.
    pub(super) slots: Vec<Slot>,
    /// The number of exchanges that were started.
    started: u64,
    pub(super) settled: Settled,
}

/// One of the exchanges that can be in flight at once.
pub(super) struct Slot {
    pub(super) bound: Bound,
    /// The fields of the last start, of an exchange to which fields are passed.
    pub(super) passed: PassedFields,
    /// The number of the exchange that was started without a borrow and is not finished.
    detached: Option<u64>,
}

impl Turns {
    /// `on_complete` is called for the exchanges of the first slot.
    pub(super) fn new(
        pattern: &Pattern,
        bound: Vec<Bound>,
        passed: &PassedFields,
        settled: Settled,
        mut on_complete: Option<Completion>,
    ) -> Turns {
        let slots = bound.into_iter().map(|bound| {
            on_complete.take().into_iter().for_each(|call| bound.flight.on_complete(call));
            Slot { bound, passed: passed.clone(), detached: None }
        });
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Turns { pattern: pattern.clone(), number, slots: slots.collect(), started: 0, settled }
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.slots.first().map_or(Traffic::default(), |slot| slot.bound.flight.traffic())
    }

    pub(super) fn statuses(&self) -> Vec<Status> {
        self.slots.iter().map(|slot| slot.bound.flight.status()).collect()
    }

    /// Whether an exchange was started and has not ended.
    pub(super) fn are_in_flight(&self) -> bool {
        self.slots.iter().any(|slot| slot.bound.flight.is_in_flight())
    }

    /// The slot of the next exchange, after [`make_ready`](Turns::make_ready).
    pub(super) fn next(&mut self) -> Result<&mut Slot, ExchangeError> {
        self.slot(self.started)
    }

    /// Completes the exchange that the next one follows in its slot, if its pending exchange was forgotten.
    ///
    /// # Errors
    /// [`ExchangeError::AllInFlight`] if it has a ticket.
    pub(super) fn make_ready(&mut self) -> Result<(), ExchangeError> {
        let most = self.slots.len();
        let slot = self.next()?;
        if slot.detached.is_some() {
            return Err(ExchangeError::AllInFlight { most });
        }
        slot.complete()
    }

    /// Starts the next exchange by `start`, and returns its slot.
    pub(super) fn start(
        &mut self,
        start: impl FnOnce(&Bound) -> Result<(), ExchangeError>,
    ) -> Result<&mut Slot, ExchangeError> {
        let number = self.started;
        start(&self.slot(number)?.bound)?;
        self.started += 1;
        self.slot(number)
    }

    /// Starts the next exchange without a borrow.
    pub(super) fn start_detached(&mut self, schedule: Schedule<'_>) -> Result<Ticket, ExchangeError> {
        let number = self.started;
        self.start(|bound| bound.start(schedule))?.detached = Some(number);
        Ok(Ticket { exchange: self.number, number })
    }

    /// Returns an error unless the exchange of this ticket is in flight.
    pub(super) fn check(&self, ticket: Ticket) -> Result<(), ExchangeError> {
        self.of(ticket).map(drop).ok_or(ExchangeError::NotInFlight)
    }

    /// Finishes the exchange of this ticket.
    pub(super) fn finish(&mut self, ticket: Ticket, schedule: Schedule<'_>) -> Result<(), ExchangeError> {
        self.check(ticket)?;
        let slot = self.slot(ticket.number)?;
        slot.bound.pattern.comm().check_thread()?;
        slot.detached = None;
        slot.bound.end(schedule)
    }

    /// See [`Exchange::is_ready`](super::Exchange::is_ready).
    pub(super) fn is_ready(&self, ticket: Ticket) -> bool {
        self.of(ticket).is_none_or(|slot| slot.bound.is_ready())
    }

    /// Completes the exchanges whose pending exchange was forgotten.
    pub(super) fn complete_forgotten(&mut self) -> Result<(), ExchangeError> {
        self.slots.iter_mut().filter(|slot| slot.detached.is_none()).try_for_each(Slot::complete)
    }

    /// Completes all exchanges in flight.
    pub(super) fn complete_all(&mut self) -> Result<(), ExchangeError> {
        self.slots.iter_mut().try_for_each(|slot| {
            slot.detached = None;
            slot.complete()
        })
    }

    /// Blocks until the halos of the exchanges that have ended are in place.
    pub(super) fn synchronize(&self) -> Result<(), ExchangeError> {
        let ended = self.slots.iter().filter(|slot| slot.detached.is_none());
        ended.map(|slot| &slot.bound).try_for_each(Bound::synchronize)
    }

    /// The slot of the exchange of this ticket; `None` if that is not in flight.
    fn of(&self, ticket: Ticket) -> Option<&Slot> {
        let slot = self.slots.get(self.place(ticket.number))?;
        Some(slot).filter(|slot| ticket.exchange == self.number && slot.detached == Some(ticket.number))
    }

    /// The place of the slot of exchange `number`: ranks start exchanges in the same order, so they take the same slots.
    fn place(&self, number: u64) -> usize {
        number.checked_rem(self.slots.len() as u64).unwrap_or(0) as usize
    }

    /// The slot of exchange `number`.
    fn slot(&mut self, number: u64) -> Result<&mut Slot, ExchangeError> {
        let place = self.place(number);
        self.slots.get_mut(place).ok_or(ExchangeError::NotInFlight)
    }
}

impl Slot {
    /// Completes the exchange in flight. If it has fields in borrowed memory, whose owner may have it back by now, abandons
    /// it.
    fn complete(&mut self) -> Result<(), ExchangeError> {
        if self.bound.flight.is_idle() {
            return Ok(());
        }
        let status = self.bound.flight.status();
        if matches!(status, Status::Travelling | Status::Arrived) && !self.passed.own_all() {
            self.bound.give_up(ExchangeError::Forgotten);
        }
        self.bound.complete()
    }
}
