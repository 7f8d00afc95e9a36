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

use super::buffers::Buffers;
use super::capture::{Recordable, Recorded};
use super::groups::Groups;
use super::message::{Incoming, Kept, Outgoing};
use super::streams::OwnStreams;
use super::trace::PartTrace;
use super::unpacked::Unpacked;
use super::windows::{Borrowed, Lent};
use crate::device::{Device, DeviceError, DeviceId, Flag, Pointer, Stream as _};
use crate::exchange::options::{ExchangeError, Schedule, Traffic};
use crate::field::{LastWrite as _, Storage};
use crate::trace;
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
    /// One list, or one for the even exchanges and one for the odd ones.
    pub(crate) pack: Vec<D::Copies>,
    pub(crate) local: D::Copies,
    pub(crate) unpack: D::Copies,
    pub(crate) sends: Vec<Outgoing<D>>,
    pub(crate) receives: Vec<Incoming<D>>,
    /// Chunks of messages after the first ones.
    pub(crate) groups: Groups<D>,
    /// Windows lent to neighbours.
    pub(crate) lent: Vec<Lent>,
    /// Windows borrowed from neighbours.
    pub(crate) borrowed: Vec<Borrowed<D>>,
    /// Owns the memory of all messages that do not lie in fields.
    pub(crate) buffers: Arc<Buffers<D>>,
    /// The fields that messages lie in.
    pub(crate) in_place: Vec<Arc<Storage>>,
    pub(crate) traffic: Traffic,
    /// The number of exchanges that were started, modulo 2.
    pub(crate) round: usize,
    /// The work before `start` on the caller's stream.
    pub(crate) before: D::Event,
    /// Packing is done.
    pub(crate) packed: D::Event,
    /// All copies on `stream` are done.
    pub(crate) moved: D::Event,
    /// Unpacking is done.
    pub(crate) unpacked: Arc<Unpacked<D>>,
    pub(crate) phase: Phase,
    /// Opens the gate that holds the end of the exchange back in the caller's stream.
    pub(crate) gate: Option<Gate<D>>,
    pub(crate) trace: PartTrace<D>,
    /// What `pack`, `local` and `unpack` move.
    pub(crate) bytes: Bytes,
}

