//! The part of an exchange whose fields are on one device: its work in each phase.
//!
//! A bound exchange is a list of parts, each compiled for its device, behind the small trait [`Part`]. A part runs
//! through these phases:
//!
//! 1. `start` waits (in stream order) for the work before, packs the messages, and copies the cells that the rank sends
//!    to itself. A synchronous device with one thread sends each message before it packs the next. If the schedule is
//!    `Blocking` and the device has immediate streams, the caller's thread does this work, and that of `poll` and
//!    `finish`.
//! 2. `poll`, called repeatedly, sends as soon as packing is done, lends windows (on fields, or on packed messages) to
//!    neighbours that share memory, copies from the windows that they lend, and tests messages. On a synchronous device
//!    with one thread it also unpacks each message when it has arrived. It touches borrowed memory only while the
//!    caller waits in `finish`. Large staged messages are packed, sent and unpacked chunk by chunk.
//! 3. `finish` unpacks the rest, and makes the work after wait (in stream order) for it.
//!
//! Stretches of messages may lie in fields: from the end of the work before until the message is complete, the
//! transport reads the cells that it sends there, or writes the cells that it receives. Borrowed memory is never used
//! in this way: if a pending exchange is forgotten, its owner has it back while messages are under way.

use std::sync::Arc;

use super::capture::{Capturable, CapturedSteps};
use super::copy_list::{CopyList, Lane};
use super::messages::Messages;
use super::streams::OwnStreams;
use super::trace::PartTrace;
use super::unpacked::Unpacked;
use super::windows::Windows;
use crate::device::{Device, DeviceError, DeviceId, Flag, Pointer, Stream as _};
use crate::exchange::options::{ExchangeError, Schedule, Traffic};
use crate::field::{LastWrite as _, Storage};
use crate::transport::Transport;

/// One device's share of a bound exchange.
pub(crate) trait Part: Send {
    fn device(&self) -> DeviceId;
    fn traffic(&self) -> Traffic;
    fn start(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError>;
    /// Makes progress; returns `true` once `finish` would not wait for a neighbour. `finishing`: the caller waits in
    /// `finish`, so that borrowed memory may be touched.
    fn poll(&mut self, transport: &dyn Transport, finishing: bool) -> Result<bool, ExchangeError>;
    fn finish(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError>;
    /// Whether the device goes on working after a call has returned.
    fn is_asynchronous(&self) -> bool;
    /// Puts the end of the exchange into the stream of `schedule` behind a gate, which `poll` opens when `finish` would
    /// not wait for a neighbour. If that is not possible, does nothing: the caller then calls `finish`. Does not block.
    fn finish_behind_gate(
        &mut self,
        schedule: &Schedule<'_>,
        shared: SharedStreams,
    ) -> Result<(), ExchangeError>;
    /// Whether a gate is closed.
    fn is_gated(&self) -> bool;
    /// Whether the device is still packing, or unpacking the last chunks: the exchange is not waiting for neighbours.
    fn is_packing(&self) -> bool;
    /// Blocks until the halos of the last exchange are in place.
    fn synchronize(&self) -> Result<(), DeviceError>;
    /// The next exchange finds the blocks of memory to which copies are anchored at `bases`.
    fn place(&mut self, bases: &[Pointer]);
    /// From now on, access to this memory from the host waits for the part's last exchange.
    fn writes(&self, storage: &Storage);
    /// The neighbours that are missing: the rank of each, and in words what is missing of it.
    fn missing(&self) -> Vec<(usize, String)>;
    /// Abandons the part for good: afterwards neither the device nor neighbours touch the fields; those that the
    /// transport may still be using stay marked as in flight.
    fn abandon(&mut self, transport: &dyn Transport);
    /// The part as one that can be captured; `None` if it cannot.
    fn capturable(&mut self) -> Option<&mut dyn Capturable> {
        None
    }
}

/// The streams of a device into which other ranks of the process may put work, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SharedStreams {
    /// There are no other ranks.
    None,
    /// The default stream. A gate in it could hold back the packing of another rank, and so wait for ever for its
    /// message.
    DefaultStream,
}

/// A part on a device of type `D`.
pub(crate) struct DevicePart<D: Device> {
    pub(crate) device: D,
    /// The captured steps. Dropped before the resources that they use.
    pub(crate) captured: Option<CapturedSteps<D>>,
    pub(crate) streams: OwnStreams<D>,
    pub(crate) messages: Messages<D>,
    pub(crate) windows: Windows<D>,
    /// The copies of cells that the rank sends to itself.
    pub(crate) own_cells: CopyList<D>,
    /// The begins of the blocks to which copies are anchored; empty if the addresses are fixed.
    pub(crate) bases: Vec<Pointer>,
    pub(crate) traffic: Traffic,
    /// The number of exchanges that were started, modulo 2.
    pub(crate) round: usize,
    /// The event at which the work before `start` in the caller's stream is done.
    pub(crate) before: D::Event,
    /// The event at which all copies in the part's own stream are done.
    pub(crate) moved: D::Event,
    /// The events at which unpacking is done.
    pub(crate) unpacked: Arc<Unpacked<D>>,
    pub(crate) state: PartState,
    /// The gate that holds back the end of the exchange in the caller's stream.
    pub(crate) gate: Option<Gate<D>>,
    pub(crate) trace: PartTrace<D>,
}

/// A closed gate.
pub(crate) enum Gate<D: Device> {
    /// A gate in a stream. It also opens when this is dropped.
    InStream(Box<dyn FnOnce() + Send>),
    /// The gate of a captured step: `arrived` opens it; the step sets `packed` when it has packed.
    Step { packed: Arc<dyn Flag<D::Stream>>, arrived: Arc<dyn Flag<D::Stream>> },
}

/// The state of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartState {
    /// Between exchanges.
    Idle,
    /// The packing is not done, or the receives are not posted yet; `receiving`: they are posted.
    Packing { receiving: bool },
    /// The first messages are sent; others, or neighbours, are missing.
    Travelling,
    /// Everything has arrived.
    Arrived,
    /// Abandoned for good.
    Abandoned,
}

