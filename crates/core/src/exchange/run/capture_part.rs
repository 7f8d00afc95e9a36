//! One exchange of a part, captured together with the caller's work, so that one launch puts both into a stream.
//!
//! ```text
//! caller's stream  ●─────── interior ────────●─ wait for "arrived" ─ unpack ─ boundary
//!                  └─ pack ─ set "packed" ───┘
//! ```
//!
//! The wait comes after the packing even if the device runs only one branch at a time: "arrived" is set only after the
//! packed messages were sent.
//!
//! When the engine finds "packed" set, it sends. When everything has arrived, it sets "arrived", which is the gate of
//! the exchange. There are two such steps, used in turn, each with its own flags. A replay clears the flags of its step
//! first. That is safe: the step between has packed by then, since its messages have been sent, and so the earlier
//! replay of this step, which comes before it in the stream, has run to its end.

use std::sync::Arc;

use super::capture::{Capturable, CapturedStep, CapturedSteps, PutWork, WorkKind};
use super::part::{DevicePart, Gate, PartState};
use crate::device::{Device, DeviceError, Flag, Stream as _};
use crate::exchange::options::{ExchangeError, Schedule};
use crate::field::LastWrite as _;

impl<D: Device> Capturable for DevicePart<D> {
    fn capture(
        &mut self,
        schedule: &Schedule<'_>,
        work: PutWork<'_>,
    ) -> Result<Option<String>, ExchangeError> {
        self.forget_captured();
        if !self.device.info().capabilities.capture {
            return Ok(Some(format!("{} does not capture work", self.device.id())));
        }
        if !self.windows.are_none() {
            let why = "halos are copied from memory that neighbours lend, not from messages";
            return Ok(Some(why.into()));
        }
        if self.messages.are_chunked() {
            return Ok(Some("messages are staged in chunks, each of which is sent when it is packed".into()));
        }
        let Some(on) = schedule.stream(&self.device) else {
            return Ok(Some("the schedule has no stream: it is `Schedule::Blocking`".into()));
        };
        self.streams.choose(&self.device, schedule)?;
        match self.capture_round(0, &on, work).and_then(|even| Ok([even, self.capture_round(1, &on, work)?]))
        {
            Ok(steps) => {
                self.captured = Some(CapturedSteps { steps, stream: on.handle() });
                Ok(None)
            }
            // The stream cannot be captured, or the driver refuses flags in captured work.
            Err(error @ DeviceError::Unsupported { .. }) => Ok(Some(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    fn replay(&mut self, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        self.begin(schedule)?;
        let (Some(captured), Some(on)) = (&mut self.captured, schedule.stream(&self.device)) else {
            let what = "replaying a step that was not captured";
            return Err(DeviceError::Unsupported { what, device: self.device.id() }.into());
        };
        if captured.stream != on.handle() {
            // The last replay was in another stream: this one comes after it.
            self.device.stream_wait(&on, &self.unpacked.events[1 - self.round])?;
            captured.stream = on.handle();
        }
        let step = &captured.steps[self.round];
        step.packed.clear();
        step.arrived.clear();
        // SAFETY: as in `start` and `finish_behind_gate`: the exchange owns the fields, and no other exchange of them
        // is in flight; the send buffers are free since the last exchange has completed, and receives wait until it was
        // unpacked. The caller of `Exchange::record` guarantees that its work is sound and that all it uses lives long
        // enough; our own resources live until `forget_captured` or `abandon` has waited for the event that is recorded
        // here.
        unsafe { step.work.replay(&on)? };
        let (packed, arrived) = (Arc::clone(&step.packed), Arc::clone(&step.arrived));
        self.gate = Some(Gate::Step { packed, arrived });
        self.state = PartState::Packing { receiving: false };
        let recorded = self.device.record(&self.unpacked.events[self.round], &on);
        if recorded.is_err() {
            // No event tells when the step is done.
            self.open_gate();
            let _ = self.device.synchronize(&on);
        }
        Ok(recorded?)
    }

    fn forget_captured(&mut self) {
        if self.captured.is_some() {
            // An error of the captured work is returned by the next call that waits for it.
            let _ = self.unpacked.wait();
            self.captured = None;
        }
    }
}

impl<D: Device> DevicePart<D> {
    /// Captures the work that `start` and `finish_behind_gate` put into streams in exchanges of this `round`.
    fn capture_round(
        &self,
        round: usize,
        on: &D::Stream,
        work: PutWork<'_>,
    ) -> Result<CapturedStep<D>, DeviceError> {
        let packed: Arc<dyn Flag<D::Stream>> = Arc::from(self.device.create_flag()?);
        let arrived: Arc<dyn Flag<D::Stream>> = Arc::from(self.device.create_flag()?);
        let captured = self.device.capture(on, &mut || {
            self.device.record(&self.before, on)?;
            self.device.stream_wait(self.streams.now(), &self.before)?;
            // SAFETY: it is only captured here; `replay` answers for running it.
            unsafe { self.messages.put_packing(&self.device, self.streams.now(), round)? };
            packed.set_in(self.streams.now())?;
            // SAFETY: as above.
            unsafe { self.own_cells.put(&self.device, &[], self.streams.now())? };
            work(WorkKind::Interior)?;
            self.wait_for_copies(on)?;
            arrived.wait_in(on)?;
            // SAFETY: as above.
            unsafe { self.messages.put_unpacking(&self.device, on)? };
            work(WorkKind::Boundary)
        })?;
        Ok(CapturedStep { work: captured, packed, arrived })
    }
}
