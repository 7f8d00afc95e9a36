//! A part whose halos are filled axis by axis: one part for each axis, which run one after the other.

use crate::device::{Attached, DeviceError, DeviceId, Pointer};
use crate::exchange::options::{ExchangeError, Schedule, Traffic};
use crate::exchange::work::part::Part;
use crate::transport::Transport;

/// The parts of one device, one for each axis. The device is synchronous and the fields own their memory, so that any
/// poll may go on to the next axis.
pub(crate) struct AxisByAxisPart {
    axes: Vec<Box<dyn Part>>,
    current: usize,
}

impl AxisByAxisPart {
    /// `axes` must not be empty.
    pub(crate) fn new(axes: Vec<Box<dyn Part>>) -> AxisByAxisPart {
        AxisByAxisPart { axes, current: 0 }
    }
}

impl Part for AxisByAxisPart {
    fn device(&self) -> DeviceId {
        self.axes[self.current].device()
    }

    fn traffic(&self) -> Traffic {
        self.axes.iter().map(|axis| axis.traffic()).reduce(Traffic::then).unwrap_or_default()
    }

    fn attach(&self) -> Result<Attached, DeviceError> {
        self.axes[self.current].attach()
    }

    fn start(
        &mut self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
        watched: bool,
    ) -> Result<(), ExchangeError> {
        self.current = 0;
        self.axes[0].start(transport, schedule, watched)
    }

    fn poll(&mut self, transport: &dyn Transport, finishing: bool) -> Result<bool, ExchangeError> {
        while self.axes[self.current].poll(transport, finishing)? {
            if self.current + 1 == self.axes.len() {
                return Ok(true);
            }
            self.axes[self.current].finish(transport, &Schedule::Blocking)?;
            self.current += 1;
            self.axes[self.current].start(transport, &Schedule::Blocking, false)?;
        }
        Ok(false)
    }

    fn finish(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        self.axes[self.current].finish(transport, schedule)
    }

    fn place(&mut self, bases: &[Pointer]) {
        self.axes.iter_mut().for_each(|axis| axis.place(bases));
    }

    fn missing(&self) -> Vec<(usize, String)> {
        self.axes[self.current].missing()
    }

    fn abandon(&mut self, transport: &dyn Transport) -> bool {
        let mut is_left = true;
        for axis in &mut self.axes {
            is_left &= axis.abandon(transport);
        }
        is_left
    }
}