/// The part's own stream for the current exchange, as a [`Lane`]. A macro, so that it borrows only these fields.
macro_rules! own_lane {
    ($part:expr) => {
        Lane { device: &$part.device, bases: &$part.bases, stream: $part.streams.now(), trace: &$part.trace }
    };
}

impl<D: Device> Part for DevicePart<D> {
    fn device(&self) -> DeviceId {
        self.device.id()
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn start(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        self.begin(schedule)?;
        if let Some(stream) = schedule.stream(&self.device) {
            self.device.record(&self.before, &stream)?;
            self.device.stream_wait(self.streams.now(), &self.before)?;
        }
        let receiving = self.device.info().runs_on_host();
        if receiving {
            // SAFETY: the last exchange was unpacked, and the work before is done, since the device is synchronous;
            // halo cells are in flight, and the exchange fills each of them once.
            unsafe { self.messages.receive(transport)? };
        }
        // SAFETY: the exchange owns the fields and is borrowed exclusively from here to the end, and no exchange of
        // them is in flight, so nobody else touches the fields; the send buffers are free since the last exchange has
        // completed. The event `before` orders the caller's work before this.
        unsafe { self.messages.pack(&own_lane!(self), self.round, transport)? };
        self.state = PartState::Packing { receiving };
        // Neighbours can begin while we copy our own cells.
        self.send(transport)?;
        // SAFETY: as for packing; the copies go from owned cells to halo cells, which do not overlap.
        unsafe { self.own_cells.run(&own_lane!(self))? };
        Ok(())
    }

    fn poll(&mut self, transport: &dyn Transport, finishing: bool) -> Result<bool, ExchangeError> {
        // If there is a gate, the caller has called `finish` already: all remaining copies are done here.
        let gated = self.gate.is_some();
        if finishing && !gated {
            self.wait_for_device()?;
        }
        self.send(transport)?;
        let travelling = self.state == PartState::Travelling;
        if !travelling && !matches!(self.state, PartState::Packing { .. }) {
            return Ok(true);
        }
        let (lane, finishing) = (own_lane!(self), finishing || gated);
        let mut complete = self.windows.advance(&lane, self.round, transport, finishing)? && travelling;
        if travelling {
            // SAFETY: nobody writes the buffers before the next start; the halo cells are in flight, and if their
            // memory is borrowed, it is borrowed exclusively.
            complete &= unsafe { self.messages.advance(&lane, transport, finishing)? };
        }
        if complete && gated {
            // The work behind the gate does not wait for our stream.
            complete = self.messages.are_chunks_unpacked(&lane)?;
        }
        if complete {
            self.state = if gated { PartState::Idle } else { PartState::Arrived };
            self.open_gate();
        }
        Ok(complete)
    }

    fn finish(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        if self.state == PartState::Idle {
            // The end is in the stream already, behind a gate that has been opened meanwhile.
            return Ok(());
        }
        let stream = schedule.stream(&self.device);
        let on = stream.as_ref().unwrap_or(self.streams.now());
        if stream.is_some() {
            self.wait_for_copies(on)?;
        }
        let lane = Lane { device: &self.device, bases: &self.bases, stream: on, trace: &self.trace };
        // SAFETY: all messages have arrived; the fields are borrowed exclusively through the exchange until here, and
        // afterwards the order in `on`, and access from the host, which waits, keep others away.
        unsafe { self.messages.unpack(&lane)? };
        // SAFETY: as above.
        unsafe { self.messages.unpack_rest(&lane)? };
        self.windows.finish(&own_lane!(self), self.round, transport)?;
        self.device.record(&self.unpacked.events[self.round], on)?;
        if stream.is_none() && self.is_asynchronous() {
            self.trace.wait("finish", || self.device.host_wait(&self.unpacked.events[self.round]))?;
        }
        self.state = PartState::Idle;
        Ok(())
    }

    fn is_asynchronous(&self) -> bool {
        self.device.info().asynchronous
    }

    fn finish_behind_gate(
        &mut self,
        schedule: &Schedule<'_>,
        shared: SharedStreams,
    ) -> Result<(), ExchangeError> {
        let in_flight = matches!(self.state, PartState::Packing { .. } | PartState::Travelling);
        let Some(on) = schedule.stream(&self.device).filter(|_| in_flight && self.is_asynchronous()) else {
            return Ok(());
        };
        if shared == SharedStreams::DefaultStream && on.handle() == self.device.default_stream().handle() {
            return Ok(());
        }
        self.trace.prepare_row(&self.device, &on);
        if !self.device.info().capabilities.gates {
            return Ok(());
        }
        let gate = match self.device.gate(&on) {
            // This stream cannot have gates.
            Err(DeviceError::Unsupported { .. }) => return Ok(()),
            gate => gate?,
        };
        // Copies that the engine starts later are done before it opens the gate.
        self.wait_for_copies(&on)?;
        let lane = Lane { device: &self.device, bases: &self.bases, stream: &on, trace: &self.trace };
        // SAFETY: the gate is opened when all messages have arrived. If it is opened because the exchange has failed,
        // the halos are unspecified, and memory that the transport may still be writing is kept, as are the buffers
        // until this is done. The order in `on`, and access from the host, which waits, keep others away from the
        // fields.
        unsafe { self.messages.unpack(&lane)? };
        self.device.record(&self.unpacked.events[self.round], &on)?;
        self.gate = Some(Gate::InStream(gate));
        Ok(())
    }

    fn is_gated(&self) -> bool {
        self.gate.is_some()
    }

    fn is_packing(&self) -> bool {
        let in_flight = matches!(self.state, PartState::Packing { .. } | PartState::Travelling);
        in_flight && self.messages.are_on_device()
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.unpacked.wait()
    }

    fn place(&mut self, bases: &[Pointer]) {
        self.bases.clear();
        self.bases.extend_from_slice(bases);
    }

    fn writes(&self, storage: &Storage) {
        if self.is_asynchronous() {
            storage.written_by(&self.unpacked);
        }
    }

    fn missing(&self) -> Vec<(usize, String)> {
        // The chunks of a neighbour mostly have the same size and text, which is listed once.
        self.messages.missing().chain(self.windows.missing()).fold(Vec::new(), |mut texts, missing| {
            if !texts.contains(&missing) {
                texts.push(missing);
            }
            texts
        })
    }

    fn abandon(&mut self, transport: &dyn Transport) {
        if self.state == PartState::Abandoned {
            return;
        }
        self.state = PartState::Abandoned;
        self.messages.fail();
        self.windows.fail();
        // Before waiting for the device: a gate would hold it back.
        self.open_gate();
        // The device must have stopped writing before others may touch the memory. An error is ignored: either it is
        // the reason for abandoning, or the exchange has already failed.
        let _ = self.device.synchronize(self.streams.now());
        // The last unpacking may be in a stream of the caller.
        let _ = self.unpacked.wait();
        self.windows.close(transport);
        self.messages.close(transport);
    }

    fn capturable(&mut self) -> Option<&mut dyn Capturable> {
        Some(self)
    }
}

impl<D: Device> DevicePart<D> {
    /// Begins the next exchange.
    pub(crate) fn begin(&mut self, schedule: &Schedule<'_>) -> Result<(), DeviceError> {
        self.messages.begin();
        self.windows.begin();
        self.round ^= 1;
        self.streams.choose(&self.device, schedule)
    }

