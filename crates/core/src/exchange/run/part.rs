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
//!
//! In each phase the thread is [attached](Device::attach) to the device, also for the transport, which may move memory of
//! the device. Code of the caller runs in none of them.

use std::sync::Arc;

use super::capture::{Capturable, CapturedSteps};
use super::copy_list::{CopyList, Lane};
use super::deferred_frees::DeferredFrees;
use super::device_user::{DeviceUser, LateCopies};
use super::mark::{Mark, Patience};
use super::messages::Messages;
use super::remote_writes::RemoteWrites;
use super::stream_messages::StreamExchange;
use super::stream_windows::StreamWindows;
use super::streams::OwnStreams;
use super::trace::PartTrace;
use super::unpacked::Unpacked;
use super::windows::Windows;
use crate::device::{Attached, Device, DeviceError, DeviceId, Flag, Pointer, Stream as _};
use crate::exchange::options::{ExchangeError, Schedule, Traffic};
use crate::field::{LastWrite as _, Storage};
use crate::transport::Transport;

/// One device's share of a bound exchange.
pub(crate) trait Part: Send {
    fn device(&self) -> DeviceId;
    fn traffic(&self) -> Traffic;
    /// Whether `schedule` says in which stream of an asynchronous device an exchange begins or ends.
    fn is_ordered_by(&self, schedule: &Schedule<'_>) -> bool;
    /// An error if an exchange cannot begin or end in the stream of `schedule`, because it is being captured.
    fn check_stream(&self, schedule: &Schedule<'_>) -> Result<(), DeviceError>;
    /// `watched`: a thread polls the exchange until it ends, so that streams may wait for neighbours.
    fn start(
        &mut self,
        transport: &dyn Transport,
        schedule: &Schedule<'_>,
        watched: bool,
    ) -> Result<(), ExchangeError>;
    /// Attaches the thread to the device, for several calls.
    fn attach(&self) -> Result<Attached, DeviceError>;
    /// Makes progress; returns `true` once `finish` would not wait for a neighbour. `finishing`: the caller waits in
    /// `finish`, so that borrowed memory may be touched.
    fn poll(&mut self, transport: &dyn Transport, finishing: bool) -> Result<bool, ExchangeError>;
    fn finish(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError>;
    /// Whether the device goes on working after a call has returned.
    fn is_asynchronous(&self) -> bool;
    /// Puts the end of the exchange into the stream of `schedule` behind a gate, which `poll` opens when `finish` would
    /// not wait for a neighbour. If that is not possible, does nothing: the caller then calls `finish`. Does not block.
    fn finish_behind_gate(&mut self, schedule: &Schedule<'_>) -> Result<(), ExchangeError>;
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
    /// transport may still be using stay marked as in flight. Returns `false` if a neighbour in another process, which
    /// does not answer, may still write into the fields.
    fn abandon(&mut self, transport: &dyn Transport) -> bool;
    /// The part as one that can be captured; `None` if it cannot.
    fn capturable(&mut self) -> Option<&mut dyn Capturable> {
        None
    }
}

/// A part on a device of type `D`.
pub(crate) struct DevicePart<D: Device> {
    pub(crate) device: D,
    /// The captured steps. Dropped before the resources that they use.
    pub(crate) captured: Option<CapturedSteps<D>>,
    pub(crate) streams: OwnStreams<D>,
    pub(crate) messages: Messages<D>,
    pub(crate) windows: Windows<D>,
    pub(crate) stream_windows: Option<StreamWindows<D>>,
    pub(crate) stream_exchange: Option<StreamExchange<D>>,
    /// The caller's stream waits for the end of the exchange in the part's own stream, where nothing waits for the host.
    pub(crate) ends_in_stream: bool,
    /// The copies of cells that the rank sends to itself.
    pub(crate) own_cells: CopyList<D>,
    /// The begins of the blocks to which copies are anchored; empty if the addresses are fixed.
    pub(crate) bases: Vec<Pointer>,
    pub(crate) traffic: Traffic,
    /// The number of exchanges that were started, modulo 2.
    pub(crate) round: usize,
    /// The event at which the work before `start` in the caller's stream is done.
    pub(crate) before: D::Event,
    /// On a device with words for streams, the point at which the work before is done, and the last exchange is unpacked.
    pub(crate) begun: Option<Mark<D>>,
    /// The handle of the stream that the last exchange was unpacked in, if the host has not waited for it.
    pub(crate) finished_on: Option<usize>,
    /// The event at which all copies in the part's own stream are done.
    pub(crate) moved: D::Event,
    /// The events at which unpacking is done.
    pub(crate) unpacked: Arc<Unpacked<D>>,
    pub(crate) state: PartState,
    /// Whether the transport moves memory of the device itself, and so needs the thread attached.
    pub(crate) transport_uses_device: bool,
    pub(crate) remote_writes: RemoteWrites,
    /// The gate that holds back the end of the exchange in the caller's stream.
    pub(crate) gate: Option<Gate<D>>,
    pub(crate) trace: PartTrace<D>,
    /// Dropped after the resources above.
    pub(crate) user: DeviceUser,
    /// Until neighbours have the copies that the host puts into the stream in this exchange.
    pub(crate) late_copies: Option<LateCopies>,
    /// Until no stream waits for neighbours in this exchange.
    pub(crate) deferred_frees: Option<DeferredFrees<D>>,
}

/// A closed gate.
pub(crate) enum Gate<D: Device> {
    /// A gate in a stream. It also opens when this is dropped.
    InStream(Box<dyn FnOnce() + Send>),
    /// The gate of a captured step: `arrived` opens it; the step sets `packed` when it has packed.
    Step { packed: Arc<dyn Flag<D::Stream>>, arrived: Arc<dyn Flag<D::Stream>>, patience: Patience },
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

    fn attach(&self) -> Result<Attached, DeviceError> {
        self.device.attach()
    }

    fn is_ordered_by(&self, schedule: &Schedule<'_>) -> bool {
        schedule.orders(&self.device)
    }

    fn check_stream(&self, schedule: &Schedule<'_>) -> Result<(), DeviceError> {
        let stream = schedule.stream(&self.device).filter(|_| self.is_asynchronous());
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
            self.device.record(&self.before, stream)?;
            // WAIT: packing follows the caller's work.
            self.device.stream_wait(self.streams.now(), &self.before)?;
        }
        if let Some(begun) = self.begun.as_ref().filter(|_| self.messages.are_received()) {
            self.wait_for_last_unpacking(stream.as_ref())?;
            begun.record(&self.device, self.streams.now())?;
        }
        let shared_queues = self.device.info().shared_queues;
        let may_hold_back = shared_queues && (self.user.has_others() || self.user.has_late_copies());
        let awaits_on_host = stream.is_none() || !watched || may_hold_back;
        if shared_queues && (!self.windows.are_none() || self.stream_windows.is_some() && awaits_on_host) {
            self.late_copies = Some(LateCopies::new(self.device.id()));
        }
        if self.stream_windows.is_some() && !awaits_on_host || self.stream_exchange.is_some() {
            self.defer_frees();
        }
        if self.is_done_by_streams() {
            // First: what tells the host that all is done comes last.
            // SAFETY: as below.
            unsafe { self.own_cells.run(&own_lane!(self))? };
            self.start_stream_exchange(stream.as_ref(), transport)?;
            if let Some(windows) = &mut self.stream_windows {
                // SAFETY: as for packing, below, and as for copying own cells.
                unsafe { windows.start(&own_lane!(self), self.round, awaits_on_host)? };
            }
            if self.is_in_own_stream() {
                self.device.record(&self.unpacked.events[self.round], self.streams.now())?;
            }
            self.state = PartState::Travelling;
            return Ok(());
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
        unsafe { self.messages.pack(&own_lane!(self), self.streams.moves(), self.round, transport)? };
        self.state = PartState::Packing { receiving };
        // Neighbours can begin while we copy our own cells.
        self.send(transport)?;
        // SAFETY: as for packing; the copies go from owned cells to halo cells, which do not overlap.
        unsafe { self.own_cells.run(&own_lane!(self))? };
        self.start_stream_exchange(stream.as_ref(), transport)?;
        if let Some(windows) = &mut self.stream_windows {
            // Last, since the stream may wait for neighbours here.
            // SAFETY: as for packing, and as for copying own cells.
            unsafe { windows.start(&own_lane!(self), self.round, awaits_on_host)? };
        }
        Ok(())
    }

    fn poll(&mut self, transport: &dyn Transport, finishing: bool) -> Result<bool, ExchangeError> {
        // While a gate is closed or streams wait for neighbours, no call of the driver is made without need.
        let _attached = if self.transport_uses_device { Some(self.device.attach()?) } else { None };
        // If there is a gate, the caller has called `finish` already: all remaining copies are done here.
        let gated = self.gate.is_some() || self.ends_in_stream;
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
        if let Some(windows) = &mut self.stream_windows {
            complete &= windows.advance(&lane, self.round)?;
        }
        if let Some(exchange) = &mut self.stream_exchange {
            complete &= exchange.advance(&self.device, transport)?;
        }
        if travelling {
            // SAFETY: nobody writes the buffers before the next start; the halo cells are in flight, and if their
            // memory is borrowed, it is borrowed exclusively.
            complete &= unsafe { self.messages.advance(&lane, transport, finishing)? };
        }
        if complete {
            self.late_copies = None;
            if gated {
                self.remote_writes.flush(&self.device)?;
            }
            self.state = if gated { PartState::Idle } else { PartState::Arrived };
            self.ends_in_stream = false;
            self.open_gate();
            self.deferred_frees = None;
        }
        Ok(complete)
    }

    fn finish(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        if self.state == PartState::Idle {
            // The end is in the stream already, behind a gate that has been opened meanwhile.
            return Ok(());
        }
        if self.is_in_own_stream() {
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
        let lane = Lane { device: &self.device, bases: &self.bases, stream: on, trace: &self.trace };
        // What a network adapter has written is visible to work that is put into a stream after its arrival.
        // SAFETY: all messages have arrived; the fields are borrowed exclusively through the exchange until here, and
        // afterwards the order in `on`, and access from the host, which waits, keep others away.
        unsafe { self.messages.unpack(&lane)? };
        // SAFETY: as above.
        unsafe { self.messages.unpack_rest(&lane)? };
        if let Some(exchange) = &self.stream_exchange {
            // SAFETY: as above.
            unsafe { exchange.finish(&lane)? };
        }
        self.windows.finish(&own_lane!(self), self.round, transport)?;
        self.device.record(&self.unpacked.events[self.round], on)?;
        self.finished_on = stream.as_ref().map(D::Stream::handle);
        if stream.is_none() && self.is_asynchronous() {
            // WAIT: the host waits for unpacking if finish blocks.
            self.trace.wait("finish", || self.device.host_wait(&self.unpacked.events[self.round]))?;
        }
        self.state = PartState::Idle;
        Ok(())
    }

    fn is_asynchronous(&self) -> bool {
        self.device.info().asynchronous
    }

    fn finish_behind_gate(&mut self, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        let in_flight = matches!(self.state, PartState::Packing { .. } | PartState::Travelling);
        let Some(on) = schedule.stream(&self.device).filter(|_| in_flight && self.is_asynchronous()) else {
            return Ok(());
        };
        let _attached = self.device.attach()?;
        if self.is_in_own_stream() {
            self.end_in(&on)?;
            self.ends_in_stream = true;
            return Ok(());
        }
        self.check_stream(schedule)?;
        if self.is_done_by_streams() && self.awaits_in_stream() {
            self.put_unpacking(&on)?;
            self.ends_in_stream = true;
            return Ok(());
        }
        // Other ranks put their work into the default stream and into queues of the hardware, too.
        let shared_queues = self.device.info().shared_queues;
        if (shared_queues || self.device.is_default(&on)) && self.user.has_others()
            || shared_queues && self.user.has_late_copies()
        {
            return Ok(());
        }
        self.trace.prepare_row(&self.device, &on);
        if !self.device.info().capabilities.gates || !self.remote_writes.allow_gates() {
            return Ok(());
        }
        self.defer_frees();
        // WAIT: unpacking waits behind its gate for messages.
        let gate = match self.device.gate(&on) {
            // This stream cannot have gates.
            Err(DeviceError::Unsupported { .. }) => return Ok(()),
            gate => gate?,
        };
        // Chunks that have arrived are unpacked in our stream. The others are behind the gate, too: in our stream they
        // could come behind work that waits for the gate.
        self.put_unpacking(&on)?;
        self.gate = Some(Gate::InStream(gate));
        Ok(())
    }

    fn is_gated(&self) -> bool {
        self.gate.is_some() || self.ends_in_stream
    }

    fn is_packing(&self) -> bool {
        let in_flight = matches!(self.state, PartState::Packing { .. } | PartState::Travelling);
        let in_streams = match (&self.stream_exchange, &self.stream_windows) {
            // The stream gets to the windows after these messages.
            (Some(exchange), _) if !exchange.is_over() => exchange.is_on_device(&self.device),
            (_, Some(windows)) => windows.is_on_device(self.round),
            _ => false,
        };
        in_flight && (in_streams || !self.is_done_by_streams() && !self.messages.are_sent())
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
        let in_streams = self.stream_windows.iter().flat_map(|windows| windows.missing(self.round));
        let in_streams = in_streams.chain(self.stream_exchange.iter().flat_map(StreamExchange::missing));
        // The chunks of a neighbour mostly have the same size and text, which is listed once.
        self.messages.missing().chain(self.windows.missing()).chain(in_streams).fold(
            Vec::new(),
            |mut texts, missing| {
                if !texts.contains(&missing) {
                    texts.push(missing);
                }
                texts
            },
        )
    }

    fn abandon(&mut self, transport: &dyn Transport) -> bool {
        if self.state == PartState::Abandoned {
            return true;
        }
        self.state = PartState::Abandoned;
        self.late_copies = None;
        self.messages.fail();
        self.windows.fail();
        // Before any call that may wait for the device: a gate, or a word that its stream awaits, would hold it back. Another
        // rank may be in such a call, with the driver's lock.
        self.open_gate();
        // First the messages in streams: what the windows' stream does may come behind them.
        if let Some(exchange) = &mut self.stream_exchange {
            exchange.fail();
            exchange.stop(&self.device, transport);
        }
        let mut is_left = true;
        if let Some(windows) = &mut self.stream_windows {
            windows.fail();
            is_left = windows.stop(&self.device, self.streams.now(), self.round, transport);
        }
        // On a lost device the thread cannot be attached; the channels are closed all the same.
        let _attached = self.device.attach();
        // The device must have stopped writing before others may touch the memory. An error is ignored: either it is
        // the reason for abandoning, or the exchange has already failed.
        let _ = self.streams.synchronize(&self.device);
        // The last unpacking may be in a stream of the caller.
        let _ = self.unpacked.wait();
        self.deferred_frees = None;
        self.windows.close(transport);
        self.messages.close(transport);
        is_left
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

    /// Whether streams do the whole exchange with neighbours: no message of the transport, no window that hosts hand over.
    pub(crate) fn is_done_by_streams(&self) -> bool {
        let by_streams = self.stream_windows.is_some() || self.stream_exchange.is_some();
        by_streams && self.messages.are_none() && self.windows.are_none()
    }

    /// Whether all of the current exchange was put into the part's own stream by `start`.
    fn is_in_own_stream(&self) -> bool {
        let only_in_finish = self.stream_exchange.as_ref().is_some_and(|exchange| exchange.only_in_finish);
        self.awaits_in_stream() && self.is_done_by_streams() && !only_in_finish
    }

    /// Whether no number of a neighbour is awaited on the host.
    fn awaits_in_stream(&self) -> bool {
        self.stream_windows.as_ref().is_none_or(|windows| !windows.awaits_on_host())
    }

    /// Puts the messages that streams exchange into the part's own stream, ordered after the work before `start` in the
    /// caller's `stream`. They come before what waits for neighbours' windows there, on all ranks: otherwise these could
    /// wait for each other.
    fn start_stream_exchange(
        &mut self,
        stream: Option<&D::Stream>,
        transport: &dyn Transport,
    ) -> Result<(), ExchangeError> {
        if self.stream_exchange.as_ref().is_some_and(|exchange| exchange.only_in_finish) {
            self.wait_for_last_unpacking(stream)?;
        }
        let Some(exchange) = &mut self.stream_exchange else { return Ok(()) };
        // SAFETY: as for packing and for copying own cells in `start`. The messages of the last exchange are unpacked
        // before this.
        unsafe { exchange.start(&own_lane!(self), transport) }
    }

    /// Makes later work in the part's own stream wait for the unpacking of the last exchange, unless that comes before in
    /// the caller's stream `on`.
    fn wait_for_last_unpacking(&self, on: Option<&D::Stream>) -> Result<(), DeviceError> {
        if self.finished_on.is_none() || self.finished_on == on.map(D::Stream::handle) {
            return Ok(());
        }
        // WAIT: the next exchange follows the last unpacking in another stream.
        self.device.stream_wait(self.streams.now(), &self.unpacked.events[1 - self.round])
    }

    /// Puts the unpacking into the caller's `stream`, behind a gate or behind the arrival of messages in the part's own
    /// stream, and in any case behind the copies there.
    fn put_unpacking(&mut self, stream: &D::Stream) -> Result<(), DeviceError> {
        // WAIT: unpacking behind a gate follows copies of the exchange's stream.
        self.wait_for_copies(stream)?;
        let lane = Lane { device: &self.device, bases: &self.bases, stream, trace: &self.trace };
        // SAFETY: the gate is opened when all messages have arrived. If it is opened because the exchange has failed,
        // the halos are unspecified, and memory that the transport may still be writing is kept, as are the buffers
        // until this is done. The order in `on`, and access from the host, which waits, keep others away from the
        // fields. The same holds for messages in streams, and for groups of them that are aborted.
        unsafe { self.messages.unpack_in_stream(&lane)? };
        if let Some(exchange) = &self.stream_exchange {
            // SAFETY: as above.
            unsafe { exchange.finish(&lane)? };
        }
        self.device.record(&self.unpacked.events[self.round], stream)?;
        self.finished_on = Some(stream.handle());
        Ok(())
    }

    /// Makes later work in `on` wait for the end of an exchange in the part's own stream. If `on` is being captured, the
    /// driver refuses that.
    fn end_in(&mut self, on: &D::Stream) -> Result<(), DeviceError> {
        self.finished_on = Some(on.handle());
        // WAIT: the caller's stream follows an exchange by words.
        self.device.stream_wait(on, &self.unpacked.events[self.round])
    }

    /// Frees no memory of the device until the exchange has ended, unless it is so already.
    pub(crate) fn defer_frees(&mut self) {
        self.deferred_frees.get_or_insert_with(|| DeferredFrees::new(&self.device));
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
            // A device that has failed does not set the flag: asking for any event returns its error.
            Some(Gate::Step { packed, patience, .. }) => {
                if !packed.is_set() && patience.is_over() {
                    self.device.query(&self.unpacked.events[self.round])?;
                }
                Ok(packed.is_set())
            }
            _ => self.messages.is_packed(&self.device),
        }
    }

    /// Whether the last exchange is unpacked.
    fn is_last_unpacked(&self) -> Result<bool, DeviceError> {
        match (&self.gate, &self.begun) {
            _ if !self.messages.are_received() => Ok(true),
            // The step before, in the same stream, has ended when this one has packed.
            (Some(Gate::Step { .. }), Some(_)) => self.is_packed(),
            (_, Some(begun)) => begun.is_reached(&self.device),
            (_, None) => self.device.query(&self.unpacked.events[1 - self.round]),
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
            let unpacked = self.is_last_unpacked()?;
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
