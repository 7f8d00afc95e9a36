//! What a flight keeps behind its lock: its parts, its fields and its status.

use std::cell::Cell;
use std::sync::Arc;

use crate::comm::{Missing, WaitClock, drive_until, drives};
use crate::device::DeviceId;
use crate::exchange::options::{ExchangeError, Schedule};
use crate::exchange::work::Part;
use crate::field::Storage;
use crate::transport::Transport;

/// The state of an exchange.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Status {
    /// Between exchanges.
    Idle,
    /// Messages or neighbours are missing.
    Travelling,
    /// `finish` would not wait for a neighbour.
    Arrived,
    /// The caller has finished it: the unpacking is in streams behind gates, which the engine opens.
    Gated,
    /// It has failed for good.
    Poisoned(ExchangeError),
}

pub(super) struct State {
    pub(super) parts: Vec<Box<dyn Part>>,
    pub(super) storages: Vec<Arc<Storage>>,
    pub(super) status: Status,
    /// The number of exchanges that were started.
    pub(super) started: u64,
    /// The thread that waits in `finish`.
    pub(super) finishing: Option<ThreadMark>,
    /// Whether the progress thread polls all exchanges of the rank.
    pub(super) driven: bool,
    /// Whether a part without a gate is incomplete.
    pub(super) waited_for: bool,
    /// Whether the callback was called in this exchange.
    pub(super) told: bool,
    /// Whether the callback is to be called as soon as the thread that polls may do so.
    pub(super) untold: bool,
    /// Whether the exchange has failed and its parts are being abandoned: the progress thread waits for no device. Any other
    /// thread that locks the state does.
    pub(super) abandoning: bool,
    /// While `abandoning`: whether the fields are marked as at rest afterwards.
    pub(super) marks_fields: bool,
    /// The time limit for neighbours after a finish behind gates; it runs while nothing but neighbours is missing.
    pub(super) wait_clock: WaitClock,
    /// The message of a panic of the completion callback, to be returned by `finish`.
    pub(super) panicked: Option<String>,
}

/// A thread of the process, while it lives: the address of a variable of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadMark(usize);

impl ThreadMark {
    pub(super) fn here() -> ThreadMark {
        thread_local! {
            static MARK: Cell<u8> = const { Cell::new(0) };
        }
        ThreadMark(MARK.with(|mark| std::ptr::from_ref(mark).addr()))
    }
}

impl State {
    pub(super) fn check_idle(&self) -> Result<(), ExchangeError> {
        match &self.status {
            Status::Poisoned(error) => Err(ExchangeError::Poisoned(error.to_string())),
            Status::Idle => Ok(()),
            Status::Travelling | Status::Arrived | Status::Gated => {
                Err(ExchangeError::Poisoned("it was started while in flight".into()))
            }
        }
    }

    /// Marks the exchange and its fields as in flight. The caller has checked that nothing is in flight, and the streams.
    pub(super) fn begin_flight(&mut self) -> Result<(), ExchangeError> {
        if let Some(taken) = self.storages.iter().position(|storage| !storage.take_off()) {
            self.storages[..taken].iter().for_each(|storage| storage.land());
            return Err(ExchangeError::InFlightElsewhere);
        }
        self.status = Status::Travelling;
        self.started += 1;
        self.waited_for = true;
        self.told = false;
        Ok(())
    }

    /// Returns an error unless the streams that `schedule` names are those of the devices of the exchange.
    pub(super) fn check_stream(&self, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        if schedule.streams().is_empty() || self.parts.is_empty() {
            return Ok(());
        }
        let is_ours = |device: DeviceId| self.parts.iter().any(|part| part.device() == device);
        if let Some(foreign) = schedule.streams().iter().find(|stream| !is_ours(stream.device_id())) {
            let devices: Vec<String> = self.parts.iter().map(|part| part.device().to_string()).collect();
            let (stream, devices) = (foreign.device_id(), devices.join(", "));
            return Err(ExchangeError::ForeignStream { stream, devices });
        }
        match self.parts.iter().find(|part| !part.is_ordered_by(schedule)) {
            Some(part) => Err(ExchangeError::NoStream { device: part.device(), streams: schedule.devices() }),
            None => Ok(()),
        }
    }

    /// Marks that the caller waits in `finish`; see [`Flight::finishing`](super::flight::Flight::finishing).
    pub(super) fn begin_to_finish(&mut self, driven: bool) {
        (self.finishing, self.driven) = (Some(ThreadMark::here()), driven);
        let in_flight = matches!(self.status, Status::Travelling | Status::Arrived);
        if in_flight && self.parts.iter().any(|part| part.ends_in_finish()) {
            // Until they are polled again.
            (self.status, self.waited_for) = (Status::Travelling, true);
        }
    }

