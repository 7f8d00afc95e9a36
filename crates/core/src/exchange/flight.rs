//! The state of one bound exchange, shared between the exchange itself and the engine that serves it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::engine::Served;
use super::part::{Part, Traffic};
use super::{ExchangeError, Schedule};
use crate::field::Storage;
use crate::transport::Transport;

/// Called when an exchange is complete, or has failed.
pub type Completion = Box<dyn FnMut(Result<(), &ExchangeError>) + Send>;

/// One bound exchange.
pub(crate) struct Flight {
    state: Mutex<State>,
    /// Locked while it runs, without the lock on the state, so that calls come one after another.
    on_complete: Mutex<Option<Completion>>,
}

struct State {
    parts: Vec<Box<dyn Part>>,
    storages: Vec<Arc<Storage>>,
    status: Status,
    /// Whether the caller waits in `finish`.
    finishing: bool,
}

/// The caller waits in `finish`, as long as this lives: what the exchange has borrowed may be touched by whoever makes
/// progress.
pub(crate) struct Finishing<'f>(&'f Flight);

impl Drop for Finishing<'_> {
    fn drop(&mut self) {
        self.0.lock().finishing = false;
    }
}

/// How far an exchange is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Status {
    /// Between exchanges.
    Idle,
    /// Something is still missing.
    Travelling,
    /// `finish` would not wait for anyone.
    Arrived,
    /// It failed, for ever.
    Poisoned(ExchangeError),
}

impl Flight {
    pub(crate) fn new(parts: Vec<Box<dyn Part>>, storages: Vec<Arc<Storage>>) -> Flight {
        let state = State { parts, storages, status: Status::Idle, finishing: false };
        Flight { state: Mutex::new(state), on_complete: Mutex::new(None) }
    }

    /// Sets what is called each time that an exchange is complete or has failed.
    pub(crate) fn on_complete(&self, call: Option<Completion>) {
        *self.on_complete.lock().unwrap_or_else(PoisonError::into_inner) = call;
    }

    pub(crate) fn status(&self) -> Status {
        self.lock().status.clone()
    }

    /// Whether something is still missing.
    pub(crate) fn is_travelling(&self) -> bool {
        self.lock().status == Status::Travelling
    }

    /// Whether it was started and not finished.
    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self.lock().status, Status::Travelling | Status::Arrived)
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let state = self.lock();
        state.parts.iter().map(|part| part.traffic()).fold(Traffic::default(), Traffic::beside)
    }

    /// Packs and sends. The caller has put the flight into the engine's care.
    pub(crate) fn start(
        &self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
    ) -> Result<(), ExchangeError> {
        let mut state = self.lock();
        match &state.status {
            Status::Poisoned(error) => return Err(ExchangeError::Poisoned(error.to_string())),
            Status::Idle => {}
            Status::Travelling | Status::Arrived => {
                return Err(ExchangeError::Poisoned("it was started while in flight".into()));
            }
        }
        state.check_stream(schedule)?;
        if let Some(taken) = state.storages.iter().position(|storage| !storage.take_off()) {
            state.storages[..taken].iter().for_each(|storage| storage.land());
            return Err(ExchangeError::InFlightElsewhere);
        }
        state.status = Status::Travelling;
        let started = state.parts.iter_mut().try_for_each(|part| part.start(transport, schedule));
        if let Err(error) = &started {
            state.poison(transport, error.clone());
        }
        drop(state);
        if started.is_ok() {
            self.poll(transport);
        }
        started
    }

    /// Says that the caller waits in `finish`, with all fields at hand.
    pub(crate) fn finishing(&self) -> Finishing<'_> {
        self.lock().finishing = true;
        Finishing(self)
    }

    /// Unpacks what is left. Everything has arrived.
    pub(crate) fn finish(
        &self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
    ) -> Result<(), ExchangeError> {
        let mut state = self.lock();
        match &state.status {
            Status::Poisoned(error) => return Err(error.clone()),
            Status::Idle => return Ok(()),
            Status::Travelling | Status::Arrived => {}
        }
        let finished = state
            .check_stream(schedule)
            .and_then(|()| state.parts.iter_mut().try_for_each(|part| part.finish(transport, schedule)));
        match &finished {
            Ok(()) => state.land(Status::Idle),
            Err(error) => state.poison(transport, error.clone()),
        }
        finished
    }

    /// Gives up. Afterwards nobody touches the fields any more.
    pub(crate) fn abandon(&self, transport: &dyn Transport, error: ExchangeError) {
        let mut state = self.lock();
        let was_travelling = state.status == Status::Travelling;
        if !matches!(state.status, Status::Poisoned(_)) {
            state.poison(transport, error);
        }
        if was_travelling {
            self.report(state);
        }
    }

    /// Which neighbours are missing, in words.
    pub(crate) fn missing(&self) -> String {
        let missing: Vec<String> = self.lock().parts.iter().flat_map(|part| part.missing()).collect();
        if missing.is_empty() { "nothing".into() } else { missing.join(", ") }
    }

    /// Runs the callback, with the state's lock released so that it may start other exchanges.
    fn report(&self, state: MutexGuard<'_, State>) {
        let error = match &state.status {
            Status::Poisoned(error) => Some(error.clone()),
            _ => None,
        };
        drop(state);
        let mut callback = self.on_complete.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = &mut *callback {
            call(error.as_ref().map_or(Ok(()), Err));
        }
    }

    /// Locks even after a panic: a callback runs without the lock, and parts do not panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Served for Flight {
    /// Makes progress, unless another thread is doing so, and calls the callback when the flight ends here.
    fn poll(&self, transport: &dyn Transport) {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if state.status != Status::Travelling {
            return;
        }
        let mut complete = true;
        let mut failed = None;
        let finishing = state.finishing;
        for part in &mut state.parts {
            match part.poll(transport, finishing) {
                Ok(arrived) => complete &= arrived,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => state.poison(transport, error),
            None if complete => state.status = Status::Arrived,
            None => return,
        }
        self.report(state);
    }
}

impl State {
    fn check_stream(&self, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        let Schedule::On(stream) = schedule else { return Ok(()) };
        if self.parts.is_empty() || self.parts.iter().any(|part| part.device() == stream.device_id()) {
            return Ok(());
        }
        let devices: Vec<String> = self.parts.iter().map(|part| part.device().to_string()).collect();
        Err(ExchangeError::ForeignStream { stream: stream.device_id(), devices: devices.join(", ") })
    }

    fn poison(&mut self, transport: &dyn Transport, error: ExchangeError) {
        self.parts.iter_mut().for_each(|part| part.abandon(transport));
        self.land(Status::Poisoned(error));
    }

    /// Ends the flight. Only a flight that has taken off marks its fields as at rest.
    fn land(&mut self, status: Status) {
        if matches!(self.status, Status::Travelling | Status::Arrived) {
            self.storages.iter().for_each(|storage| storage.land());
        }
        self.status = status;
    }
}
