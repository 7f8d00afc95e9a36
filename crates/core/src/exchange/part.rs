//! The part of an exchange whose fields are on one device: what it does in each phase.
//!
//! A bound exchange is a list of parts, each compiled for its device and joined by the small trait [`Part`]. One
//! part runs through these steps:
//!
//! 1. `start` waits (in stream order) for the work before, packs what travels in messages, and copies what the rank
//!    sends to itself. A device that is done when a call returns sends each message before it packs the next.
//! 2. `poll`, called again and again, sends as soon as packing is done, lends windows (on fields, or on what was
//!    packed) to neighbours that share memory, copies from the windows that they lend, and sees messages arrive, which it
//!    unpacks one by one on such a device. It touches library-owned memory only, unless the caller waits in `finish`.
//! 3. `finish` unpacks what is left, and makes the work after wait (in stream order) for it.
//!
//! Parts of messages may lie in fields: what is sent is read there from when the work before is done until the message is
//! complete, and what is received is written there in the same time. Memory that is merely borrowed is never used so: a
//! forgotten exchange leaves it to its owner while messages are under way.
//!
//! Messages in shared memory come in pairs, used in turn: an exchange ends when the neighbour has read the message of the
//! one before, so that the next one finds its message free.

use std::sync::Arc;

use super::buffers::Buffers;
use super::message::{Incoming, Kept, Outgoing};
use super::unpacked::Unpacked;
use super::{ExchangeError, Schedule};
use crate::device::{Device, DeviceError, DeviceId, Stream as _};
use crate::field::{LastWrite as _, Storage};
use crate::transport::{Transport, TransportError, Window, WindowState};

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
    /// Whether what is sent is not packed yet: neighbours are not what is waited for.
    fn is_packing(&self) -> bool;
    /// Blocks until the halos of the last exchange are in place.
    fn synchronize(&self) -> Result<(), DeviceError>;
    /// The neighbours that are still waited for, in words.
    fn missing(&self) -> Vec<String>;
    /// Gives up for ever: afterwards nobody touches the fields any more.
    fn abandon(&mut self, transport: &dyn Transport);
}

/// What streams other ranks of the process may put work into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// None: there are no other ranks.
    Nothing,
    /// The default stream. A gate in it would hold back what another rank has to pack, and wait for that for ever.
    DefaultStream,
}

/// What one exchange moves on this rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages sent to other ranks.
    pub messages: usize,
    /// Bytes sent in messages.
    pub message_bytes: usize,
    /// Of these, bytes that are sent from the field itself, without packing.
    pub sent_in_place_bytes: usize,
    /// Bytes of messages that are received in the halo itself, without unpacking.
    pub received_in_place_bytes: usize,
    /// Bytes packed into memory that neighbours share, and unpacked from it by them.
    pub shared_bytes: usize,
    /// Bytes copied straight from neighbours' fields.
    pub direct_bytes: usize,
    /// Bytes that the rank's domains copy from each other or from themselves.
    pub local_bytes: usize,
    /// How often neighbours wait for each other: 1, or the number of axes where halos are filled
    /// [axis by axis](super::HaloOrder::AxisByAxis).
    pub steps: usize,
}

impl Traffic {
    /// How data gets to other ranks, in words.
    pub fn path(&self) -> String {
        let ways = [
            (self.direct_bytes, "direct copies from neighbours' fields"),
            (self.shared_bytes, "memory shared with neighbours"),
            (self.message_bytes, "messages"),
        ];
        let taken: Vec<&str> = ways.into_iter().filter(|(bytes, _)| *bytes > 0).map(|(_, way)| way).collect();
        if taken.is_empty() { "copies within the rank".into() } else { taken.join(" and ") }
    }

    /// That of two parts of which one is done after the other.
    pub(super) fn then(self, next: Traffic) -> Traffic {
        Traffic { steps: self.steps + next.steps, ..self.beside(next) }
    }

    /// That of two parts together.
    pub(super) fn beside(self, other: Traffic) -> Traffic {
        Traffic {
            messages: self.messages + other.messages,
            message_bytes: self.message_bytes + other.message_bytes,
            sent_in_place_bytes: self.sent_in_place_bytes + other.sent_in_place_bytes,
            received_in_place_bytes: self.received_in_place_bytes + other.received_in_place_bytes,
            shared_bytes: self.shared_bytes + other.shared_bytes,
            direct_bytes: self.direct_bytes + other.direct_bytes,
            local_bytes: self.local_bytes + other.local_bytes,
            steps: self.steps.max(other.steps),
        }
    }
}