    /// Opens the gate in the caller's stream, if there is one.
    pub(crate) fn open_gate(&mut self) {
        match self.gate.take() {
            Some(Gate::InStream(open)) => open(),
            Some(Gate::Step { arrived, .. }) => arrived.set(),
            None => {}
        }
    }

    /// Makes later work in `on` wait for the copies that are in our stream now.
    pub(crate) fn wait_for_copies(&self, on: &D::Stream) -> Result<(), DeviceError> {
        self.device.record(&self.moved, self.streams.now())?;
        self.device.stream_wait(on, &self.moved)
    }

    /// Whether the messages that are sent first are packed.
    fn is_packed(&self) -> Result<bool, DeviceError> {
        match &self.gate {
            // A device that has failed does not set the flag: the query for the end of the step returns its error.
            Some(Gate::Step { packed, .. }) => {
                Ok(packed.is_set() || self.device.query(&self.unpacked.events[self.round])?)
            }
            _ => self.messages.is_packed(&self.device),
        }
    }

    /// Waits for the device if nothing but its copies is missing before neighbours can go on. The waiting caller leaves
    /// its core to these copies; on a CPU device it even helps with them.
    fn wait_for_device(&self) -> Result<(), DeviceError> {
        match self.state {
            PartState::Packing { .. } => self.messages.wait_for_packing(&self.device),
            PartState::Travelling if !self.messages.are_sent() => {
                self.messages.wait_for_packing(&self.device)
            }
            PartState::Travelling => self.windows.wait_for_copies(&self.device),
            _ => Ok(()),
        }
    }

    /// Posts receives, sends the first messages and lends the windows, as soon as each may be done. Does nothing later.
    fn send(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        let PartState::Packing { mut receiving } = self.state else { return Ok(()) };
        if !receiving {
            // The buffers are free once unpacked; the halos once the work before is done, for which packing waits.
            let unpacked = self.device.query(&self.unpacked.events[1 - self.round])?;
            receiving = unpacked && (self.messages.in_place.is_empty() || self.is_packed()?);
            if receiving {
                // SAFETY: the last exchange was unpacked, and the work before this one is done if messages lie in
                // halos; halo cells are in flight, and the exchange fills each of them once.
                unsafe { self.messages.receive(transport)? };
                self.state = PartState::Packing { receiving };
            }
        }
        if !receiving || !self.is_packed()? {
            return Ok(());
        }
        // SAFETY: packing is done. Nobody writes the buffer before the next start, or the cells that are sent from
        // fields while these are in flight.
        unsafe { self.messages.send_group(transport)? };
        self.windows.open(self.round, transport)?;
        self.messages.trace_receives();
        self.state = PartState::Travelling;
        Ok(())
    }
}