/// How many bytes each list of copies of a part moves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) packed: usize,
    pub(crate) local: usize,
    pub(crate) unpacked: usize,
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
pub(crate) enum Phase {
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

impl<D: Device> Part for DevicePart<D> {
    fn device(&self) -> DeviceId {
        self.device.id()
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn start(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        self.sends.iter_mut().for_each(Outgoing::begin);
        self.receives.iter_mut().for_each(Incoming::begin);
        self.round ^= 1;
        self.lent.iter_mut().for_each(Lent::begin);
        self.borrowed.iter_mut().for_each(Borrowed::begin);
        self.streams.choose(&self.device, schedule)?;
        if let Some(stream) = schedule.stream(&self.device) {
            self.device.record(&self.before, &stream)?;
            self.device.stream_wait(self.streams.now(), &self.before)?;
        }
        let receiving = self.device.info().runs_on_host();
        if receiving {
            self.receive(transport)?;
        }
        for message in &mut self.sends {
            // SAFETY: as for packing below.
            unsafe { message.pack_and_send(&self.device, self.streams.now(), transport, &self.trace)? };
        }
        let packing = (trace::Phase::Packing, "pack", self.bytes.packed);
        self.trace.time(packing, &self.device, self.streams.now(), || -> Result<(), ExchangeError> {
            // SAFETY: the exchange owns the fields and is borrowed exclusively from here to the end, and no exchange of
            // them is in flight, so nobody else touches the fields; the send buffers are free since the last exchange
            // has completed. Work of the caller is ordered before by `before`.
            unsafe { self.device.run_copies(&self.pack[self.round % self.pack.len()], self.streams.now())? };
            // SAFETY: as for packing.
            unsafe { self.buffers.bring_to_wire(&self.device, self.streams.now())? };
            Ok(())
        })?;
        self.device.record(&self.packed, self.streams.now())?;
        // SAFETY: as for packing.
        unsafe { self.groups.pack(&self.device, self.streams.now(), &self.trace)? };
        self.phase = Phase::Packing { receiving };
        // Neighbours can begin while we copy what is our own.
        self.send(transport)?;
        let copying = (trace::Phase::Unpacking, "copy own cells", self.bytes.local);
        // SAFETY: as for packing; the copies go from owned cells to halo cells, which do not overlap.
        let copy = || unsafe { self.device.run_copies(&self.local, self.streams.now()) };
        self.trace.time(copying, &self.device, self.streams.now(), copy)?;
        Ok(())
    }

    fn poll(&mut self, transport: &dyn Transport, finishing: bool) -> Result<bool, ExchangeError> {
        // The caller has finished, and nobody will copy later than now.
        let closing = self.gate.is_some();
        if finishing && !closing {
            self.wait_for_device()?;
        }
        if matches!(self.phase, Phase::Packing { .. }) {
            self.send(transport)?;
        }
        if !matches!(self.phase, Phase::Packing { .. } | Phase::Travelling) {
            return Ok(true);
        }
        let mut complete = self.phase == Phase::Travelling;
        let finishing = finishing || closing;
        for borrowed in &mut self.borrowed {
            let on = (&self.device, self.streams.now());
            complete &= borrowed.advance(self.round, on, transport, finishing, &self.trace)?;
        }
        for lent in &mut self.lent {
            complete &= lent.returned(self.round)?;
        }
        if self.phase == Phase::Travelling {
            // SAFETY: nobody writes the buffer before the next start.
            unsafe { self.groups.send(&mut self.sends, &self.device, transport)? };
            for message in &mut self.receives {
                // SAFETY: the halo cells are in flight, and borrowed exclusively where they are merely borrowed.
                complete &= unsafe {
                    message.advance(&self.device, self.streams.now(), transport, finishing, &self.trace)?
                };
            }
            for message in &mut self.sends {
                complete &= message.is_complete(transport)?;
            }
        }
        if complete && closing {
            // What is behind the gate does not wait for our stream.
            complete = self.groups.are_unpacked(&self.device, self.streams.now())?;
        }
        if complete {
            self.phase = if closing { Phase::Idle } else { Phase::Arrived };
            self.open_gate();
        }
        Ok(complete)
    }

    fn finish(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        if self.phase == Phase::Idle {
            // Its end is in the stream already, behind a gate that was opened before the caller came here.
            return Ok(());
        }
        let stream = schedule.stream(&self.device);
        let on = stream.as_ref().unwrap_or(self.streams.now());
        if stream.is_some() {
            self.wait_for_copies(on)?;
        }
        // SAFETY: all messages have arrived.
        unsafe { self.unpack(on)? };
        for message in &mut self.receives {
            // SAFETY: as for the list that serves all messages.
            unsafe { message.unpack(&self.device, on, &self.trace)? };
        }
        for borrowed in &mut self.borrowed {
            borrowed.finish(self.round, (&self.device, self.streams.now()), transport, &self.trace)?;
        }
        self.device.record(&self.unpacked.events[self.round], on)?;
        if stream.is_none() && self.is_asynchronous() {
            self.trace.wait("finish", || self.device.host_wait(&self.unpacked.events[self.round]))?;
        }
        self.phase = Phase::Idle;
        Ok(())
    }

    fn is_asynchronous(&self) -> bool {
        self.device.info().asynchronous
    }

    fn close(&mut self, schedule: &Schedule<'_>, sharing: Sharing) -> Result<(), ExchangeError> {
        let in_flight = matches!(self.phase, Phase::Packing { .. } | Phase::Travelling);
        let Some(on) = schedule.stream(&self.device).filter(|_| in_flight && self.is_asynchronous()) else {
            return Ok(());
        };
        if sharing == Sharing::DefaultStream && on.handle() == self.device.default_stream().handle() {
            return Ok(());
        }
        self.trace.meet(&self.device, &on);
        let gate = match self.device.gate(&on) {
            Err(DeviceError::Unsupported { .. }) => return Ok(()),
            gate => gate?,
        };
        // What the engine copies from here on is done before it opens the gate.
        self.wait_for_copies(&on)?;
        // SAFETY: the gate is opened when all messages have arrived. Where it is opened because the exchange has failed,
        // the halos are unspecified, and memory that the transport may still be writing is kept, as are the buffers
        // until this is done.
        unsafe { self.unpack(&on)? };
        self.device.record(&self.unpacked.events[self.round], &on)?;
        self.gate = Some(Gate::InStream(gate));
        Ok(())
    }

    fn is_closing(&self) -> bool {
        self.gate.is_some()
    }

    fn is_packing(&self) -> bool {
        match self.phase {
            Phase::Packing { .. } => true,
            Phase::Travelling => !self.groups.are_sent() || self.groups.are_being_unpacked(),
            _ => false,
        }
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.unpacked.wait()
    }

    unsafe fn relocate(&mut self, from: &[Pointer], to: &[Pointer]) -> Result<(), DeviceError> {
        let lists = self.pack.iter_mut().chain([&mut self.local, &mut self.unpack]);
        let own = self.sends.iter_mut().filter_map(Outgoing::copies);
        let own = own.chain(self.receives.iter_mut().filter_map(Incoming::copies));
        let own = own.chain(self.groups.copies()).chain(self.borrowed.iter_mut().flat_map(Borrowed::copies));
        let mut all = lists.chain(own.map(|own| &mut own.copies));
        // SAFETY: the caller's promise.
        all.try_for_each(|copies| unsafe { self.device.relocate_copies(copies, from, to) })
    }

    fn writes(&self, storage: &Storage) {
        if self.is_asynchronous() {
            storage.written_by(&self.unpacked);
        }
    }

    fn missing(&self) -> Vec<String> {
        let messages = self.receives.iter().map(Incoming::missing);
        let all = messages
            .chain(self.borrowed.iter().map(Borrowed::missing))
            .chain(self.sends.iter().map(Outgoing::missing))
            .chain(self.lent.iter().map(Lent::missing));
        // Chunks of a neighbour are mostly of one length: that is said once.
        all.flatten().fold(Vec::new(), |mut told, missing| {
            if !told.contains(&missing) {
                told.push(missing);
            }
            told
        })
    }

    fn abandon(&mut self, transport: &dyn Transport) {
        if self.phase == Phase::Abandoned {
            return;
        }
        self.phase = Phase::Abandoned;
        self.sends.iter_mut().for_each(|message| message.wire().fail());
        self.receives.iter_mut().for_each(|message| message.wire().fail());
        self.lent.iter_mut().for_each(|lent| lent.wire().fail());
        self.borrowed.iter_mut().for_each(|borrowed| borrowed.wire().fail());
        // No call waits for a device that a gate holds back.
        self.open_gate();
        // The device must have stopped writing before anybody may touch the memory again. Its error, if any, is the
        // cause of the abandoning or is of no more use.
        let _ = self.device.synchronize(self.streams.now());
        // The last unpacking was put on a stream of the caller's.
        let _ = self.unpacked.wait();
        self.borrowed.iter().for_each(|borrowed| borrowed.leave(transport));
        self.lent.iter().for_each(|lent| lent.close(transport));
        // What the transport may still be using of fields stays in flight until it lets go of it.
        let in_use =
            self.sends.iter().any(Outgoing::is_in_field) || self.receives.iter().any(Incoming::is_in_field);
        let fields = if in_use { std::mem::take(&mut self.in_place) } else { Vec::new() };
        let kept = Arc::new(Kept::new(Arc::clone(&self.buffers) as _, fields));
        for channel in
            self.sends.iter().map(Outgoing::channel).chain(self.receives.iter().map(Incoming::channel))
        {
            // SAFETY: the channel is ours; `buffers` owns the memory of all messages that do not lie in fields, and the
            // fields that a message under way lies in are kept as well.
            unsafe { transport.close(channel, Arc::clone(&kept) as _) };
        }
    }

    fn recordable(&mut self) -> Option<&mut dyn Recordable> {
        Some(self)
    }
}

impl<D: Device> DevicePart<D> {
    /// The unpacking of the exchange before the present one.
    fn unpacked_before(&self) -> &D::Event {
        &self.unpacked.events[1 - self.round]
    }

