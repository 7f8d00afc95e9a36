//! The state of one bound exchange, shared between the exchange itself and the engine that serves it.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::flight_state::{State, Status, ThreadMark, missing};
use crate::callback::Callback;
use crate::comm::{Engine, Missing, Served, WaitClock, WaitLimits, drive_until, drives, is_meanwhile};
use crate::device::Pointer;
use crate::exchange::options::{Completion, ExchangeError, Schedule, Traffic};
use crate::exchange::work::Part;
use crate::field::Storage;
use crate::log;
use crate::transport::Transport;

/// One bound exchange.
pub(crate) struct Flight {
    state: Mutex<State>,
    transport: Arc<dyn Transport>,
    is_asynchronous: bool,
    on_complete: Callback<ExchangeError>,
}

/// The looks at neighbours for which a caller that finishes holds the lock.
const FIRST_LOOKS: usize = 8;

/// As long as this lives, the caller waits in `finish`: any thread that makes progress may touch borrowed memory.
pub(crate) struct Finishing<'f>(&'f Flight);

impl Drop for Finishing<'_> {
    fn drop(&mut self) {
        self.0.lock().finishing = None;
    }
}

impl Flight {
    pub(crate) fn new(
        transport: &Arc<dyn Transport>,
        parts: Vec<Box<dyn Part>>,
        storages: Vec<Arc<Storage>>,
    ) -> Flight {
        let is_asynchronous = parts.iter().any(|part| part.is_asynchronous());
        let state = State {
            parts,
            storages,
            status: Status::Idle,
            started: 0,
            finishing: None,
            driven: false,
            waited_for: true,
            told: false,
            untold: false,
            abandoning: false,
            marks_fields: false,
            wait_clock: WaitClock::new(WaitLimits::default()),
            panicked: None,
        };
        let transport = Arc::clone(transport);
        Flight { state: Mutex::new(state), transport, is_asynchronous, on_complete: Callback::new(None) }
    }

    /// Sets the function that is called each time an exchange is complete or has failed.
    pub(crate) fn on_complete(&self, call: Completion) {
        self.on_complete.set(call);
    }

    pub(crate) fn status(&self) -> Status {
        self.lock().status.clone()
    }