/// A part on a device of type `D`.
pub(super) struct DevicePart<D: Device> {
    pub(super) device: D,
    /// Packing, copies to oneself and from neighbours run here, apart from the caller's streams.
    pub(super) stream: D::Stream,
    /// One list, or one for the even exchanges and one for the odd ones.
    pub(super) pack: Vec<D::Copies>,
    pub(super) local: D::Copies,
    pub(super) unpack: D::Copies,
    pub(super) sends: Vec<Outgoing<D>>,
    pub(super) receives: Vec<Incoming<D>>,
    /// Windows lent to neighbours.
    pub(super) lent: Vec<Lent>,
    /// Windows borrowed from neighbours.
    pub(super) borrowed: Vec<Borrowed<D>>,
    /// Owns the memory of all messages that do not lie in fields.
    pub(super) buffers: Arc<Buffers<D>>,
    /// The fields that messages lie in.
    pub(super) in_place: Vec<Arc<Storage>>,
    pub(super) traffic: Traffic,
    /// The number of exchanges that were started, modulo 2.
    pub(super) round: usize,
    /// The work before `start` on the caller's stream.
    pub(super) before: D::Event,
    /// Packing is done.
    pub(super) packed: D::Event,
    /// All copies on `stream` are done.
    pub(super) moved: D::Event,
    /// Unpacking is done.
    pub(super) unpacked: Arc<Unpacked<D>>,
    pub(super) phase: Phase,
    /// Opens the gate that holds the end of the exchange back in the caller's stream.
    pub(super) gate: Option<Gate>,
}

/// Opens a gate when it is called or dropped.
pub(super) type Gate = Box<dyn FnOnce() + Send>;

/// How far a part has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
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

/// What is lent to a neighbour.
#[derive(Debug)]
pub(super) struct Lent {
    peer: usize,
    /// For the even exchanges and for the odd ones.
    windows: [Arc<Window>; 2],
    /// Whether the two are on messages, of which one may be read while the other is written.
    in_turn: bool,
    returned: bool,
}

