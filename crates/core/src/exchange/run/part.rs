//! The part of an exchange whose fields are on one device: what it does in each phase.
//!
//! A bound exchange is a list of parts, each compiled for its device and joined by the small trait [`Part`]. One
//! part runs through these steps:
//!
//! 1. `start` waits (in stream order) for the work before, packs what travels in messages, and copies what the rank
//!    sends to itself. A device that is done when a call returns sends each message before it packs the next. Where the caller
//!    waits anyway, it does this work itself on devices with immediate streams, and so that of `poll` and `finish`.
//! 2. `poll`, called again and again, sends as soon as packing is done, lends windows (on fields, or on what was
//!    packed) to neighbours that share memory, copies from the windows that they lend, and sees messages arrive, which it
//!    unpacks one by one on such a device. It touches library-owned memory only, unless the caller waits in `finish`. Large
//!    messages that are staged are packed, sent and unpacked chunk by chunk.
//! 3. `finish` unpacks what is left, and makes the work after wait (in stream order) for it.
//!
//! Parts of messages may lie in fields: what is sent is read there from when the work before is done until the message is
//! complete, and what is received is written there in the same time. Memory that is merely borrowed is never used so: a
//! forgotten exchange leaves it to its owner while messages are under way.

use std::sync::Arc;

use super::capture::{Recordable, Recorded};
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
    /// Makes progress; `true` once `finish` would not wait for anyone. `finishing`: the caller waits in `finish`, so that
    /// borrowed memory may be touched.
    fn poll(&mut self, transport: &dyn Transport, finishing: bool) -> Result<bool, ExchangeError>;
    fn finish(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError>;
    /// Whether the device goes on working after a call has returned.
    fn is_asynchronous(&self) -> bool;
    /// Puts the end of the exchange into the stream of `schedule` behind a gate, which `poll` opens when `finish` would
    /// not wait for anyone. Does nothing where that cannot be done, so that `finish` is called then. Does not block.
    fn close(&mut self, schedule: &Schedule<'_>, sharing: Sharing) -> Result<(), ExchangeError>;
    /// Whether the gate is closed still.
    fn is_closing(&self) -> bool;
    /// Whether what is sent is not packed yet, or all that came is still being unpacked: neighbours are not what is waited
    /// for.
    fn is_packing(&self) -> bool;
    /// Blocks until the halos of the last exchange are in place.
    fn synchronize(&self) -> Result<(), DeviceError>;
    /// Moves all copies along with the blocks of memory that they are anchored to, which begin at `to` now, and did at
    /// `from`.
    ///
    /// # Safety
    /// No copies of the part are under way.
    unsafe fn relocate(&mut self, from: &[Pointer], to: &[Pointer]) -> Result<(), DeviceError>;
    /// Has access from the host to this memory wait for the part's last exchange from now on.
    fn writes(&self, storage: &Storage);
    /// The neighbours that are still waited for, in words.
    fn missing(&self) -> Vec<String>;
    /// Gives up for ever: afterwards nobody touches the fields any more.
    fn abandon(&mut self, transport: &dyn Transport);
    /// For exchanges that are captured; `None` where they cannot be.
    fn recordable(&mut self) -> Option<&mut dyn Recordable> {
        None
    }
}

/// What streams other ranks of the process may put work into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// None: there are no other ranks.
    Nothing,
    /// The default stream. A gate in it would hold back what another rank has to pack, and wait for that for ever.
    DefaultStream,
}

/// A part on a device of type `D`.
pub(crate) struct DevicePart<D: Device> {
    pub(crate) device: D,
    /// What was captured. Dropped before what it uses.
    pub(crate) recorded: Option<Recorded<D>>,
    /// Packing, copies to oneself and from neighbours run here.
    pub(crate) streams: OwnStreams<D>,
    pub(crate) messages: Messages<D>,
    pub(crate) windows: Windows<D>,
    /// What the rank sends to itself.
    pub(crate) own_cells: CopyList<D>,
    pub(crate) traffic: Traffic,
    /// The number of exchanges that were started, modulo 2.
    pub(crate) round: usize,
    /// The work before `start` on the caller's stream.
    pub(crate) before: D::Event,
    /// All copies on the part's own stream are done.
    pub(crate) moved: D::Event,
    /// Unpacking is done.
    pub(crate) unpacked: Arc<Unpacked<D>>,
    pub(crate) state: PartState,
    /// Opens the gate that holds the end of the exchange back in the caller's stream.
    pub(crate) gate: Option<Gate<D>>,
    pub(crate) trace: PartTrace<D>,
}

