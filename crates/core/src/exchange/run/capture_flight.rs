//! The steps of a flight: exchanges that were captured with the work beside them, recorded and replayed.

use super::capture::{Recordable, Work};
use super::flight::{Flight, Status};
use super::part::Part;
use crate::comm::{WaitClock, WaitLimits};
use crate::exchange::options::{ExchangeError, Schedule};
use crate::transport::Transport;

impl Flight {
    /// Captures one exchange with `work`, in the order of `schedule`; gives the reason where that cannot be
    /// done. Nothing is in flight.
    pub(crate) fn record(
        &self,
        schedule: &Schedule<'_>,
        work: Work<'_>,
    ) -> Result<Option<String>, ExchangeError> {
        let mut apart = Apart::new(self, schedule)?;
        match &mut apart.parts[..] {
            [] => Ok(Some("this rank has no fields".into())),
            [part] => match part.recordable() {
                Some(part) => part.record(schedule, work),
                None => Ok(Some("halos are filled axis by axis".into())),
            },
            _ => Ok(Some("its fields are on several devices".into())),
        }
    }

    /// Begins an exchange that was recorded, and puts all of it into the stream of `schedule`. Neighbours
    /// have the time that `limits` say from when they alone are waited for. Does not block. The caller has put the flight
    /// into the engine's care.
    pub(crate) fn replay(
        &self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
        limits: WaitLimits,
    ) -> Result<(), ExchangeError> {
        let mut state = self.lock();
        state.take_off(schedule)?;
        state.patience = WaitClock::new(limits);
        let mut parts = state.parts.iter_mut().filter_map(|part| part.recordable());
        let replayed = parts.try_for_each(|part| part.replay(schedule));
        match &replayed {
            // As after a `finish` behind gates.
            Ok(()) => {
                state.waited_for = false;
                state.land(Status::Closing);
            }
            Err(error) => state.poison(transport, error.clone()),
        }
        replayed
    }

    /// Forgets what was recorded. Blocks until it has run for the last time; no gate is closed.
    pub(crate) fn forget_recorded(&self) {
        self.lock().parts.iter_mut().filter_map(|part| part.recordable()).for_each(Recordable::forget);
    }
}

/// The parts of a flight, taken out of it until this is dropped: the work of the caller may ask the flight
/// something.
struct Apart<'f> {
    flight: &'f Flight,
    parts: Vec<Box<dyn Part>>,
}

impl Apart<'_> {
    fn new<'f>(flight: &'f Flight, schedule: &Schedule<'_>) -> Result<Apart<'f>, ExchangeError> {
        let mut state = flight.lock();
        state.check_idle()?;
        state.check_stream(schedule)?;
        Ok(Apart { flight, parts: std::mem::take(&mut state.parts) })
    }
}

impl Drop for Apart<'_> {
    fn drop(&mut self) {
        self.flight.lock().parts = std::mem::take(&mut self.parts);
    }
}