    /// Whether nothing is in flight, and nothing has failed.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().status == Status::Idle
    }

    /// The number of exchanges that were started, if all are complete and none has failed.
    pub(crate) fn completed(&self) -> Option<u64> {
        let state = self.lock();
        matches!(state.status, Status::Idle | Status::Arrived).then_some(state.started)
    }

    /// Whether `finish` would have to wait: a part without a gate is incomplete.
    pub(crate) fn is_waited_for(&self) -> bool {
        let state = self.lock();
        state.status == Status::Travelling && state.waited_for
    }

    pub(crate) fn is_asynchronous(&self) -> bool {
        self.is_asynchronous
    }

    /// Whether it was started and has not ended.
    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self.lock().status, Status::Travelling | Status::Arrived | Status::Gated)
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let state = self.lock();
        state.parts.iter().map(|part| part.traffic()).fold(Traffic::default(), Traffic::beside)
    }

    /// The next exchange finds the blocks of the fields at `bases`. `storages` are the fields that own their memory.
    /// Nothing may be in flight. Allocates only for more fields than before.
    pub(crate) fn place(&self, bases: &[Pointer], storages: &[Arc<Storage>]) -> Result<(), ExchangeError> {
        let mut state = self.lock();
        state.check_idle()?;
        state.parts.iter_mut().for_each(|part| part.place(bases));
        let same = state.storages.len() == storages.len()
            && state.storages.iter().zip(storages).all(|(known, storage)| Arc::ptr_eq(known, storage));
        if !same {
            for part in &state.parts {
                storages.iter().for_each(|storage| part.writes(storage));
            }
            state.storages.clear();
            state.storages.extend_from_slice(storages);
        }
        Ok(())
    }

    /// Packs and sends. The caller has added the flight to the engine. `watched`: a thread polls it until it ends.
    pub(crate) fn start(
        &self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
        watched: bool,
    ) -> Result<(), ExchangeError> {
        let mut state = self.lock();
        if state.untold {
            self.report(transport, state);
            state = self.lock();
        }
        state.check_idle()?;
        state.check_stream(schedule)?;
        // The other parts attach the thread by themselves.
        let attached = state.parts.first().map(|part| part.attach()).transpose()?;
        // Before anything is in streams: the exchange stays as it is.
        state.parts.iter().try_for_each(|part| part.check_stream(schedule))?;
        state.begin_flight()?;
        let started = state.parts.iter_mut().try_for_each(|part| part.start(transport, schedule, watched));
        if let Err(error) = &started {
            state.poison(transport, error.clone());
            state.abandon_now(transport);
        }
        drop((attached, state));
        started
    }

    /// Marks that the caller waits in `finish` and lends all fields, until the result is dropped. `driven`: the progress thread
    /// polls all exchanges of the rank meanwhile.
    pub(crate) fn finishing(&self, driven: bool) -> Finishing<'_> {
        self.lock().begin_to_finish(driven);
        Finishing(self)
    }

    /// On devices that are done when a call returns, and without a callback: finishes the exchange if all has arrived, or
    /// arrives within a few looks; `None` if not.
    pub(crate) fn finish_at_once(
        &self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
    ) -> Option<Result<(), ExchangeError>> {
        if self.is_asynchronous || self.on_complete.is_set() {
            return None;
        }
        let mut state = self.lock();
        state.begin_to_finish(false);
        for _ in 0..FIRST_LOOKS {
            if state.status != Status::Travelling {
                break;
            }
            match state.poll_parts(transport, false) {
                (_, Some(error)) => state.poison(transport, error),
                (true, None) => state.status = Status::Arrived,
                (false, None) => std::hint::spin_loop(),
            }
        }
        let finished = (state.status != Status::Travelling).then(|| state.finish(transport, schedule));
        state.finishing = None;
        finished
    }

    /// Puts the end of each part into its stream behind a gate, if that is possible and not everything has arrived.
    /// `limits` apply while nothing but neighbours is missing. Does not block. On failure, poisons the exchange.
    pub(crate) fn finish_behind_gates(
        &self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
        limits: WaitLimits,
    ) {
        let mut state = self.lock();
        if state.status != Status::Travelling || state.check_stream(schedule).is_err() {
            return;
        }
        state.wait_clock = WaitClock::new(limits);
        let gated = state.parts.iter_mut().try_for_each(|part| part.finish_behind_gate(transport, schedule));
        if let Err(error) = gated {
            state.poison(transport, error);
        }
        state.waited_for = state.parts.iter().any(|part| !part.is_gated());
    }

    /// Blocks until the halos of the last exchange are in place.
    pub(crate) fn synchronize(&self) -> Result<(), ExchangeError> {
        Ok(self.lock().parts.iter().try_for_each(|part| part.synchronize())?)
    }

    /// Unpacks the rest, and ends `finishing`. Everything must have arrived, except for parts with a gate. Also returns whether it
    /// [is settled](Flight::is_settled).
    pub(crate) fn finish(
        &self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
        finishing: Finishing<'_>,
    ) -> (Result<(), ExchangeError>, bool) {
        let mut state = self.lock();
        let finished = state.finish(transport, schedule);
        state.finishing = None;
        // Once the lock is free, it would end that of a later call.
        mem::forget(finishing);
        (finished, self.settle(transport, state))
    }

    /// Abandons the exchange, and poisons it with `error`. Afterwards neither the device nor neighbours touch the
    /// fields; those that the transport may still be using stay marked as in flight.
    pub(crate) fn abandon(&self, transport: &dyn Transport, error: ExchangeError) {
        let mut state = self.lock();
        let was_travelling = matches!(state.status, Status::Travelling | Status::Gated);
        if !matches!(state.status, Status::Poisoned(_)) {
            state.poison(transport, error);
        }
        if was_travelling || state.untold {
            self.report(transport, state);
        }
    }

    /// Whether no gate of it is closed: then nothing polls it before its next start. Calls the callback, if that was put off.
    pub(crate) fn is_settled(&self, transport: &dyn Transport) -> bool {
        self.settle(transport, self.lock())
    }

    fn settle(&self, transport: &dyn Transport, state: MutexGuard<'_, State>) -> bool {
        if state.status == Status::Gated {
            return false;
        }
        if state.untold {
            self.report(transport, state);
        }
        true
    }

    /// Releases devices and memory after [`abandon`](Flight::abandon), while the progress thread may hold the flight.
    pub(crate) fn release(&self) {
        let mut state = self.lock();
        state.abandon_now(&*self.transport);
        let (parts, storages) = (mem::take(&mut state.parts), mem::take(&mut state.storages));
        drop(state);
        drop((parts, storages));
    }

    /// What is missing, and from which neighbours.
    pub(crate) fn missing(&self) -> Missing {
        missing(&self.lock().parts)
    }

    /// Runs the callback without the lock, so that it may start other exchanges. If it panics, the exchange is
    /// poisoned: by `finish`, if that has not been called yet.
    fn report(&self, transport: &dyn Transport, mut state: MutexGuard<'_, State>) {
        state.untold = is_meanwhile() || state.abandoning;
        if state.untold || mem::replace(&mut state.told, true) {
            return;
        }
        let error = if let Status::Poisoned(error) = &state.status { Some(error.clone()) } else { None };
        drop(state);
        if let Err(message) = self.on_complete.run(error.as_ref().map_or(Ok(()), Err)) {
            log::error(format_args!("the completion callback of an exchange panicked: {message}"));
            let mut state = self.lock();
            match state.status {
                Status::Travelling | Status::Arrived | Status::Gated => state.panicked = Some(message),
                Status::Idle => state.poison(transport, ExchangeError::CallbackPanicked(message)),
                Status::Poisoned(_) => {}
            }
        }
    }

    /// Whether `is` holds for the status; `true` while another thread is polling, which may be about to open the gate, and may
    /// be waiting for this caller.
    fn may_be(&self, is: impl Fn(&State) -> bool) -> bool {
        self.try_lock().is_none_or(|state| is(&state))
    }

    /// `None` while another thread has the lock.
    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Locks even after a panic: callbacks run without the lock, and parts do not panic. While another thread has the lock,
    /// which may wait for a gate, the progress thread polls other exchanges. Any other thread ends the abandoning.
    #[inline]
    fn lock(&self) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Ok(state) if !state.abandoning => state,
            locked => self.lock_slowly(locked.ok()),
        }
    }

    /// As [`lock`](Flight::lock), while another thread has the lock, or while parts are being abandoned: then the lock is passed.
    #[cold]
    fn lock_slowly<'f>(&'f self, mut state: Option<MutexGuard<'f, State>>) -> MutexGuard<'f, State> {
        drive_until(|| {
            state = state.take().or_else(|| self.try_lock());
            state.is_some()
        });
        let mut state = state.unwrap_or_else(|| self.state.lock().unwrap_or_else(PoisonError::into_inner));
        if !drives() {
            state.end_abandoning(&*self.transport);
        }
        state
    }
}

