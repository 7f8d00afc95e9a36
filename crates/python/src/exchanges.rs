//! The exchanges of a plan: started, ended, and those in flight.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haloport::comm::Progress;
use haloport::device::Pointer;
use haloport::exchange::{Description, ExchangeError, Traffic};
use haloport::{Exchange, Passed as PassedFields, Schedule, Ticket};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

use crate::arrays::described::Keep;
use crate::claims::{Addresses, Claim, Claims, Footprint, Refused};
use crate::device::Device;
use crate::domains::DomainCounts;
use crate::error::{InFlightError, IntoException, OrRaise, is_wrong_thread, leaves_as_it_was};
use crate::order::Order;
use crate::prepared::overlap_error;
use crate::process::{self, Held};
use crate::retired::{Kept, Retired};

/// The most bytes that a brief exchange moves. To copy them takes some 10 µs.
const MOST_BRIEF_BYTES: usize = 1 << 18;
/// How often a brief exchange makes progress before other threads of Python run: for some 10 µs.
const BRIEF_ROUNDS: u32 = 100;

/// An exchange of the core, and those of it that are in flight.
pub(crate) struct Exchanges {
    domains: DomainCounts,
    /// The devices of the fields, each once, that of the first field first.
    devices: Vec<Device>,
    /// Whether one of them is asynchronous.
    asynchronous: bool,
    /// Whether exchanges are short enough for other threads of Python to wait for their start.
    brief: bool,
    /// The addresses of the arrays of a fixed plan.
    fixed: Option<Addresses>,
    description: Description,
    state: Mutex<State>,
}

/// The arrays of a call.
#[derive(Default)]
pub(crate) struct Passed {
    /// Of a fixed plan, empty if none were passed.
    pub(crate) addresses: Addresses,
    pub(crate) keep: SmallVec<[Keep; 2]>,
    /// The tensors of PyTorch among them.
    pub(crate) tensors: Vec<Py<PyAny>>,
    /// The order of work that the protocol of the first array on a device names.
    pub(crate) order: Option<Order>,
}

struct State {
    /// Dropped before the arrays of flights.
    exchange: Held<Exchange<PassedFields>>,
    flights: Vec<Flight>,
    retired: Vec<Retired>,
    /// The claims and objects that a failed exchange may still use, until `exchange` is dropped.
    lost: Vec<(Claim, Kept)>,
    /// The error of the exchange that has failed; no other one can be started after it.
    failure: Option<String>,
    started: u64,
    claims: Claims,
}

/// An exchange that was started and not finished.
struct Flight {
    number: u64,
    ticket: Ticket,
    abandoned: Arc<AtomicBool>,
    /// That of its start.
    order: Order,
    claim: Claim,
    kept: Kept,
}

/// An exchange that was started, or failed to.
struct Started<'s> {
    claim: Claim,
    exchange: &'s mut Exchange<PassedFields>,
    ticket: Result<Ticket, ExchangeError>,
}

/// Why an exchange did not start or end.
enum Failure {
    Busy,
    Refused(Refused),
    Raised(PyErr),
    Exchange(ExchangeError),
}

impl Exchanges {
    /// `fixed` are the addresses of the arrays of a fixed plan. `has_threads` says whether other ranks are threads of this
    /// process.
    pub(crate) fn new(
        exchange: Exchange<PassedFields>,
        (footprints, domains): (Arc<[Footprint]>, DomainCounts),
        devices: Vec<Device>,
        fixed: Option<Addresses>,
        has_threads: bool,
    ) -> Exchanges {
        let asynchronous = devices.iter().any(|device| device.any.info().asynchronous);
        let description = exchange.describe();
        let Traffic { message_bytes, shared_bytes, direct_bytes, local_bytes, .. } = description.traffic;
        let bytes = message_bytes + shared_bytes + direct_bytes + local_bytes;
        let brief = !asynchronous && !has_threads && bytes <= MOST_BRIEF_BYTES;
        let state = State {
            exchange: Held::new(exchange),
            flights: Vec::new(),
            retired: Vec::new(),
            lost: Vec::new(),
            failure: None,
            started: 0,
            claims: Claims::new(footprints),
        };
        Exchanges { domains, devices, asynchronous, brief, fixed, description, state: Mutex::new(state) }
    }

    /// The addresses of the arrays of a fixed plan.
    pub(crate) fn fixed(&self) -> Option<&Addresses> {
        self.fixed.as_ref()
    }

    pub(crate) fn devices(&self) -> &[Device] {
        &self.devices
    }

