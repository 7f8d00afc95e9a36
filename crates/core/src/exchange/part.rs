//! The part of an exchange whose fields are on one device: what it does in each phase.
//!
//! A bound exchange is a list of parts, each compiled for its device and joined by the small trait [`Part`]. One
//! part runs through these steps:
//!
//! 1. `start` waits (in stream order) for the work before, packs what travels in messages, and copies what the rank
//!    sends to itself.
//! 2. `poll`, called again and again, sends as soon as packing is done, lends windows (on fields, or on what was
//!    packed) to neighbours that share memory, copies from the windows that they lend, and sees messages arrive. It
//!    touches library-owned memory only.
//! 3. `finish` unpacks what came in messages, and makes the work after wait (in stream order) for it.

use std::sync::Arc;

use super::{ExchangeError, Schedule};
use crate::device::{Device, DeviceId};
use crate::transport::{Channel, Transport, TransportError, Window};

/// One device's share of a bound exchange.
pub(crate) trait Part: Send {
    fn device(&self) -> DeviceId;
    fn traffic(&self) -> Traffic;
    fn start(&mut self, transport: &dyn Transport, schedule: &Schedule<'_>) -> Result<(), ExchangeError>;
    /// Makes progress; `true` once `finish` would not wait for anyone.
    fn poll(&mut self, transport: &dyn Transport) -> Result<bool, ExchangeError>;
    fn finish(&mut self, schedule: &Schedule<'_>) -> Result<(), ExchangeError>;
    /// The neighbours that are still waited for, in words.
    fn missing(&self) -> Vec<String>;
    /// Gives up for ever: afterwards nobody touches the fields any more.
    fn abandon(&mut self, transport: &dyn Transport);
}

/// What one exchange moves on this rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages sent to other ranks.
    pub messages: usize,
    /// Bytes sent in messages.
    pub message_bytes: usize,
    /// Bytes packed into memory that neighbours share, and unpacked from it by them.
    pub shared_bytes: usize,
    /// Bytes copied straight from neighbours' fields.
    pub direct_bytes: usize,
    /// Bytes that the rank's domains copy from each other or from themselves.
    pub local_bytes: usize,
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
}

/// A part on a device of type `D`.
pub(super) struct DevicePart<D: Device> {
    pub(super) device: D,
    /// Packing, copies to oneself and from neighbours run here, apart from the caller's streams.
    pub(super) stream: D::Stream,
    pub(super) pack: D::Copies,
    pub(super) local: D::Copies,
    pub(super) unpack: D::Copies,
    pub(super) sends: Vec<Message>,
    pub(super) receives: Vec<Message>,
    /// Windows lent to neighbours.
    pub(super) lent: Vec<Lent>,
    /// Windows borrowed from neighbours.
    pub(super) borrowed: Vec<Borrowed<D>>,
    /// Owns the memory of all messages.
    pub(super) buffers: Arc<[D::Buffer; 2]>,
    pub(super) traffic: Traffic,
    /// The work before `start` on the caller's stream.
    pub(super) before: D::Event,
    /// Packing is done.
    pub(super) packed: D::Event,
    /// All copies on `stream` are done.
    pub(super) moved: D::Event,
    /// Unpacking is done.
    pub(super) unpacked: D::Event,
    pub(super) phase: Phase,
}

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

/// One message to or from a neighbour.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) peer: usize,
    pub(super) bytes: usize,
    pub(super) channel: Channel,
    pub(super) complete: bool,
}

/// A window lent to a neighbour.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) peer: usize,
    pub(super) window: Arc<Window>,
    pub(super) returned: bool,
}

