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

use super::course::Course;
use super::stream::{Gate, StreamPart};
use crate::device::{Device, DeviceError, Stream as _, WordOperation};
use crate::exchange::options::{ExchangeError, Schedule};
use crate::exchange::work::capture::{Capturable, CapturedStep, CapturedSteps, Hosted, PutWork, WorkKind};
use crate::exchange::work::mark::{Marks, Patience};
use crate::exchange::work::part::PartState;
use crate::field::LastWrite as _;

impl<D: Device> Capturable for StreamPart<D> {
    fn capture(
        &mut self,
        schedule: &Schedule<'_>,
        work: PutWork<'_>,
    ) -> Result<Option<String>, ExchangeError> {
        self.forget_captured();
        if !self.device.info().capabilities.capture {
            return Ok(Some(format!("{} does not capture work", self.device.id())));
        }
        if !self.ways.windows.are_none() {
            let why = "halos are copied from memory that neighbours lend, which hosts hand over";
            return Ok(Some(why.into()));
        }
        if self.ways.stream_messages.is_some() {
            return Ok(Some("streams send and receive the messages, which captured work does not".into()));
        }
        if self.ways.messages.are_chunked() {
            return Ok(Some("messages are staged in chunks, each of which is sent when it is packed".into()));
        }
        if !self.end.remote_writes.allow_gates() {
            let why =
                "the device cannot show messages that the network writes to work that is captured already";
            return Ok(Some(why.into()));
        }
        let Some(on) = schedule.stream(&self.device) else {
            return Ok(Some("the schedule has no stream: it is `Schedule::Blocking`".into()));
        };
        if self.device.info().shared_queues && self.holds.user.has_others() {
            let why =
                "other ranks of this process use the device, whose streams share queues of the hardware";
            return Ok(Some(why.into()));
        }
        self.streams.choose(&self.device, schedule)?;
        if let Some(windows) = &mut self.ways.words {
            windows.await_in_stream();
        }
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
        self.course = Course::Captured { is_hosted: self.ways.are_hosted() };
        self.defer_frees();
        if let Some(windows) = &mut self.ways.words {
            windows.begin(self.round, false)?;
        }
        let (Some(captured), Some(on)) = (&mut self.captured, schedule.stream(&self.device)) else {
            let what = "replaying a step that was not captured";
            return Err(DeviceError::Unsupported { what, device: self.device.id() }.into());
        };
        if captured.stream != on.handle() {
            // The last replay was in another stream: this one comes after it.
            self.points.unpacked.wait()?;
            captured.stream = on.handle();
        }
        let step = &captured.steps[self.round];
        if let Some(ended) = &step.ended {
            ended.store(0);
        }
        if let Some(Hosted { packed, arrived }) = &step.hosted {
            packed.clear();
            arrived.clear();
        }
        // SAFETY: as in `start_hosted` and `finish_behind_gate`: the exchange owns the fields, and no other exchange of them
        // is in flight; the send buffers are free since the last exchange has completed, and receives wait until it was
        // unpacked. The caller of `Exchange::record` guarantees that its work is sound and that all it uses lives long
        // enough; our own resources live until `forget_captured` or `abandon` has waited for the word that the step sets
        // at its end, or the event that is recorded here.
        let put = unsafe { step.work.replay(&on) };
        if let (Err(_), Some(ended)) = (&put, &step.ended) {
            // Nothing was put into the stream, so that nobody may wait for its end.
            ended.store(1);
        }
        put?;
        if let Some(ended) = &step.ended {
            self.points.unpacked.ends_with(self.round, ended);
        }
        if let Some(windows) = &mut self.ways.words {
            windows.is_replayed();
        }
        self.points.finished_on = Some(on.handle());
        match &step.hosted {
            Some(Hosted { packed, arrived }) => {
                let (packed, arrived) = (Arc::clone(packed), Arc::clone(arrived));
                self.end.gate = Some(Gate::Step { packed, arrived, patience: Patience::default() });
                self.state = PartState::Packing { receiving: false };
            }
            None => {
                self.end.is_in_stream = true;
                self.state = PartState::Travelling;
            }
        }
        if step.ended.is_none() {
            let recorded = self.device.record(&self.points.unpacked.events[self.round], &on);
            if recorded.is_err() {
                // No event tells when the step is done.
                self.open_gate();
                let _ = self.device.synchronize(&on);
            }
            recorded?;
        }
        Ok(())
    }

    fn is_held_back(&self) -> bool {
        self.device.info().shared_queues && self.holds.user.has_late_copies()
    }

    fn forget_captured(&mut self) {
        if self.captured.is_some() {
            // An error of the captured work is returned by the next call that waits for it.
            let _ = self.points.unpacked.wait();
            self.points.unpacked.forget_words();
            self.points.finished_on = None;
            self.captured = None;
        }
    }
}

impl<D: Device> StreamPart<D> {
    /// Captures the work that `start` and `finish_behind_gate` put into streams in exchanges of this `round`.
    fn capture_round(
        &self,
        round: usize,
        on: &D::Stream,
        work: PutWork<'_>,
    ) -> Result<CapturedStep<D>, DeviceError> {
        let hosted = if !self.ways.are_hosted() {
            None
        } else {
            let (packed, arrived) = (self.device.create_flag()?, self.device.create_flag()?);
            Some(Hosted { packed: Arc::from(packed), arrived: Arc::from(arrived) })
        };
        let has_words = self.device.info().capabilities.stream_words;
        let ended = if has_words { Some(Marks::new(&self.device).word()?) } else { None };
        let captured = self.device.capture(on, &mut || {
            self.device.record(&self.points.before, on)?;
            self.device.stream_wait(self.streams.now(), &self.points.before)?;
            // Before the stream waits for neighbours, as in `start`.
            if let Some(Hosted { packed, .. }) = &hosted {
                // SAFETY: it is only captured here; `replay` answers for running it.
                unsafe { self.ways.messages.put_packing(&self.device, self.streams.now(), round)? };
                packed.set_in(self.streams.now())?;
            }
            // SAFETY: as above.
            unsafe { self.ways.own_cells.put(&self.device, &[], self.streams.now())? };
            if let Some(windows) = &self.ways.words {
                // WAIT: captured: copying follows the neighbour's word.
                // SAFETY: as above.
                unsafe { windows.put_begin(&self.device, self.streams.now(), round)? };
                // WAIT: captured: the end follows the neighbour's word.
                // SAFETY: as above.
                unsafe { windows.put_captured_end(&self.device, self.streams.now(), round)? };
            }
            work(WorkKind::Interior)?;
            // WAIT: captured: the caller's stream follows copies of the exchange's stream.
            self.wait_for_copies(on)?;
            if let Some(Hosted { arrived, .. }) = &hosted {
                // WAIT: captured: unpacking waits for the flag that messages have arrived.
                arrived.wait_in(on)?;
                // SAFETY: as above.
                unsafe { self.ways.messages.put_unpacking(&self.device, on)? };
            }
            work(WorkKind::Boundary)?;
            match &ended {
                // SAFETY: the step keeps the word.
                Some(ended) => unsafe {
                    self.device.put_words(&[WordOperation::Write(ended.pointer(), 1)], on)
                },
                None => Ok(()),
            }
        })?;
        Ok(CapturedStep { work: captured, hosted, ended })
    }
}
