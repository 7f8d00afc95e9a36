//! The exchanges of a plan that are in flight, and the tickets that name them.

use std::sync::atomic::{AtomicU64, Ordering};

use haloport::Ticket as CoreTicket;

use crate::status::{Failure, Status};

/// `hp_ticket` of the header: the number of a plan, and in the low bits that of one of its starts. Both count from 1.
pub(crate) type Ticket = u64;

/// `HP_NO_TICKET` of the header.
pub(crate) const NO_TICKET: Ticket = 0;

/// The bits of the number of a start. At a start each microsecond they last for 12 days; then the numbers begin again.
const START_BITS: u32 = 40;
/// The plans that have numbers of their own.
const PLANS: u64 = (1 << (u64::BITS - START_BITS)) - 1;
/// The starts of a plan that have numbers of their own.
const STARTS: u64 = (1 << START_BITS) - 1;

/// The number of plans that were made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// The exchanges of a plan that were started and not finished.
pub(crate) struct Flights {
    /// The number of the plan.
    plan: u64,
    /// The largest number of exchanges in flight.
    most: usize,
    /// The number of starts.
    started: u64,
    in_flight: Vec<Flight>,
}

/// An exchange that was started and not finished.
#[derive(Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) ticket: Ticket,
    /// Its name in the core.
    pub(crate) own: CoreTicket,
}

impl Flights {
    /// Those of a new plan, which can have `most` exchanges in flight.
    pub(crate) fn new(most: usize) -> Flights {
        let plan = MADE.fetch_add(1, Ordering::Relaxed) % PLANS + 1;
        Flights { plan, most, started: 0, in_flight: Vec::with_capacity(most) }
    }

    /// Checks that the caller of a start takes its ticket, unless there is one exchange in flight at most.
    pub(crate) fn check_named(&self, is_named: bool) -> Result<(), Failure> {
        match is_named || self.most == 1 {
            true => Ok(()),
            false => Err(Failure::argument(format!(
                "ticket: expected a place for it, as up to {} exchanges of the plan can be in flight, found null",
                self.most
            ))),
        }
    }

    /// Adds an exchange that was started, and returns its ticket. Allocates nothing.
    pub(crate) fn add(&mut self, own: CoreTicket) -> Ticket {
        let ticket = self.plan << START_BITS | (self.started % STARTS + 1);
        self.started += 1;
        self.in_flight.push(Flight { ticket, own });
        ticket
    }

    /// The exchange that `ticket` names; without a ticket, the one in flight, if there cannot be more.
    pub(crate) fn find(&self, ticket: Ticket) -> Result<Flight, Failure> {
        let count = self.in_flight.len();
        let found = match ticket {
            NO_TICKET if self.most > 1 => {
                return Err(Failure::argument(format!(
                    "ticket: expected that of an exchange, as up to {} exchanges of the plan can be in flight, and {count} are, \
                     found none (HP_NO_TICKET)",
                    self.most
                )));
            }
            NO_TICKET => self.in_flight.first(),
            _ => self.in_flight.iter().find(|flight| flight.ticket == ticket),
        };
        found.copied().ok_or_else(|| self.wrong(ticket))
    }

    /// Whether no exchange is in flight.
    pub(crate) fn are_none(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Removes the exchange of this ticket, which has ended.
    pub(crate) fn remove(&mut self, ticket: Ticket) {
        self.in_flight.retain(|flight| flight.ticket != ticket);
    }

    /// The failure for a ticket that names no exchange in flight.
    fn wrong(&self, ticket: Ticket) -> Failure {
        let (plan, start) = (ticket >> START_BITS, ticket & STARTS);
        let count = self.in_flight.len();
        match ticket {
            NO_TICKET => Failure {
                status: Status::InFlight,
                text: "expected an exchange that was started, found none; call hp_start first".into(),
            },
            _ if plan != self.plan => {
                Failure::argument("ticket: expected one of this plan, found one of another plan")
            }
            _ if (1..=self.started).contains(&start) => Failure::argument(format!(
                "ticket: expected that of an exchange in flight, of which the plan has {count}, found that of one that was \
                 finished"
            )),
            _ => {
                Failure::argument(format!("ticket: expected one that hp_start has given, found {ticket:#x}"))
            }
        }
    }
}
