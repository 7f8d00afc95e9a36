//! A part whose halos are filled axis by axis: one part for each axis, run one after the other.

use super::part::{Part, Sharing};
use crate::device::{DeviceError, DeviceId, Pointer};
use crate::exchange::options::{ExchangeError, Schedule, Traffic};
use crate::field::Storage;
use crate::transport::Transport;

/// The parts of one device, one for each axis. Its work is done when a call returns, and the memory is the library's: it
/// goes from one axis to the next whenever it is polled.
pub(crate) struct StagedPart {
    stages: Vec<Box<dyn Part>>,
    current: usize,
}

impl StagedPart {
    /// `stages` is not empty.
    pub(crate) fn new(stages: Vec<Box<dyn Part>>) -> StagedPart {
        StagedPart { stages, current: 0 }
    }
}

impl Part for StagedPart {
    fn device(&self) -> DeviceId {
        self.stages[self.current].device()
    }

    fn traffic(&self) -> Traffic {
        let stages = self.stages.iter().map(|stage| stage.traffic());
        stages.reduce(Traffic::then).unwrap_or_default()
    }

    fn start(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        self.current = 0;
        self.stages[0].start(transport, schedule)
    }

    fn poll(&mut self, transport: &dyn Transport, finishing: bool) -> Result<bool, ExchangeError> {
        while self.stages[self.current].poll(transport, finishing)? {
            if self.current + 1 == self.stages.len() {
                return Ok(true);
            }
            self.stages[self.current].finish(transport, &Schedule::Blocking)?;
            self.current += 1;
            self.stages[self.current].start(transport, &Schedule::Blocking)?;
        }
        Ok(false)
    }

    fn finish(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        self.stages[self.current].finish(transport, schedule)
    }

    fn is_asynchronous(&self) -> bool {
        false
    }

    fn close(&mut self, _schedule: &Schedule<'_>, _sharing: Sharing) -> Result<(), ExchangeError> {
        Ok(())
    }

    fn is_closing(&self) -> bool {
        false
    }

    fn is_packing(&self) -> bool {
        self.stages[self.current].is_packing()
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.stages[self.current].synchronize()
    }

    unsafe fn relocate(&mut self, from: &[Pointer], to: &[Pointer]) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        self.stages.iter_mut().try_for_each(|stage| unsafe { stage.relocate(from, to) })
    }

    fn writes(&self, storage: &Storage) {
        self.stages.iter().for_each(|stage| stage.writes(storage));
    }

    fn missing(&self) -> Vec<String> {
        self.stages[self.current].missing()
    }

    fn abandon(&mut self, transport: &dyn Transport) {
        self.stages.iter_mut().for_each(|stage| stage.abandon(transport));
    }
}
