//! Capturing and replaying the exchange of a flight together with the caller's work.

use super::flight::{Flight, Status};
use crate::comm::{WaitClock, WaitLimits};
use crate::exchange::options::{ExchangeError, Schedule};
use crate::exchange::work::capture::{Capturable, PutWork};
use crate::exchange::work::part::Part;
use crate::transport::Transport;

impl Flight {
    /// Captures one exchange with `work`, in the order of `schedule`. If that is not possible, returns the reason.
    /// Nothing may be in flight.
    pub(crate) fn capture(
        &self,
        schedule: &Schedule<'_>,
        work: PutWork<'_>,
    ) -> Result<Option<String>, ExchangeError> {
        let mut taken = TakenParts::new(self, schedule)?;
        match &mut taken.parts[..] {
            [] => Ok(Some("this rank has no fields".into())),
            [part] => match part.capturable() {
                Ok(part) => part.capture(schedule, work),
                Err(why) => Ok(Some(why)),
            },
            _ => Ok(Some("the fields are on several devices".into())),
        }
    }

    /// Begins a captured exchange: puts all of it into the stream of `schedule`. The time limit of `limits` runs while
    /// neighbours are all that is missing. Does not block. The caller has added the flight to the engine.
    pub(crate) fn replay(
        &self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
        limits: WaitLimits,
    ) -> Result<(), ExchangeError> {
        let mut state = self.lock();
        state.begin_flight(schedule)?;
        state.wait_clock = WaitClock::new(limits);
        let mut parts = state.parts.iter_mut().filter_map(|part| part.capturable().ok());
        let replayed = parts.try_for_each(|part| part.replay(schedule));
        match &replayed {
            // The same state as after finishing behind gates.
            Ok(()) => {
                state.waited_for = false;
                state.end_flight(Status::Gated);
            }
            Err(error) => state.poison(transport, error.clone()),
        }
        replayed
    }

    /// Drops the captured work. Blocks until its last replay is done. No gate may be closed.
    pub(crate) fn forget_captured(&self) {
        self.lock()
            .parts
            .iter_mut()
            .filter_map(|part| part.capturable().ok())
            .for_each(Capturable::forget_captured);
    }
}

/// The parts of a flight, taken out of it until this is dropped, so that the flight is not locked while the caller's
/// work runs.
struct TakenParts<'f> {
    flight: &'f Flight,
    parts: Vec<Box<dyn Part>>,
}

impl TakenParts<'_> {
    fn new<'f>(flight: &'f Flight, schedule: &Schedule<'_>) -> Result<TakenParts<'f>, ExchangeError> {
        let mut state = flight.lock();
        state.check_idle()?;
        state.check_stream(schedule)?;
        state.parts.iter().try_for_each(|part| part.check_stream(schedule))?;
        Ok(TakenParts { flight, parts: std::mem::take(&mut state.parts) })
    }
}

impl Drop for TakenParts<'_> {
    fn drop(&mut self) {
        self.flight.lock().parts = std::mem::take(&mut self.parts);
    }
}