    pub(crate) fn traffic(&self) -> PyResult<Traffic> {
        let state = self.state.try_lock().map_err(|_| self.raised(Failure::Busy))?;
        Ok(state.exchange.get()?.traffic())
    }

    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    /// The order that the argument `stream` of a call names. It is asked before addresses are taken, as streams may be
    /// objects of the caller.
    pub(crate) fn order(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<Order> {
        Order::of(py, stream, &self.devices)
    }

    /// Starts and ends an exchange.
    pub(crate) fn run(&self, fields: &Bound<'_, PyTuple>, passed: &mut Passed, order: Order) -> PyResult<()> {
        let py = fields.py();
        let order = order.or(passed.order.take());
        let mut guard = self.state.try_lock().map_err(|_| self.raised(Failure::Busy))?;
        let state = &mut *guard;
        let addresses = &passed.addresses;
        // Beside a thread of the library that is within MPI, which may call functions of Python, this one would wait with Python's lock.
        let alone = |exchange: &Exchange<PassedFields>| {
            exchange.pattern().comm().asked_progress() != Progress::Thread
        };
        let ended = match self.brief && state.flights.is_empty() && state.exchange.get().is_ok_and(alone) {
            true => self.run_attached(py, state, addresses, &order),
            false => py.detach(|| {
                let Started { claim, exchange, ticket } = self.begin(state, addresses, &order)?;
                Ok((ticket.and_then(|ticket| exchange.finish(ticket, order.schedule())), claim))
            }),
        };
        let (ended, claim) = ended.map_err(|failure| self.raised(failure))?;
        if ended.is_ok() && !self.goes_on(&order) {
            return Ok(());
        }
        let kept = Kept::new(fields, mem::take(&mut passed.keep));
        let settled = self.settle(state, ended, (claim, kept), &order);
        drop(guard);
        settled.map(drop).map_err(|failure| self.raised(failure))
    }

    /// Starts and ends an exchange that is likely to end at once. Other threads of Python run if it does not: letting them
    /// run takes longer than the rest of a call.
    fn run_attached(
        &self,
        py: Python<'_>,
        state: &mut State,
        addresses: &Addresses,
        order: &Order,
    ) -> Result<(Result<(), ExchangeError>, Claim), Failure> {
        let Started { claim, exchange, ticket } = self.begin(state, addresses, order)?;
        let ended = ticket.and_then(|ticket| match (0..BRIEF_ROUNDS).any(|_| exchange.is_ready(ticket)) {
            true => exchange.finish(ticket, order.schedule()),
            false => py.detach(|| exchange.finish(ticket, order.schedule())),
        });
        Ok((ended, claim))
    }

    /// Starts an exchange, and returns its number. Once `abandoned` is set, the next call ends it.
    pub(crate) fn start(
        &self,
        fields: &Bound<'_, PyTuple>,
        passed: &mut Passed,
        order: Order,
        abandoned: Arc<AtomicBool>,
    ) -> PyResult<u64> {
        let order = order.or(passed.order.take());
        let kept = Kept::new(fields, mem::take(&mut passed.keep));
        let addresses = &passed.addresses;
        let started = fields.py().detach(|| {
            let mut state = self.state.try_lock().map_err(|_| Failure::Busy)?;
            let Started { claim, ticket, .. } = self.begin(&mut state, addresses, &order)?;
            let ticket = match ticket {
                Ok(ticket) => ticket,
                Err(error) => return self.settle(&mut state, Err(error), (claim, kept), &order).map(|_| 0),
            };
            let number = state.started;
            state.started += 1;
            state.flights.push(Flight { number, ticket, abandoned, order, claim, kept });
            Ok(number)
        });
        started.map_err(|failure| self.raised(failure))
    }

    /// Ends the exchange with this number, in order with `stream`, or with the stream of its start. Does nothing if it has
    /// ended.
    pub(crate) fn finish(
        &self,
        py: Python<'_>,
        number: u64,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        process::check()?;
        let order = stream.map(|stream| self.order(py, Some(stream))).transpose()?;
        let ended = py.detach(|| {
            let mut state = self.state.try_lock().map_err(|_| Failure::Busy)?;
            let Some(place) = state.flights.iter().position(|flight| flight.number == number) else {
                return Ok(None);
            };
            let flight = state.flights.swap_remove(place);
            self.end(&mut state, flight, order)
        });
        ended.map(drop).map_err(|failure| self.raised(failure))
    }

    /// Makes progress; returns whether `finish` would not wait for a neighbour.
    pub(crate) fn is_ready(&self, py: Python<'_>, number: u64) -> PyResult<bool> {
        process::check()?;
        py.detach(|| {
            // Another thread may be at it.
            let Ok(state) = self.state.try_lock() else { return Ok(false) };
            let Some(flight) = state.flights.iter().find(|flight| flight.number == number) else {
                return Ok(true);
            };
            let exchange = state.exchange.get()?;
            exchange.pattern().comm().check_thread().or_raise()?;
            Ok(exchange.is_ready(flight.ticket))
        })
    }

    /// Ends exchanges that were abandoned, claims the blocks at these addresses, and begins an exchange of them.
    fn begin<'s>(
        &self,
        state: &'s mut State,
        addresses: &Addresses,
        order: &Order,
    ) -> Result<Started<'s>, Failure> {
        if let Some(error) = &state.failure {
            return Err(Failure::Exchange(ExchangeError::Poisoned(error.clone())));
        }
        if !state.retired.is_empty() {
            state.retired.retain(|retired| !retired.is_done());
        }
        while let Some(place) =
            state.flights.iter().position(|flight| flight.abandoned.load(Ordering::Relaxed))
        {
            let flight = state.flights.swap_remove(place);
            self.end(state, flight, Some(Order::Block))?;
        }
        let claim = state.claims.claim(self.fixed.as_ref().unwrap_or(addresses)).map_err(Failure::Refused)?;
        let passed = if self.fixed.is_some() { SmallVec::new() } else { pointers(addresses) };
        let exchange = state.exchange.get_mut().map_err(Failure::Raised)?;
        // SAFETY: the arrays are alive until the exchange has ended: those of `run` as the caller has them, those of
        // `start` as they are kept, all of them after an error. Their layouts were checked, so each block is valid
        // memory over its span; no two of this call overlap, nor any that is in flight, which `claim` holds against
        // other exchanges, but sources, which are only read. It is up to the program to keep other threads and streams
        // from the arrays meanwhile, as with any array of NumPy.
        let ticket = unsafe { exchange.start_at(&passed, order.schedule()) };
        Ok(Started { claim, exchange, ticket })
    }

    fn end(&self, state: &mut State, flight: Flight, order: Option<Order>) -> Result<Option<Kept>, Failure> {
        let schedule = order.as_ref().unwrap_or(&flight.order).schedule();
        let ended = state.exchange.get_mut().map_err(Failure::Raised)?.finish(flight.ticket, schedule);
        if let Err(error) = &ended
            && is_wrong_thread(error)
        {
            state.flights.push(flight);
            return ended.map(|()| None).map_err(Failure::Exchange);
        }
        let Flight { claim, kept, order: own, .. } = flight;
        self.settle(state, ended, (claim, kept), &order.unwrap_or(own))
    }

    /// Keeps the arrays of an exchange that has ended until its work is done: after an error, which may leave messages
    /// under way, until the plan is dropped. Returns them if it is done, to be dropped by a thread that is attached to
    /// Python.
    fn settle(
        &self,
        state: &mut State,
        ended: Result<(), ExchangeError>,
        (claim, kept): (Claim, Kept),
        order: &Order,
    ) -> Result<Option<Kept>, Failure> {
        if let Err(error) = ended {
            if !leaves_as_it_was(&error) {
                state.lost.push((claim, kept));
                state.failure.get_or_insert_with(|| error.to_string());
            }
            return Err(Failure::Exchange(error));
        }
        if !self.goes_on(order) {
            return Ok(Some(kept));
        }
        let retired =
            Retired::new(&self.devices, order, kept).map_err(|error| Failure::Exchange(error.into()))?;
        state.retired.extend(retired);
        Ok(None)
    }

    /// Whether work of an exchange that has ended in this order may still be in a stream.
    fn goes_on(&self, order: &Order) -> bool {
        self.asynchronous && !matches!(order.schedule(), Schedule::Blocking)
    }

    #[cold]
    fn raised(&self, failure: Failure) -> PyErr {
        let field = |block: usize| self.domains.locate(block).0;
        match failure {
            Failure::Busy => {
                InFlightError::new_err("the plan is in use by another thread; make a plan for each thread")
            }
            Failure::Refused(Refused::Overlap(one, other)) => overlap_error(field(one), field(other)),
            Failure::Refused(Refused::InFlight(block)) => InFlightError::new_err(format!(
                "field {}: the array is in flight in another exchange; finish that one first",
                field(block)
            )),
            Failure::Raised(error) => error,
            Failure::Exchange(error) => error.exception(),
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if process::is_ending() {
            // The exchanges are left as they are, so their memory is, too.
            self.flights.drain(..).for_each(mem::forget);
            self.retired.drain(..).for_each(mem::forget);
            self.lost.drain(..).for_each(mem::forget);
        }
    }
}

fn pointers(addresses: &Addresses) -> SmallVec<[Pointer; 24]> {
    addresses.iter().map(|&address| Pointer::new(std::ptr::with_exposed_provenance_mut(address))).collect()
}