impl Served for Flight {
    /// Makes progress, unless another thread is doing so, and calls the callback if this completes the exchange.
    fn poll(&self, transport: &dyn Transport, engine: &Engine) {
        if self.on_complete.may_wait_for_itself() {
            return;
        }
        let Some(mut state) = self.try_lock() else { return };
        if state.abandoning && state.parts.iter().all(|part| part.may_be_abandoned()) {
            state.end_abandoning(transport);
        }
        if state.untold && !state.abandoning && !is_meanwhile() {
            return self.report(transport, state);
        }
        let is_gated = state.status == Status::Gated;
        if !is_gated && state.status != Status::Travelling {
            return;
        }
        // Another thread does not wait for the device, nor does this one if other exchanges need it.
        let waits = self.is_asynchronous
            && state.finishing == Some(ThreadMark::here())
            && (state.driven || engine.has_one());
        let (complete, mut failed) = state.poll_parts(transport, waits);
        if is_gated && !complete && failed.is_none() {
            failed = state.time_limit_error(transport.rank());
        }
        match failed {
            Some(error) => state.poison(transport, error),
            None if complete && is_gated => state.end_flight(Status::Idle),
            None if complete => state.status = Status::Arrived,
            None => return,
        }
        self.report(transport, state);
    }

    fn give_up(&self, transport: &dyn Transport, why: String) {
        self.abandon(transport, ExchangeError::Poisoned(why));
    }

    fn is_gated(&self) -> bool {
        self.may_be(|state| state.status == Status::Gated)
    }

    fn is_under_way(&self) -> bool {
        self.may_be(|state| {
            state.abandoning || state.untold || matches!(state.status, Status::Travelling | Status::Gated)
        })
    }
}