/// What a neighbour lends, and what is copied from it.
pub(super) struct Borrowed<D: Device> {
    peer: usize,
    windows: [Arc<Window>; 2],
    /// One list, or one for the even exchanges and one for the odd ones.
    copies: Vec<D::Copies>,
    copied: D::Event,
    /// Whether it is copied while the caller waits in `finish` alone, as to memory that is merely borrowed.
    late: bool,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Waiting,
    /// The window is ours; `finish` copies.
    Ready,
    Copying,
    Done,
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
        self.lent.iter_mut().for_each(|lent| lent.returned = false);
        self.borrowed.iter_mut().for_each(|borrowed| borrowed.progress = Progress::Waiting);
        if let Some(stream) = schedule.stream(&self.device) {
            self.device.record(&self.before, &stream)?;
            self.device.stream_wait(&self.stream, &self.before)?;
        }
        let receiving = self.device.info().runs_on_host();
        if receiving {
            self.receive(transport)?;
        }
        for message in &mut self.sends {
            // SAFETY: as for packing below.
            unsafe { message.pack_and_send(&self.device, &self.stream, transport)? };
        }
        // SAFETY: the exchange owns the fields and is borrowed exclusively from here to the end, and no exchange of
        // them is in flight, so nobody else touches the fields; the send buffers are free since the last exchange
        // has completed. Work of the caller is ordered before by `before`.
        unsafe { self.device.run_copies(&self.pack[self.round % self.pack.len()], &self.stream)? };
        // SAFETY: as for packing.
        unsafe { self.buffers.bring_to_wire(&self.device, &self.stream)? };
        self.device.record(&self.packed, &self.stream)?;
        self.phase = Phase::Packing { receiving };
        // Neighbours can begin while we copy what is our own.
        self.send(transport)?;
        // SAFETY: as for packing; the copies go from owned cells to halo cells, which do not overlap.
        unsafe { self.device.run_copies(&self.local, &self.stream)? };
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
            complete &= borrowed.advance(self.round, &self.device, &self.stream, transport, finishing)?;
        }
        for lent in &mut self.lent {
            complete &= lent.returned(self.round)?;
        }
        if self.phase == Phase::Travelling {
            for message in &mut self.receives {
                // SAFETY: the halo cells are in flight, and borrowed exclusively where they are merely borrowed.
                complete &= unsafe { message.advance(&self.device, &self.stream, transport, finishing)? };
            }
            for message in &mut self.sends {
                complete &= message.is_complete(transport)?;
            }
        }
        if complete {
            self.phase = if closing { Phase::Idle } else { Phase::Arrived };
            self.gate.take().into_iter().for_each(|open| open());
        }
        Ok(complete)
    }

    fn finish(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        if self.phase == Phase::Idle {
            // Its end is in the stream already, behind a gate that was opened before the caller came here.
            return Ok(());
        }
        let stream = schedule.stream(&self.device);
        let on = stream.as_ref().unwrap_or(&self.stream);
        if stream.is_some() {
            self.wait_for_copies(on)?;
        }
        // SAFETY: all messages have arrived.
        unsafe { self.unpack(on)? };
        for message in &mut self.receives {
            // SAFETY: as for the list that serves all messages.
            unsafe { message.unpack(&self.device, on)? };
        }
        for borrowed in self.borrowed.iter_mut().filter(|borrowed| borrowed.progress == Progress::Ready) {
            borrowed.copy(self.round, &self.device, &self.stream)?;
            borrowed.give_back(self.round, transport)?;
        }
        self.device.record(&self.unpacked.events[self.round], on)?;
        if stream.is_none() {
            self.device.host_wait(&self.unpacked.events[self.round])?;
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
        self.gate = Some(gate);
        Ok(())
    }

    fn is_closing(&self) -> bool {
        self.gate.is_some()
    }

    fn is_packing(&self) -> bool {
        matches!(self.phase, Phase::Packing { .. })
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.unpacked.wait()
    }

    fn missing(&self) -> Vec<String> {
        let arriving = self.receives.iter().filter_map(Incoming::missing);
        let leaving = self.sends.iter().filter_map(Outgoing::missing);
        let waiting = |progress| matches!(progress, Progress::Waiting | Progress::Copying);
        let borrowed = self.borrowed.iter().filter(|borrowed| waiting(borrowed.progress));
        let lent = self.lent.iter().filter(|lent| !lent.returned);
        arriving
            .chain(borrowed.map(Borrowed::missing))
            .chain(leaving)
            .chain(lent.map(Lent::missing))
            .collect()
    }

    fn abandon(&mut self, transport: &dyn Transport) {
        if self.phase == Phase::Abandoned {
            return;
        }
        self.phase = Phase::Abandoned;
        // No call waits for a device that a gate holds back.
        self.gate.take().into_iter().for_each(|open| open());
        // The device must have stopped writing before anybody may touch the memory again. Its error, if any, is the
        // cause of the abandoning or is of no more use.
        let _ = self.device.synchronize(&self.stream);
        // The last unpacking was put on a stream of the caller's.
        let _ = self.unpacked.wait();
        for borrowed in &self.borrowed {
            borrowed.windows.iter().for_each(|window| window.leave());
            transport.notify(borrowed.peer);
        }
        for lent in &self.lent {
            lent.windows.iter().for_each(|window| window.close());
            transport.notify(lent.peer);
        }
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
}

impl<D: Device> DevicePart<D> {
    /// The unpacking of the exchange before the present one.
    fn unpacked_before(&self) -> &D::Event {
        &self.unpacked.events[1 - self.round]
    }

    /// Has later work in `on` wait for the copies that are on our stream now.
    fn wait_for_copies(&self, on: &D::Stream) -> Result<(), DeviceError> {
        self.device.record(&self.moved, &self.stream)?;
        self.device.stream_wait(on, &self.moved)
    }

    /// Puts into `on` what unpacks all messages.
    ///
    /// # Safety
    /// They have arrived when it is run.
    unsafe fn unpack(&self, on: &D::Stream) -> Result<(), ExchangeError> {
        // SAFETY: the receive buffers are ours until the next receives, which wait for this; the fields are borrowed
        // exclusively through the exchange until `finish`, and afterwards the order in `on`, and access from the host
        // that waits, keep others away. The rest is the caller's promise.
        unsafe {
            self.buffers.take_from_wire(&self.device, on)?;
            self.device.run_copies(&self.unpack, on)?;
        }
        Ok(())
    }

    /// Waits for the device where nothing but its copies is missing before others can go on. A caller who waits anyway
    /// leaves its core to them; on devices that are the CPU it even works on them.
    fn wait_for_device(&self) -> Result<(), ExchangeError> {
        let late = |borrowed: &Borrowed<D>| borrowed.progress == Progress::Waiting;
        match self.phase {
            Phase::Packing { .. } => self.device.host_wait(&self.packed)?,
            Phase::Travelling if !self.borrowed.iter().any(late) => {
                let copying = |borrowed: &&Borrowed<D>| borrowed.progress == Progress::Copying;
                for borrowed in self.borrowed.iter().filter(copying) {
                    self.device.host_wait(&borrowed.copied)?;
                }
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
            Ok(unpacked && (at.in_place.is_empty() || at.device.query(&at.packed)?))
        };
        if !receiving && free(self)? {
            self.receive(transport)?;
            receiving = true;
            self.phase = Phase::Packing { receiving };
        }
        if !receiving || !self.device.query(&self.packed)? {
            return Ok(());
        }
        for message in &mut self.sends {
            // SAFETY: packing is done, and nobody writes the buffer before the next start, nor what is sent of the
            // fields while they are in flight.
            unsafe { message.send(transport)? };
        }
        for lent in &self.lent {
            if !lent.windows[self.round].open() {
                return Err(TransportError::PeerGaveUp { peer: lent.peer }.into());
            }
            transport.notify(lent.peer);
        }
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

impl Lent {
    /// Fields, which the neighbour must have copied before an exchange ends.
    pub(super) fn fields(peer: usize, window: Arc<Window>) -> Lent {
        Lent { peer, windows: [Arc::clone(&window), window], in_turn: false, returned: true }
    }

    /// Two messages, used in turn.
    pub(super) fn message(peer: usize, windows: [Arc<Window>; 2]) -> Lent {
        Lent { peer, windows, in_turn: true, returned: true }
    }

    /// Whether the neighbour has copied what must be free for the next exchange.
    fn returned(&mut self, round: usize) -> Result<bool, ExchangeError> {
        if !self.returned {
            let window = &self.windows[if self.in_turn { 1 - round } else { round }];
            // The first exchange has no other before.
            self.returned = window.settle() || self.in_turn && window.state() == WindowState::Idle;
            if !self.returned && window.is_refused() {
                return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
            }
        }
        Ok(self.returned)
    }

    fn missing(&self) -> String {
        let what = if self.in_turn { "our message of the exchange before" } else { "our field" };
        format!("rank {}, which has not copied {what} yet", self.peer)
    }
}

impl<D: Device> Borrowed<D> {
    /// Fields.
    pub(super) fn fields(
        peer: usize,
        window: Arc<Window>,
        copies: D::Copies,
        copied: D::Event,
    ) -> Borrowed<D> {
        let windows = [Arc::clone(&window), window];
        Borrowed { peer, windows, copies: vec![copies], copied, late: false, progress: Progress::Done }
    }

    /// Two messages, used in turn, with the copies from each.
    pub(super) fn message(
        peer: usize,
        windows: [Arc<Window>; 2],
        copies: Vec<D::Copies>,
        copied: D::Event,
        late: bool,
    ) -> Borrowed<D> {
        Borrowed { peer, windows, copies, copied, late, progress: Progress::Done }
    }

    /// Copies from the window once it is open, unless that is up to `finish`, and gives it back once that is done. Whether
    /// nobody is waited for any more.
    fn advance(
        &mut self,
        round: usize,
        device: &D,
        stream: &D::Stream,
        transport: &dyn Transport,
        finishing: bool,
    ) -> Result<bool, ExchangeError> {
        if self.progress == Progress::Waiting {
            if !self.windows[round].begin_read() {
                if self.windows[round].is_withdrawn() {
                    return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
                }
                return Ok(false);
            }
            self.progress = Progress::Ready;
        }
        if self.progress == Progress::Ready && (finishing || !self.late) {
            self.copy(round, device, stream)?;
        }
        if self.progress == Progress::Copying && device.query(&self.copied)? {
            self.give_back(round, transport)?;
        }
        Ok(matches!(self.progress, Progress::Ready | Progress::Done))
    }

    fn copy(&mut self, round: usize, device: &D, stream: &D::Stream) -> Result<(), ExchangeError> {
        self.progress = Progress::Copying;
        let copies = &self.copies[round % self.copies.len()];
        // SAFETY: the window is open to us, so its owner neither writes what it lent nor frees it until we say that we
        // have read; the targets are halo cells of our own fields, which are in flight, and are touched by `finish`
        // alone where the fields are merely borrowed.
        unsafe { device.run_copies(copies, stream)? };
        device.record(&self.copied, stream)?;
        Ok(())
    }

    fn give_back(&mut self, round: usize, transport: &dyn Transport) -> Result<(), ExchangeError> {
        self.progress = Progress::Done;
        let was_whole = self.windows[round].end_read();
        transport.notify(self.peer);
        if was_whole { Ok(()) } else { Err(TransportError::PeerGaveUp { peer: self.peer }.into()) }
    }

    fn missing(&self) -> String {
        format!("the {} of rank {}", if self.windows[0].lasts() { "message" } else { "field" }, self.peer)
    }
}
