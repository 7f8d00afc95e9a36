//! The later groups of messages that are staged in [chunks](crate::exchange::bind::chunks): how they are packed and sent one after the
//! other, and how a gate waits for what was unpacked chunk by chunk.
//!
//! All groups are packed in the stream of the part, each by one launch with an event behind it. A group is sent when its
//! event is reached, while later ones are still being packed. A chunk that comes is unpacked in the same stream, by a launch
//! of its own.

use std::ops::Range;

use super::buffers::Buffers;
use super::message::{BoundMessage, Outgoing, OwnCopies, own_copies};
use super::trace::PartTrace;
use crate::device::{Device, DeviceError, NextReader};
use crate::exchange::layout::messages::Messages;
use crate::exchange::options::ExchangeError;
use crate::field::BoundField;
use crate::trace::Phase;
use crate::transport::{Direction, Transport};

/// The groups after the first, and the end of all unpacking of chunks. Without chunks it does nothing.
pub(crate) struct Groups<D: Device> {
    /// How many messages the first group has: they are the first ones that the part sends.
    first: usize,
    later: Vec<Group<D>>,
    /// How many of the later groups were sent in this exchange.
    sent: usize,
    /// All chunks are unpacked; `None` where none come.
    unpacked: Option<D::Event>,
    /// Whether `unpacked` was recorded in this exchange.
    is_recorded: bool,
}

/// Chunk k of each neighbour to which as many go.
struct Group<D: Device> {
    pack: OwnCopies<D>,
    packed: D::Event,
    /// Which of the messages that the part sends they are.
    messages: Range<usize>,
}

impl<D: Device> Groups<D> {
    /// Binds what packs the `later` groups, which follow the `first` messages that a part sends. `comes`: whether it
    /// receives chunks.
    pub(crate) fn new(
        device: &D,
        (first, later): (usize, &[Messages]),
        comes: bool,
        fields: &[(usize, BoundField)],
        buffers: &Buffers<D>,
    ) -> Result<Groups<D>, DeviceError> {
        let mut groups = Vec::with_capacity(later.len());
        let mut next = first;
        for group in later {
            let items = group.copies(fields, buffers.on_device(Direction::Send), Direction::Send)?;
            let detour = buffers.detour(Direction::Send, group.begin..group.bytes);
            let pack = OwnCopies { detour, ..own_copies(device, items, NextReader::Elsewhere)? };
            let messages = next..next + group.placed.len();
            next = messages.end;
            groups.push(Group { pack, packed: device.create_event(false)?, messages });
        }
        let unpacked = if comes { Some(device.create_event(false)?) } else { None };
        Ok(Groups { first, later: groups, sent: 0, unpacked, is_recorded: false })
    }

    /// What packs the later groups.
    pub(crate) fn copies(&mut self) -> impl Iterator<Item = &mut OwnCopies<D>> {
        self.later.iter_mut().map(|group| &mut group.pack)
    }

    /// Whether anything is sent or comes in chunks.
    pub(crate) fn are_any(&self) -> bool {
        !self.later.is_empty() || self.unpacked.is_some()
    }

    /// Puts into `stream` what packs the later groups, with an event behind each.
    ///
    /// # Safety
    /// Nobody writes the fields until that is done, and the messages of the last exchange are complete.
    pub(crate) unsafe fn pack(
        &mut self,
        device: &D,
        stream: &D::Stream,
        trace: &PartTrace<D>,
    ) -> Result<(), ExchangeError> {
        (self.sent, self.is_recorded) = (0, false);
        for group in &self.later {
            // SAFETY: the caller's promise.
            unsafe { group.pack.run(Phase::Packing, device, stream, trace)? };
            device.record(&group.packed, stream)?;
        }
        Ok(())
    }

    /// The messages of the first group, of all that the part sends.
    pub(crate) fn first<'s>(&self, sends: &'s mut [Outgoing<D>]) -> &'s mut [Outgoing<D>] {
        let count = self.first.min(sends.len());
        &mut sends[..count]
    }

    /// Sends the later groups as far as they are packed. `sends` is all that the part sends.
    ///
    /// # Safety
    /// They are being packed, and nobody writes their buffer until their messages are complete.
    pub(crate) unsafe fn send(
        &mut self,
        sends: &mut [Outgoing<D>],
        device: &D,
        transport: &dyn Transport,
    ) -> Result<(), ExchangeError> {
        while let Some(group) = self.later.get(self.sent) {
            if !device.query(&group.packed)? {
                break;
            }
            for message in &mut sends[group.messages.clone()] {
                // SAFETY: it is packed; the rest is the caller's promise.
                unsafe { message.send(transport)? };
            }
            self.sent += 1;
        }
        Ok(())
    }

    /// Whether all later groups were sent.
    pub(crate) fn are_sent(&self) -> bool {
        self.sent == self.later.len()
    }

    /// Blocks until the next group is packed.
    pub(crate) fn wait(&self, device: &D) -> Result<(), DeviceError> {
        self.later.get(self.sent).map_or(Ok(()), |group| device.host_wait(&group.packed))
    }

    /// Whether the device has unpacked all chunks: what does so has been put into `stream`.
    pub(crate) fn are_unpacked(&mut self, device: &D, stream: &D::Stream) -> Result<bool, DeviceError> {
        let Some(unpacked) = &self.unpacked else { return Ok(true) };
        if !self.is_recorded {
            device.record(unpacked, stream)?;
            self.is_recorded = true;
        }
        device.query(unpacked)
    }

    /// Whether all chunks have come in this exchange, and it was asked whether they are unpacked.
    pub(crate) fn are_being_unpacked(&self) -> bool {
        self.is_recorded
    }
}

/// The chunks that come, each with what unpacks it.
pub(crate) fn bind_received<D: Device>(
    device: &D,
    chunks: &Messages,
    fields: &[(usize, BoundField)],
    buffers: &Buffers<D>,
) -> Result<Vec<BoundMessage<D>>, DeviceError> {
    let buffer = buffers.on_device(Direction::Receive);
    let bound = chunks.placed.iter().map(|chunk| {
        let items = chunks.copies_of_message(chunk, fields, buffer, Direction::Receive)?;
        let detour = buffers.detour(Direction::Receive, chunk.in_buffer());
        let unpack = OwnCopies { detour, ..own_copies(device, items, NextReader::Here)? };
        Ok((chunk.clone(), Some(unpack), chunks.is_borrowed(chunk, fields)))
    });
    bound.collect()
}