    /// Lets go on what is held back in the caller's stream.
    pub(crate) fn open_gate(&mut self) {
        match self.gate.take() {
            Some(Gate::InStream(open)) => open(),
            Some(Gate::Step { arrived, .. }) => arrived.set(),
            None => {}
        }
    }

    /// Whether what is sent is packed.
    fn is_packed(&self) -> Result<bool, DeviceError> {
        match &self.gate {
            // A device that has failed sets no flag: it says so when it is asked for the end of the step.
            Some(Gate::Step { packed, .. }) => {
                Ok(packed.is_set() || self.device.query(&self.unpacked.events[self.round])?)
            }
            _ => self.device.query(&self.packed),
        }
    }

    /// Has later work in `on` wait for the copies that are on our stream now.
    pub(crate) fn wait_for_copies(&self, on: &D::Stream) -> Result<(), DeviceError> {
        self.device.record(&self.moved, self.streams.now())?;
        self.device.stream_wait(on, &self.moved)
    }

    /// Puts into `on` what unpacks all messages.
    ///
    /// # Safety
    /// They have arrived when it is run.
    unsafe fn unpack(&self, on: &D::Stream) -> Result<(), ExchangeError> {
        let unpacking = (trace::Phase::Unpacking, "unpack", self.bytes.unpacked);
        self.trace.time(unpacking, &self.device, on, || {
            // SAFETY: the receive buffers are ours until the next receives, which wait for this; the fields are borrowed
            // exclusively through the exchange until `finish`, and afterwards the order in `on`, and access from the host
            // that waits, keep others away. The rest is the caller's promise.
            unsafe {
                self.buffers.take_from_wire(&self.device, on)?;
                self.device.run_copies(&self.unpack, on)?;
            }
            Ok(())
        })
    }