/// A window that a neighbour lends, and what is copied from it.
pub(super) struct Borrowed<D: Device> {
    pub(super) peer: usize,
    pub(super) window: Arc<Window>,
    pub(super) copies: D::Copies,
    pub(super) copied: D::Event,
    pub(super) progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Waiting,
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
        for message in self.sends.iter_mut().chain(&mut self.receives) {
            message.complete = false;
        }
        self.lent.iter_mut().for_each(|lent| lent.returned = false);
        self.borrowed.iter_mut().for_each(|borrowed| borrowed.progress = Progress::Waiting);
        if let Some(stream) = schedule.stream(&self.device) {
            self.device.record(&self.before, &stream)?;
            self.device.stream_wait(&self.stream, &self.before)?;
        }
        // The buffers of the last exchange may still be read by its unpacking.
        self.device.stream_wait(&self.stream, &self.unpacked)?;
        // SAFETY: the exchange owns the fields and is borrowed exclusively from here to the end, and no exchange of
        // them is in flight, so nobody else touches the fields; the send buffers are free since the last exchange
        // has completed. Work of the caller is ordered before by `before`.
        unsafe { self.device.run_copies(&self.pack, &self.stream)? };
        self.device.record(&self.packed, &self.stream)?;
        self.phase = Phase::Packing { receiving: false };
        // Neighbours can begin while we copy what is our own.
        self.send(transport)?;
        // SAFETY: as for packing; the copies go from owned cells to halo cells, which do not overlap.
        unsafe { self.device.run_copies(&self.local, &self.stream)? };
        Ok(())
    }

    fn poll(&mut self, transport: &dyn Transport) -> Result<bool, ExchangeError> {
        if matches!(self.phase, Phase::Packing { .. }) {
            self.send(transport)?;
        }
        if !matches!(self.phase, Phase::Packing { .. } | Phase::Travelling) {
            return Ok(true);
        }
        let mut complete = self.phase == Phase::Travelling;
        for borrowed in &mut self.borrowed {
            complete &= borrowed.advance(&self.device, &self.stream, transport)?;
        }
        for lent in &mut self.lent {
            complete &= lent.returned()?;
        }
        if self.phase == Phase::Travelling {
            for message in self.sends.iter_mut().chain(&mut self.receives) {
                message.complete = message.complete || transport.test(message.channel)?;
                complete &= message.complete;
            }
        }
        if complete {
            self.phase = Phase::Arrived;
        }
        Ok(complete)
    }

    fn finish(&mut self, schedule: &Schedule<'_>) -> Result<(), ExchangeError> {
        let stream = schedule.stream(&self.device);
        let on = stream.as_ref().unwrap_or(&self.stream);
        self.device.record(&self.moved, &self.stream)?;
        self.device.stream_wait(on, &self.moved)?;
        // SAFETY: all messages have arrived and the receive buffers are ours until the next start; the fields are
        // borrowed exclusively through the exchange.
        unsafe { self.device.run_copies(&self.unpack, on)? };
        self.device.record(&self.unpacked, on)?;
        if stream.is_none() {
            self.device.host_wait(&self.unpacked)?;
        }
        self.phase = Phase::Idle;
        Ok(())
    }

    fn missing(&self) -> Vec<String> {
        let arriving = self
            .receives
            .iter()
            .filter(|message| !message.complete)
            .map(|message| format!("the message of {} bytes from rank {}", message.bytes, message.peer));
        let leaving = self.sends.iter().filter(|message| !message.complete).map(|message| {
            format!("the receipt of the message of {} bytes by rank {}", message.bytes, message.peer)
        });
        let borrowed = self.borrowed.iter().filter(|borrowed| borrowed.progress != Progress::Done);
        let lent = self.lent.iter().filter(|lent| !lent.returned);
        arriving
            .chain(borrowed.map(|borrowed| format!("the field of rank {}", borrowed.peer)))
            .chain(leaving)
            .chain(lent.map(|lent| format!("rank {}, which has not copied our field yet", lent.peer)))
            .collect()
    }

    fn abandon(&mut self, transport: &dyn Transport) {
        if self.phase == Phase::Abandoned {
            return;
        }
        self.phase = Phase::Abandoned;
        // The device must have stopped writing before anybody may touch the memory again. Its error, if any, is the
        // cause of the abandoning or is of no more use.
        let _ = self.device.synchronize(&self.stream);
        // The last unpacking was put on a stream of the caller's.
        let _ = self.device.host_wait(&self.unpacked);
        for borrowed in &self.borrowed {
            borrowed.window.leave();
            transport.notify(borrowed.peer);
        }
        for lent in &self.lent {
            lent.window.close();
            transport.notify(lent.peer);
        }
        for message in self.sends.iter().chain(&self.receives) {
            // SAFETY: the channel is ours, and `buffers` owns the memory of all messages.
            unsafe { transport.close(message.channel, Arc::clone(&self.buffers) as _) };
        }
    }
}

impl<D: Device> DevicePart<D> {
    /// Posts receives and sends and lends the windows, as soon as each may be done.
    fn send(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        let Phase::Packing { mut receiving } = self.phase else { return Ok(()) };
        if !receiving && self.device.query(&self.unpacked)? {
            for message in &self.receives {
                // SAFETY: the buffer was unpacked, and nobody touches it before `finish`.
                unsafe { transport.post(message.channel)? };
            }
            receiving = true;
            self.phase = Phase::Packing { receiving };
        }
        if !receiving || !self.device.query(&self.packed)? {
            return Ok(());
        }
        for message in &self.sends {
            // SAFETY: packing is done, and nobody writes the buffer before the next start.
            unsafe { transport.post(message.channel)? };
        }
        for lent in &self.lent {
            if !lent.window.open() {
                return Err(TransportError::PeerGaveUp { peer: lent.peer }.into());
            }
            transport.notify(lent.peer);
        }
        self.phase = Phase::Travelling;
        Ok(())
    }
}

impl Lent {
    /// Whether the neighbour has copied.
    fn returned(&mut self) -> Result<bool, ExchangeError> {
        if !self.returned {
            self.returned = self.window.settle();
            if !self.returned && self.window.is_refused() {
                return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
            }
        }
        Ok(self.returned)
    }
}

impl<D: Device> Borrowed<D> {
    /// Copies from the window once it is open, and gives it back once that is done.
    fn advance(
        &mut self,
        device: &D,
        stream: &D::Stream,
        transport: &dyn Transport,
    ) -> Result<bool, ExchangeError> {
        if self.progress == Progress::Waiting {
            if !self.window.begin_read() {
                if self.window.is_closed() {
                    return Err(TransportError::PeerGaveUp { peer: self.peer }.into());
                }
                return Ok(false);
            }
            self.progress = Progress::Copying;
            // SAFETY: the window is open to us, so its owner neither writes what it lent nor frees it until we say
            // that we have read; the targets are halo cells of our own fields, which are in flight.
            unsafe { device.run_copies(&self.copies, stream)? };
            device.record(&self.copied, stream)?;
        }
        if self.progress == Progress::Copying && device.query(&self.copied)? {
            self.progress = Progress::Done;
            self.window.end_read();
            transport.notify(self.peer);
        }
        Ok(self.progress == Progress::Done)
    }
}