    /// Polls all parts. Returns whether all are complete, and the first failure. `waits`: while copies of a device are missing,
    /// the thread waits for it.
    pub(super) fn poll_parts(
        &mut self,
        transport: &dyn Transport,
        waits: bool,
    ) -> (bool, Option<ExchangeError>) {
        let (mut complete, mut waited_for, mut failed) = (true, false, None);
        let finishing = self.finishing.is_some();
        for part in &mut self.parts {
            let waited = if waits { part.wait_for_device() } else { Ok(()) };
            match waited.map_err(ExchangeError::from).and_then(|()| part.poll(transport, finishing)) {
                Ok(arrived) => {
                    complete &= arrived;
                    waited_for |= !arrived && !part.is_gated();
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        self.waited_for = waited_for;
        (complete, failed)
    }

    /// Unpacks the rest. Everything must have arrived, except for parts with a gate.
    pub(super) fn finish(
        &mut self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
    ) -> Result<(), ExchangeError> {
        match &self.status {
            Status::Poisoned(error) => {
                let error = error.clone();
                self.abandon_now(transport);
                return Err(error);
            }
            Status::Idle | Status::Gated => return Ok(()),
            Status::Travelling | Status::Arrived => {}
        }
        let finished = self.check_stream(schedule).and_then(|()| {
            let mut ungated = self.parts.iter_mut().filter(|part| !part.is_gated());
            ungated.try_for_each(|part| part.finish(transport, schedule))
        });
        let is_gated = self.parts.iter().any(|part| part.is_gated());
        let finished = match (finished, self.panicked.take()) {
            (Ok(()), Some(message)) => Err(ExchangeError::CallbackPanicked(message)),
            (finished, _) => finished,
        };
        match &finished {
            Ok(()) => self.end_flight(if is_gated { Status::Gated } else { Status::Idle }),
            Err(error) => {
                self.poison(transport, error.clone());
                self.abandon_now(transport);
            }
        }
        finished
    }

    /// Returns an error if neighbours have exceeded the time limit.
    pub(super) fn time_limit_error(&mut self, rank: usize) -> Option<ExchangeError> {
        if self.parts.iter().any(|part| part.is_packing()) {
            self.wait_clock.restart();
            return None;
        }
        let limit = self.wait_clock.is_over(rank, || missing(&self.parts))?;
        let Missing { what, ranks } = missing(&self.parts);
        Some(ExchangeError::TimeLimit { missing: what, ranks, limit })
    }

    /// Abandons all parts and ends the flight with `error`. On the progress thread, later polls end the abandoning.
    pub(super) fn poison(&mut self, transport: &dyn Transport, error: ExchangeError) {
        self.parts.iter_mut().for_each(|part| part.begin_to_abandon(transport));
        self.marks_fields = matches!(self.status, Status::Travelling | Status::Arrived);
        (self.status, self.abandoning) = (Status::Poisoned(error), true);
        if !drives() || self.parts.iter().all(|part| part.may_be_abandoned()) {
            self.end_abandoning(transport);
        }
    }

    /// Blocks until the parts are abandoned, if the exchange has failed.
    pub(super) fn end_abandoning(&mut self, transport: &dyn Transport) {
        if !std::mem::take(&mut self.abandoning) {
            return;
        }
        let mut is_left = true;
        for part in &mut self.parts {
            is_left &= part.abandon(transport);
        }
        if !is_left {
            // For good: this rank cannot know when the neighbour writes.
            self.storages.iter().for_each(|storage| storage.hold());
        }
        if std::mem::take(&mut self.marks_fields) {
            self.storages.iter().for_each(|storage| storage.land());
        }
    }

    /// The same within a callback, on the progress thread: polls other exchanges meanwhile.
    pub(super) fn abandon_now(&mut self, transport: &dyn Transport) {
        drive_until(|| self.parts.iter().all(|part| part.may_be_abandoned()));
        self.end_abandoning(transport);
    }

    /// Ends the flight. Marks the fields as at rest only if this flight has marked them as in flight.
    pub(super) fn end_flight(&mut self, status: Status) {
        if matches!(self.status, Status::Travelling | Status::Arrived) {
            self.storages.iter().for_each(|storage| storage.land());
        }
        self.status = status;
    }
}

pub(super) fn missing(parts: &[Box<dyn Part>]) -> Missing {
    let (ranks, texts): (Vec<usize>, Vec<String>) = parts.iter().flat_map(|part| part.missing()).unzip();
    Missing::new(if texts.is_empty() { "nothing".into() } else { texts.join(", ") }, ranks)
}