    /// Waits for the device where nothing but its copies is missing before others can go on. A caller who waits anyway
    /// leaves its core to them; on devices that are the CPU it even works on them.
    fn wait_for_device(&self) -> Result<(), ExchangeError> {
        match self.phase {
            Phase::Packing { .. } => self.device.host_wait(&self.packed)?,
            Phase::Travelling if !self.groups.are_sent() => self.groups.wait(&self.device)?,
            Phase::Travelling if !self.borrowed.iter().any(Borrowed::is_waiting) => {
                self.borrowed.iter().try_for_each(|borrowed| borrowed.wait_for_copies(&self.device))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Posts receives and sends and lends the windows, as soon as each may be done.
    fn send(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        let Phase::Packing { mut receiving } = self.phase else { return Ok(()) };
        // Buffers are ours once they were unpacked; halos once the work before is done, which packing waits for.
        let free = |at: &Self| -> Result<bool, ExchangeError> {
            let unpacked = at.device.query(at.unpacked_before())?;
            Ok(unpacked && (at.in_place.is_empty() || at.is_packed()?))
        };
        if !receiving && free(self)? {
            self.receive(transport)?;
            receiving = true;
            self.phase = Phase::Packing { receiving };
        }
        if !receiving || !self.is_packed()? {
            return Ok(());
        }
        for message in self.groups.first(&mut self.sends) {
            // SAFETY: packing is done, and nobody writes the buffer before the next start, nor what is sent of the
            // fields while they are in flight.
            unsafe { message.send(transport)? };
        }
        for lent in &mut self.lent {
            lent.open(self.round, transport)?;
        }
        // What comes counts from here on: before, nothing was waited for.
        self.receives.iter_mut().for_each(|message| message.wire().begin());
        self.borrowed.iter_mut().for_each(|borrowed| borrowed.wire().begin());
        self.phase = Phase::Travelling;
        Ok(())
    }

    /// Posts all receives. The last exchange was unpacked, and the work before this one is done if messages lie in halos.
    fn receive(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        for message in &mut self.receives {
            // SAFETY: the buffer was unpacked, and nobody touches it before the message has come; halo cells are in
            // flight, and the exchange fills each of them once.
            unsafe { message.receive(transport)? };
        }
        Ok(())
    }
}