/// A gate that is closed.
pub(crate) enum Gate<D: Device> {
    /// One in a stream. It opens when this is dropped, too.
    InStream(Box<dyn FnOnce() + Send>),
    /// That of a captured step, which says by the other flag that it has packed.
    Step { packed: Arc<dyn Flag<D::Stream>>, arrived: Arc<dyn Flag<D::Stream>> },
}

/// How far a part has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartState {
    /// Between exchanges.
    Idle,
    /// The receives are not posted yet, or the packing is not done.
    Packing { receiving: bool },
    /// Sent; some messages or neighbours are missing.
    Travelling,
    /// Everything has arrived.
    Arrived,
    /// Given up.
    Abandoned,
}

/// The stream of a part's own in which the present exchange is, as a [`Lane`]. A macro, since it borrows these fields alone.
macro_rules! own_lane {
    ($part:expr) => {
        Lane { device: &$part.device, stream: $part.streams.now(), trace: &$part.trace }
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
            // SAFETY: the last exchange was unpacked, and the work before is done, as on every device of the host; halo cells
            // are in flight, and the exchange fills each of them once.
            unsafe { self.messages.receive(transport)? };
        }
        // SAFETY: the exchange owns the fields and is borrowed exclusively from here to the end, and no exchange of them is
        // in flight, so nobody else touches the fields; the send buffers are free since the last exchange has completed.
        // Work of the caller is ordered before by `before`.
        unsafe { self.messages.pack(&own_lane!(self), self.round, transport)? };
        self.state = PartState::Packing { receiving };
        // Neighbours can begin while we copy what is our own.
        self.send(transport)?;
        // SAFETY: as for packing; the copies go from owned cells to halo cells, which do not overlap.
        unsafe { self.own_cells.run(&own_lane!(self))? };
        Ok(())
    }

    fn poll(&mut self, transport: &dyn Transport, finishing: bool) -> Result<bool, ExchangeError> {
        // The caller has finished, and nobody will copy later than now.
        let closing = self.gate.is_some();
        if finishing && !closing {
            self.wait_for_device()?;
        }
        self.send(transport)?;
        let travelling = self.state == PartState::Travelling;
        if !travelling && !matches!(self.state, PartState::Packing { .. }) {
            return Ok(true);
        }
        let (lane, finishing) = (own_lane!(self), finishing || closing);
        let mut complete = self.windows.advance(&lane, self.round, transport, finishing)? && travelling;
        if travelling {
            // SAFETY: nobody writes the buffers before the next start; the halo cells are in flight, and borrowed exclusively
            // where they are merely borrowed.
            complete &= unsafe { self.messages.advance(&lane, transport, finishing)? };
        }
        if complete && closing {
            // What is behind the gate does not wait for our stream.
            complete = self.messages.are_chunks_unpacked(&lane)?;
        }
        if complete {
            self.state = if closing { PartState::Idle } else { PartState::Arrived };
            self.open_gate();
        }
        Ok(complete)
    }

    fn finish(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        if self.state == PartState::Idle {
            // Its end is in the stream already, behind a gate that was opened before the caller came here.
            return Ok(());
        }
        let stream = schedule.stream(&self.device);
        let on = stream.as_ref().unwrap_or(self.streams.now());
        if stream.is_some() {
            self.wait_for_copies(on)?;
        }
        let lane = Lane { device: &self.device, stream: on, trace: &self.trace };
        // SAFETY: all messages have arrived; the fields are borrowed exclusively through the exchange until here, and
        // afterwards the order in `on`, and access from the host that waits, keep others away.
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

    fn close(&mut self, schedule: &Schedule<'_>, sharing: Sharing) -> Result<(), ExchangeError> {
        let in_flight = matches!(self.state, PartState::Packing { .. } | PartState::Travelling);
        let Some(on) = schedule.stream(&self.device).filter(|_| in_flight && self.is_asynchronous()) else {
            return Ok(());
        };
        if sharing == Sharing::DefaultStream && on.handle() == self.device.default_stream().handle() {
            return Ok(());
        }
        self.trace.meet(&self.device, &on);
        if !self.device.info().capabilities.gates {
            return Ok(());
        }
        let gate = match self.device.gate(&on) {
            // Not in this stream.
            Err(DeviceError::Unsupported { .. }) => return Ok(()),
            gate => gate?,
        };
        // What the engine copies from here on is done before it opens the gate.
        self.wait_for_copies(&on)?;
        // SAFETY: the gate is opened when all messages have arrived. Where it is opened because the exchange has failed,
        // the halos are unspecified, and memory that the transport may still be writing is kept, as are the buffers
        // until this is done. The order in `on`, and access from the host that waits, keep others away from the fields.
        unsafe { self.messages.unpack(&Lane { device: &self.device, stream: &on, trace: &self.trace })? };
        self.device.record(&self.unpacked.events[self.round], &on)?;
        self.gate = Some(Gate::InStream(gate));
        Ok(())
    }

    fn is_closing(&self) -> bool {
        self.gate.is_some()
    }

    fn is_packing(&self) -> bool {
        let in_flight = matches!(self.state, PartState::Packing { .. } | PartState::Travelling);
        in_flight && self.messages.are_on_device()
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.unpacked.wait()
    }

    unsafe fn relocate(&mut self, from: &[Pointer], to: &[Pointer]) -> Result<(), DeviceError> {
        let lists = self.messages.lists_mut().chain(self.windows.lists_mut()).chain([&mut self.own_cells]);
        // SAFETY: the caller's promise.
        lists
            .map(CopyList::copies_mut)
            .try_for_each(|copies| unsafe { self.device.relocate_copies(copies, from, to) })
    }

    fn writes(&self, storage: &Storage) {
        if self.is_asynchronous() {
            storage.written_by(&self.unpacked);
        }
    }

    fn missing(&self) -> Vec<String> {
        // Chunks of a neighbour are mostly of one length: that is said once.
        self.messages.missing().chain(self.windows.missing()).fold(Vec::new(), |mut told, missing| {
            if !told.contains(&missing) {
                told.push(missing);
            }
            told
        })
    }

    fn abandon(&mut self, transport: &dyn Transport) {
        if self.state == PartState::Abandoned {
            return;
        }
        self.state = PartState::Abandoned;
        self.messages.fail();
        self.windows.fail();
        // No call waits for a device that a gate holds back.
        self.open_gate();
        // The device must have stopped writing before anybody may touch the memory again. Its error, if any, is the
        // cause of the abandoning or is of no more use.
        let _ = self.device.synchronize(self.streams.now());
        // The last unpacking was put on a stream of the caller's.
        let _ = self.unpacked.wait();
        self.windows.close(transport);
        self.messages.close(transport);
    }

    fn recordable(&mut self) -> Option<&mut dyn Recordable> {
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

    /// Lets go on what is held back in the caller's stream.
    pub(crate) fn open_gate(&mut self) {
        match self.gate.take() {
            Some(Gate::InStream(open)) => open(),
            Some(Gate::Step { arrived, .. }) => arrived.set(),
            None => {}
        }
    }

    /// Has later work in `on` wait for the copies that are on our stream now.
    pub(crate) fn wait_for_copies(&self, on: &D::Stream) -> Result<(), DeviceError> {
        self.device.record(&self.moved, self.streams.now())?;
        self.device.stream_wait(on, &self.moved)
    }

    /// Whether what is sent first is packed.
    fn is_packed(&self) -> Result<bool, DeviceError> {
        match &self.gate {
            // A device that has failed sets no flag: it says so when it is asked for the end of the step.
            Some(Gate::Step { packed, .. }) => {
                Ok(packed.is_set() || self.device.query(&self.unpacked.events[self.round])?)
            }
            _ => self.messages.is_packed(&self.device),
        }
    }

    /// Waits for the device where nothing but its copies is missing before others can go on. A caller who waits anyway
    /// leaves its core to them; on devices that are the CPU it even works on them.
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
            // Buffers are ours once they were unpacked; halos once the work before is done, which packing waits for.
            let unpacked = self.device.query(&self.unpacked.events[1 - self.round])?;
            receiving = unpacked && (self.messages.in_place.is_empty() || self.is_packed()?);
            if receiving {
                // SAFETY: the last exchange was unpacked, and the work before this one is done if messages lie in halos;
                // halo cells are in flight, and the exchange fills each of them once.
                unsafe { self.messages.receive(transport)? };
                self.state = PartState::Packing { receiving };
            }
        }
        if !receiving || !self.is_packed()? {
            return Ok(());
        }
        // SAFETY: packing is done, and nobody writes the buffer before the next start, nor what is sent of the fields
        // while they are in flight.
        unsafe { self.messages.send_group(transport)? };
        self.windows.open(self.round, transport)?;
        self.messages.await_all();
        self.state = PartState::Travelling;
        Ok(())
    }
}
