//! One exchange of a part with the work of the caller beside it, captured: what is put into a stream with one
//! launch.
//!
//! ```text
//! caller's stream  ●─────── interior ────────●─ wait for "arrived" ─ unpack ─ boundary
//!                  └─ pack ─ set "packed" ───┘
//! ```
//!
//! The wait comes after the packing, also where the device has room for one of the two branches only: what it
//! waits for wants what was packed.
//!
//! The engine finds "packed" set, and sends; when all has come it sets "arrived", which is the gate of the
//! exchange. There are two such steps, used in turn, each with its own flags. Those of a step are taken back
//! when it is replayed again: the one between the two has packed by then, for its messages are gone, and so
//! this one, which is before it in the stream, has long run to its end.

use std::sync::Arc;

use super::capture::{Half, Recordable, Recorded, RecordedStep, Work};
use super::part::{DevicePart, Gate, PartState};
use crate::device::{Device, DeviceError, Flag, Stream as _};
use crate::exchange::options::{ExchangeError, Schedule};
use crate::field::LastWrite as _;

impl<D: Device> Recordable for DevicePart<D> {
    fn record(&mut self, schedule: &Schedule<'_>, work: Work<'_>) -> Result<Option<String>, ExchangeError> {
        self.forget();
        if !self.device.info().capabilities.capture {
            return Ok(Some(format!("{} does not capture work", self.device.id())));
        }
        if !self.windows.are_none() {
            let why = "halos are copied from memory that neighbours lend, when they are ready, and not from messages";
            return Ok(Some(why.into()));
        }
        if self.messages.are_chunked() {
            return Ok(Some(
                "its messages are staged in chunks, each of which is sent when it is packed".into(),
            ));
        }
        let Some(on) = schedule.stream(&self.device) else {
            return Ok(Some("its schedule has no stream: it is `Schedule::Blocking`".into()));
        };
        self.streams.choose(&self.device, schedule)?;
        match self.capture(0, &on, work).and_then(|even| Ok([even, self.capture(1, &on, work)?])) {
            Ok(steps) => {
                self.recorded = Some(Recorded { steps, stream: on.handle() });
                Ok(None)
            }
            // Not in this stream, or the driver refuses flags while it captures.
            Err(error @ DeviceError::Unsupported { .. }) => Ok(Some(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    fn replay(&mut self, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        self.begin(schedule)?;
        let (Some(recorded), Some(on)) = (&mut self.recorded, schedule.stream(&self.device)) else {
            let what = "a replay of what was not recorded";
            return Err(DeviceError::Unsupported { what, device: self.device.id() }.into());
        };
        if recorded.stream != on.handle() {
            // One step after the other, whatever they are put into.
            self.device.stream_wait(&on, &self.unpacked.events[1 - self.round])?;
            recorded.stream = on.handle();
        }
        let step = &recorded.steps[self.round];
        step.packed.clear();
        step.arrived.clear();
        // SAFETY: as in `start` and `close`: the exchange owns the fields, and no other of them is in flight;
        // the send buffers are free since the last exchange has completed, and receives wait until it was
        // unpacked. What the caller has put in, and how long what that uses lives, was promised to
        // `Exchange::record`; what is ours lives until `forget` or `abandon` has waited for the event that is
        // recorded here.
        unsafe { step.work.replay(&on)? };
        let (packed, arrived) = (Arc::clone(&step.packed), Arc::clone(&step.arrived));
        self.gate = Some(Gate::Step { packed, arrived });
        self.state = PartState::Packing { receiving: false };
        let recorded = self.device.record(&self.unpacked.events[self.round], &on);
        if recorded.is_err() {
            // No event says when it has run.
            self.open_gate();
            let _ = self.device.synchronize(&on);
        }
        Ok(recorded?)
    }

    fn forget(&mut self) {
        if self.recorded.is_some() {
            // An error is one of the work, and comes out of the next call that waits for it.
            let _ = self.unpacked.wait();
            self.recorded = None;
        }
    }
}

impl<D: Device> DevicePart<D> {
    /// Captures what `start` and `close` put into streams, in the exchanges of this `round`.
    fn capture(&self, round: usize, on: &D::Stream, work: Work<'_>) -> Result<RecordedStep<D>, DeviceError> {
        let packed: Arc<dyn Flag<D::Stream>> = Arc::from(self.device.create_flag()?);
        let arrived: Arc<dyn Flag<D::Stream>> = Arc::from(self.device.create_flag()?);
        let captured = self.device.capture(on, &mut || {
            self.device.record(&self.before, on)?;
            self.device.stream_wait(self.streams.now(), &self.before)?;
            // SAFETY: it is captured, not done; the replay answers for it.
            unsafe { self.messages.put_packing(&self.device, self.streams.now(), round)? };
            packed.set_in(self.streams.now())?;
            // SAFETY: as above.
            unsafe { self.own_cells.put(&self.device, self.streams.now())? };
            work(Half::Interior)?;
            self.wait_for_copies(on)?;
            arrived.wait_in(on)?;
            // SAFETY: as above.
            unsafe { self.messages.put_unpacking(&self.device, on)? };
            work(Half::Boundary)
        })?;
        Ok(RecordedStep { work: captured, packed, arrived })
    }
}
