//! The state of one bound exchange, shared between the exchange itself and the engine that serves it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::part::{Part, Sharing};
use crate::callback::Callback;
use crate::comm::Served;
use crate::comm::{WaitClock, WaitLimits};
use crate::device::{DeviceError, Pointer};
use crate::exchange::options::{Completion, ExchangeError, Schedule, Traffic};
use crate::field::Storage;
use crate::transport::Transport;

/// One bound exchange.
pub(crate) struct Flight {
    state: Mutex<State>,
    on_complete: Callback<ExchangeError>,
}

pub(crate) struct State {
    pub(crate) parts: Vec<Box<dyn Part>>,
    storages: Vec<Arc<Storage>>,
    status: Status,
    /// Whether the caller waits in `finish`.
    finishing: bool,
    /// Whether a part that no gate holds back is incomplete.
    pub(crate) waited_for: bool,
    /// How long neighbours may take once it is finished behind gates: the wait begins when nothing but them is waited for.
    pub(crate) patience: WaitClock,
    /// The message of a panic of the completion callback, after which `finish` is still to come.
    panicked: Option<String>,
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
    /// Finished, as far as the caller is concerned: the halos are filled behind gates, which the engine opens.
    Closing,
    /// It failed, for ever.
    Poisoned(ExchangeError),
}

impl Flight {
    pub(crate) fn new(parts: Vec<Box<dyn Part>>, storages: Vec<Arc<Storage>>) -> Flight {
        let state = State {
            parts,
            storages,
            status: Status::Idle,
            finishing: false,
            waited_for: true,
            patience: WaitClock::new(WaitLimits::default()),
            panicked: None,
        };
        Flight { state: Mutex::new(state), on_complete: Callback::new(None) }
    }

    /// Sets what is called each time that an exchange is complete or has failed.
    pub(crate) fn on_complete(&self, call: Option<Completion>) {
        self.on_complete.set(call);
    }

    pub(crate) fn status(&self) -> Status {
        self.lock().status.clone()
    }

    /// Whether something is still missing.
    pub(crate) fn is_travelling(&self) -> bool {
        self.lock().status == Status::Travelling
    }

    /// Whether `finish` has to wait for something that no gate holds back.
    pub(crate) fn is_waited_for(&self) -> bool {
        let state = self.lock();
        state.status == Status::Travelling && state.waited_for
    }

    /// Whether it goes on while the host does something else.
    pub(crate) fn is_asynchronous(&self) -> bool {
        self.lock().parts.iter().any(|part| part.is_asynchronous())
    }

