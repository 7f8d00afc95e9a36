//! The phases of the part of an exchange on a device with streams.
//!
//! How an exchange goes is chosen once, when it starts: its [`Course`]. If the schedule is `Blocking` and the device has
//! immediate streams, the caller's thread does the work of `start`, `poll` and `finish`. Large staged messages are packed,
//! sent and unpacked chunk by chunk.

use super::Course;
use super::stream::{Abandoned, StreamPart};
use crate::device::{Attached, Device, DeviceError, DeviceId, Pointer};
use crate::exchange::options::{ExchangeError, Schedule, Traffic};
use crate::exchange::ways::stream_messages::run::StreamExchange;
use crate::exchange::work::{HostWay as _, Part, PartState, each_once, lane};
use crate::field::{LastWrite as _, Storage};
use crate::transport::Transport;

impl<D: Device> Part for StreamPart<D> {
    fn device(&self) -> DeviceId {
        self.device.id()
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn attach(&self) -> Result<Attached, DeviceError> {
        self.device.attach()
    }

    fn is_ordered_by(&self, schedule: &Schedule<'_>) -> bool {
        schedule.orders(&self.device)
    }

    fn check_stream(&self, schedule: &Schedule<'_>) -> Result<(), DeviceError> {
        let stream = schedule.stream(&self.device);
        stream.map_or(Ok(()), |stream| self.device.check_not_captured(&stream))
    }

    fn start(
        &mut self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
        watched: bool,
    ) -> Result<(), ExchangeError> {
        let _attached = self.device.attach()?;
        self.begin(schedule)?;
        let stream = schedule.stream(&self.device);
        if let Some(stream) = &stream {
            self.device.record(&self.points.before, stream)?;
            // WAIT: packing follows the caller's work.
            self.device.stream_wait(self.streams.now(), &self.points.before)?;
        }
        let messages = &self.ways.messages;
        let begun = self.points.begun.as_ref().filter(|_| messages.are_received());
        // Cells that the last exchange has combined are combined again, and halos that it has set to zero are packed.
        if begun.is_some() || messages.are_combined() {
            self.wait_for_last_unpacking()?;
        }
        if let Some(begun) = begun {
            begun.record(&self.device, self.streams.now())?;
        }
        self.course = Course::choose(&self.facts(stream.is_some(), watched));
        self.hold();
        if self.course.is_hosted() { self.start_hosted(transport) } else { self.start_in_streams(transport) }
    }

    fn poll(&mut self, transport: &dyn Transport, finishing: bool) -> Result<bool, ExchangeError> {
        // While a gate is closed or streams wait for neighbours, no call of the driver is made without need.
        let _attached = if self.end.transport_uses_device { Some(self.device.attach()?) } else { None };
        // If there is a gate, the caller has called `finish` already: all remaining copies are done here.
        let gated = self.is_gated();
        self.send(transport)?;
        let travelling = self.state == PartState::Travelling;
        if !travelling && !matches!(self.state, PartState::Packing { .. }) {
            return Ok(true);
        }
        let (lane, finishing) = (lane!(self, self.streams.now(), transport), finishing || gated);
        let mut complete = self.ways.windows.advance(&lane, finishing)? && travelling;
        if let Some(words) = &mut self.ways.words {
            complete &= words.advance(&lane)?;
        }
        if let Some(exchange) = &mut self.ways.stream_messages {
            complete &= exchange.advance(&self.device, transport)?;
        }
        if travelling {
            // SAFETY: the first group was sent, unless there are no messages; nothing writes the buffers before the next
            // start, or the cells that are sent from fields while these are in flight; the halo cells are in flight, and
            // if their memory is borrowed, it is borrowed exclusively.
            complete &= unsafe { self.ways.messages.advance(&lane, finishing)? };
        }
        if complete {
            self.holds.late_copies = None;
            if gated {
                self.end.remote_writes.flush(&self.device)?;
            }
            self.state = if gated { PartState::Idle } else { PartState::Arrived };
            self.end.is_in_stream = false;
            self.open_gate();
            self.holds.deferred_frees = None;
        }
        Ok(complete)
    }

    /// The waiting caller leaves its core to the copies; on a CPU device it even helps with them.
    fn wait_for_device(&self) -> Result<(), DeviceError> {
        if self.is_gated() {
            return Ok(());
        }
        let _attached = if self.end.transport_uses_device { Some(self.device.attach()?) } else { None };
        match self.state {
            PartState::Packing { .. } => self.ways.messages.wait_for_packing(&self.device),
            PartState::Travelling if !self.ways.messages.are_sent() => {
                self.ways.messages.wait_for_packing(&self.device)
            }
            PartState::Travelling => self.ways.windows.wait_for_copies(&self.device),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        if self.state == PartState::Idle {
            // The end is in the stream already, behind a gate that has been opened meanwhile.
            return Ok(());
        }
        if self.course == Course::OwnStream {
            // All is done: this only orders what the caller puts into its stream.
            if let Some(on) = schedule.stream(&self.device) {
                self.end_in(&on)?;
            }
            self.state = PartState::Idle;
            return Ok(());
        }
        let _attached = self.device.attach()?;
        self.check_stream(schedule)?;
        let stream = schedule.stream(&self.device);
        let on = stream.as_ref().unwrap_or(self.streams.now());
        if stream.is_some() {
            // WAIT: the caller's stream follows copies of the exchange's stream.
            self.wait_for_copies(on)?;
        }
        let lane = lane!(self, on, transport);
        // What a network adapter has written is visible to work that is put into a stream after its arrival.
        // SAFETY: all messages have arrived; the fields are borrowed exclusively through the exchange until here, and
        // afterwards the order in `on`, and access from the host, which waits, keep others away.
        let unpacking = unsafe { self.ways.messages.finish(&lane) }.and_then(|()| {
            if let Some(exchange) = &self.ways.stream_messages {
                // SAFETY: as above; the next exchange waits for this unpacking.
                unsafe { exchange.finish(&lane)? };
            }
            self.ways.windows.finish(&lane!(self, self.streams.now(), transport))
        });
        // Also after an error: memory of what is in the stream already is kept until it is done.
        self.points.ends_in_stream = stream.is_some();
        let recorded = self.device.record(&self.points.unpacked.events[self.round], on);
        unpacking?;
        recorded?;
        if stream.is_none() {
            // WAIT: the host waits for unpacking if finish blocks.
            self.trace.wait("finish", || self.device.host_wait(&self.points.unpacked.events[self.round]))?;
        }
        self.state = PartState::Idle;
        Ok(())
    }

    fn is_asynchronous(&self) -> bool {
        true
    }

    fn finish_behind_gate(
        &mut self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
    ) -> Result<(), ExchangeError> {
        let in_flight = matches!(self.state, PartState::Packing { .. } | PartState::Travelling);
        let Some(on) = schedule.stream(&self.device).filter(|_| in_flight) else { return Ok(()) };
        let _attached = self.device.attach()?;
        if self.course == Course::OwnStream {
            self.end_in(&on)?;
            self.end.is_in_stream = true;
            return Ok(());
        }
        self.check_stream(schedule)?;
        if self.course == Course::UnpackedInFinish {
            self.put_unpacking(&on, transport)?;
            self.end.is_in_stream = true;
            return Ok(());
        }
        // Other ranks put their work into the default stream and into queues of the hardware, too.
        let shared_queues = self.device.info().shared_queues;
        if (shared_queues || self.device.is_default(&on)) && self.holds.user.has_others()
            || shared_queues && self.holds.user.has_late_copies()
        {
            return Ok(());
        }
        self.trace.prepare_row(&self.device, &on);
        if self.device.gates().is_none() || !self.end.remote_writes.allow_gates() {
            return Ok(());
        }
        self.defer_frees();
        let Some(gates) = self.device.gates() else { return Ok(()) };
        // WAIT: unpacking waits behind its gate for messages.
        let gate = match gates.gate(&on) {
            // This stream cannot have gates.
            Err(DeviceError::Unsupported { .. }) => return Ok(()),
            gate => gate?,
        };
        // Chunks that have arrived are unpacked in our stream. The others are behind the gate, too: in our stream they
        // could come behind work that waits for the gate.
        self.end.gate = Some(gate);
        // After an error the gate opens once the exchange is given up.
        Ok(self.put_unpacking(&on, transport)?)
    }

    fn is_gated(&self) -> bool {
        self.end.gate.is_some() || self.end.is_in_stream
    }

    fn is_packing(&self) -> bool {
        let in_flight = matches!(self.state, PartState::Packing { .. } | PartState::Travelling);
        let in_streams = match (&self.ways.stream_messages, &self.ways.words) {
            // The stream gets to the windows after these messages.
            (Some(exchange), _) if !exchange.is_over() => exchange.is_on_device(&self.device),
            (_, Some(windows)) => windows.is_on_device(self.round),
            _ => false,
        };
        in_flight && (in_streams || self.course.is_hosted() && !self.ways.messages.are_sent())
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.points.unpacked.wait()
    }

    fn place(&mut self, bases: &[Pointer]) {
        self.bases.clear();
        self.bases.extend_from_slice(bases);
    }

    fn writes(&self, storage: &Storage) {
        storage.written_by(&self.points.unpacked);
    }

    fn missing(&self) -> Vec<(usize, String)> {
        let in_streams = self.ways.words.iter().flat_map(|windows| windows.missing(self.round));
        let in_streams = in_streams.chain(self.ways.stream_messages.iter().flat_map(StreamExchange::missing));
        let hosted = self.ways.messages.missing().into_iter().chain(self.ways.windows.missing());
        each_once(hosted.chain(in_streams))
    }

    fn begin_to_abandon(&mut self, transport: &dyn Transport) {
        if self.state == PartState::Abandoned {
            return;
        }
        self.state = PartState::Abandoned;
        self.holds.late_copies = None;
        self.ways.messages.fail();
        self.ways.windows.fail();
        // Before any call that may wait for the device: a gate, or a word that its stream awaits, would hold it back. Another
        // rank may be in such a call, with the driver's lock.
        self.open_gate();
        // Gates of neighbours may wait for these windows and messages.
        self.ways.windows.shut(transport);
        // First the messages in streams: what the windows' stream does may come behind them.
        if let Some(exchange) = &mut self.ways.stream_messages {
            exchange.fail();
            exchange.stop(&self.device, transport);
        }
        let mut is_left = true;
        if let Some(words) = &mut self.ways.words {
            words.fail();
            is_left = words.stop(&lane!(self, self.streams.now(), transport));
        }
        // On a lost device the thread cannot be attached; the channels are closed all the same. The device may still write the
        // buffers, which the part keeps.
        let _attached = self.device.attach();
        self.ways.messages.close(transport);
        let is_recorded = self.record_end().is_ok();
        self.end.abandoned = Some(Abandoned { is_left, is_recorded });
    }

    fn may_be_abandoned(&self) -> bool {
        let Some(abandoned) = &self.end.abandoned else { return true };
        let _attached = self.device.attach();
        (!abandoned.is_recorded || self.are_streams_done()) && !self.ways.windows.are_being_read()
    }

    fn abandon(&mut self, transport: &dyn Transport) -> bool {
        self.begin_to_abandon(transport);
        let Some(Abandoned { is_left, .. }) = self.end.abandoned.take() else { return true };
        let _attached = self.device.attach();
        // The device must have stopped writing before others may touch the memory. An error is ignored: either it is
        // the reason for abandoning, or the exchange has already failed.
        let _ = self.streams.synchronize(&self.device);
        // The last unpacking may be in a stream of the caller.
        let _ = self.points.unpacked.wait();
        self.holds.deferred_frees = None;
        self.ways.windows.close(transport);
        is_left
    }
}