    /// Whether it was started and is not at its end.
    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self.lock().status, Status::Travelling | Status::Arrived | Status::Closing)
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let state = self.lock();
        state.parts.iter().map(|part| part.traffic()).fold(Traffic::default(), Traffic::beside)
    }

    /// Has copies lead to other memory: the blocks of all fields begin at `to` now, and did at `from`, which becomes `to`.
    /// `storages` are the memory of those that own theirs. On asynchronous devices it waits for the last exchange first,
    /// unless all is as it was. Nothing is in flight.
    pub(crate) fn carry(
        &self,
        transport: &dyn Transport,
        from: &mut [Pointer],
        to: &[Pointer],
        storages: &[Arc<Storage>],
    ) -> Result<(), ExchangeError> {
        let mut state = self.lock();
        state.check_idle()?;
        let kept = state.storages.len() == storages.len()
            && state.storages.iter().zip(storages).all(|(known, storage)| Arc::ptr_eq(known, storage));
        if kept && from == to {
            return Ok(());
        }
        let moved = state.parts.iter_mut().try_for_each(|part| -> Result<(), DeviceError> {
            if part.is_asynchronous() {
                part.synchronize()?;
            }
            if from != to {
                // SAFETY: nothing is in flight, and the device has done all of the last exchange.
                unsafe { part.relocate(from, to)? };
            }
            storages.iter().for_each(|storage| part.writes(storage));
            Ok(())
        });
        if let Err(error) = moved {
            let error = ExchangeError::Device(error);
            state.poison(transport, error.clone());
            return Err(error);
        }
        from.copy_from_slice(to);
        state.storages.clear();
        state.storages.extend_from_slice(storages);
        Ok(())
    }

    /// Packs and sends. The caller has put the flight into the engine's care.
    pub(crate) fn start(
        &self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
    ) -> Result<(), ExchangeError> {
        let mut state = self.lock();
        state.take_off(schedule)?;
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

    /// Puts the end of the exchange into streams behind gates, wherever that can be done and not all has arrived. Neighbours
    /// have the time that `limits` say from when they alone are waited for. Does not block. Poisons the exchange where that
    /// fails.
    pub(crate) fn close(
        &self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
        sharing: Sharing,
        limits: WaitLimits,
    ) {
        let mut state = self.lock();
        if state.status != Status::Travelling || state.check_stream(schedule).is_err() {
            return;
        }
        state.patience = WaitClock::new(limits);
        let closed = state.parts.iter_mut().try_for_each(|part| part.close(schedule, sharing));
        if let Err(error) = closed {
            state.poison(transport, error);
        }
        state.waited_for = state.parts.iter().any(|part| !part.is_closing());
    }

    /// Blocks until the halos of the last exchange are in place.
    pub(crate) fn synchronize(&self) -> Result<(), ExchangeError> {
        Ok(self.lock().parts.iter().try_for_each(|part| part.synchronize())?)
    }

    /// Unpacks what is left. Everything has arrived, but for what gates hold back.
    pub(crate) fn finish(
        &self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
    ) -> Result<(), ExchangeError> {
        let mut state = self.lock();
        match &state.status {
            Status::Poisoned(error) => return Err(error.clone()),
            Status::Idle | Status::Closing => return Ok(()),
            Status::Travelling | Status::Arrived => {}
        }
        let finished = state.check_stream(schedule).and_then(|()| {
            let mut open = state.parts.iter_mut().filter(|part| !part.is_closing());
            open.try_for_each(|part| part.finish(transport, schedule))
        });
        let closing = state.parts.iter().any(|part| part.is_closing());
        let finished = match (finished, state.panicked.take()) {
            (Ok(()), Some(message)) => Err(ExchangeError::CallbackPanicked(message)),
            (finished, _) => finished,
        };
        match &finished {
            Ok(()) => state.land(if closing { Status::Closing } else { Status::Idle }),
            Err(error) => state.poison(transport, error.clone()),
        }
        finished
    }

    /// Gives up. Afterwards nobody touches the fields any more.
    pub(crate) fn abandon(&self, transport: &dyn Transport, error: ExchangeError) {
        let mut state = self.lock();
        let was_travelling = matches!(state.status, Status::Travelling | Status::Closing);
        if !matches!(state.status, Status::Poisoned(_)) {
            state.poison(transport, error);
        }
        if was_travelling {
            self.report(transport, state);
        }
    }

    /// Lets go here of devices and memory, after [`abandon`](Flight::abandon): the thread for progress may hold the flight a
    /// little longer.
    pub(crate) fn take_apart(&self) {
        let mut state = self.lock();
        let (parts, storages) = (std::mem::take(&mut state.parts), std::mem::take(&mut state.storages));
        drop(state);
        drop((parts, storages));
    }

    /// Which neighbours are missing, in words.
    pub(crate) fn missing(&self) -> String {
        missing(&self.lock().parts)
    }

    /// Runs the callback, with the state's lock released so that it may start other exchanges. If it panics, the exchange
    /// is poisoned: by `finish`, if that is still to come.
    fn report(&self, transport: &dyn Transport, state: MutexGuard<'_, State>) {
        let error = match &state.status {
            Status::Poisoned(error) => Some(error.clone()),
            _ => None,
        };
        drop(state);
        if let Err(message) = self.on_complete.run(error.as_ref().map_or(Ok(()), Err)) {
            tracing::error!("the completion callback of an exchange panicked: {message}");
            let mut state = self.lock();
            match state.status {
                Status::Travelling | Status::Arrived | Status::Closing => state.panicked = Some(message),
                Status::Idle => state.poison(transport, ExchangeError::CallbackPanicked(message)),
                Status::Poisoned(_) => {}
            }
        }
    }

    /// Locks even after a panic: a callback runs without the lock, and parts do not panic.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
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
        let closing = state.status == Status::Closing;
        if !closing && state.status != Status::Travelling {
            return;
        }
        let mut complete = true;
        let mut waited_for = false;
        let mut failed = None;
        let finishing = state.finishing;
        for part in &mut state.parts {
            match part.poll(transport, finishing) {
                Ok(arrived) => {
                    complete &= arrived;
                    waited_for |= !arrived && !part.is_closing();
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        state.waited_for = waited_for;
        if closing && !complete && failed.is_none() {
            failed = state.impatience(transport.rank());
        }
        match failed {
            Some(error) => state.poison(transport, error),
            None if complete && closing => state.land(Status::Idle),
            None if complete => state.status = Status::Arrived,
            None => return,
        }
        self.report(transport, state);
    }

    fn give_up(&self, transport: &dyn Transport, why: String) {
        self.abandon(transport, ExchangeError::Poisoned(why));
    }

    fn is_closing(&self) -> bool {
        match self.state.try_lock() {
            Ok(state) => state.status == Status::Closing,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().status == Status::Closing,
            // Another thread is polling it, and may be about to open its gate.
            Err(TryLockError::WouldBlock) => true,
        }
    }

    fn is_under_way(&self) -> bool {
        let under_way = |state: &State| matches!(state.status, Status::Travelling | Status::Closing);
        match self.state.try_lock() {
            Ok(state) => under_way(&state),
            Err(TryLockError::Poisoned(poisoned)) => under_way(&poisoned.into_inner()),
            // Somebody is at it, and may be waiting for who asks here.
            Err(TryLockError::WouldBlock) => true,
        }
    }
}

impl State {
    /// That nothing is in flight.
    pub(crate) fn check_idle(&self) -> Result<(), ExchangeError> {
        match &self.status {
            Status::Poisoned(error) => Err(ExchangeError::Poisoned(error.to_string())),
            Status::Idle => Ok(()),
            Status::Travelling | Status::Arrived | Status::Closing => {
                Err(ExchangeError::Poisoned("it was started while in flight".into()))
            }
        }
    }

    /// Begins a flight.
    pub(crate) fn take_off(&mut self, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        self.check_idle()?;
        self.check_stream(schedule)?;
        if let Some(taken) = self.storages.iter().position(|storage| !storage.take_off()) {
            self.storages[..taken].iter().for_each(|storage| storage.land());
            return Err(ExchangeError::InFlightElsewhere);
        }
        self.status = Status::Travelling;
        self.waited_for = true;
        Ok(())
    }

    pub(crate) fn check_stream(&self, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        let Schedule::On(stream) = schedule else { return Ok(()) };
        if self.parts.is_empty() || self.parts.iter().any(|part| part.device() == stream.device_id()) {
            return Ok(());
        }
        let devices: Vec<String> = self.parts.iter().map(|part| part.device().to_string()).collect();
        Err(ExchangeError::ForeignStream { stream: stream.device_id(), devices: devices.join(", ") })
    }

    /// The error where neighbours have taken too long.
    fn impatience(&mut self, rank: usize) -> Option<ExchangeError> {
        if self.parts.iter().any(|part| part.is_packing()) {
            self.patience.restart();
            return None;
        }
        let limit = self.patience.is_over(rank, || missing(&self.parts))?;
        Some(ExchangeError::TimeLimit { missing: missing(&self.parts), limit })
    }

    pub(crate) fn poison(&mut self, transport: &dyn Transport, error: ExchangeError) {
        self.parts.iter_mut().for_each(|part| part.abandon(transport));
        self.land(Status::Poisoned(error));
    }

    /// Ends the flight. Only a flight that has taken off marks its fields as at rest.
    pub(crate) fn land(&mut self, status: Status) {
        if matches!(self.status, Status::Travelling | Status::Arrived) {
            self.storages.iter().for_each(|storage| storage.land());
        }
        self.status = status;
    }
}

/// Which neighbours are missing, in words.
fn missing(parts: &[Box<dyn Part>]) -> String {
    let missing: Vec<String> = parts.iter().flat_map(|part| part.missing()).collect();
    if missing.is_empty() { "nothing".into() } else { missing.join(", ") }
}
