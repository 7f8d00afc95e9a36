//! The messages of a part: bound to the copies that pack and unpack them, and opened.

use std::cmp::Reverse;
use std::sync::Arc;

use super::fields::BuildError;
use super::message_sets::MessageSets;
use crate::device::{CopyItem, Device, DeviceError, MemoryRange};
use crate::exchange::layout::messages::{Location, MessageLayout, MessageSet};
use crate::exchange::run::buffers::Buffers;
use crate::exchange::run::copy_list::{CopyList, Purpose, bytes};
use crate::exchange::run::message::{Message, MessageState, ReceivedMessage, SentMessage};
use crate::exchange::run::messages::{Group, Messages, ReceivedChunks};
use crate::exchange::run::trace::PartTrace;
use crate::field::{BoundField, LINE_BYTES};
use crate::trace::Row;
use crate::transport::{Direction, Transport, TransportError};

/// The messages of a part, whose channels are not open yet.
pub(crate) struct BoundMessages<D: Device> {
    sends: Vec<BoundMessage<D>>,
    receives: Vec<BoundMessage<D>>,
    pub(crate) groups: Vec<Group<D>>,
    /// What unpacks all messages without copies of their own.
    pub(crate) unpack: Vec<CopyItem>,
    /// The bytes that come in these.
    unpack_bytes: usize,
    chunks: Option<ReceivedChunks<D>>,
    buffers: Buffers<D>,
}

/// One message, and what packs or unpacks it, if that is done on its own.
struct BoundMessage<D: Device> {
    layout: MessageLayout,
    copies: Option<CopyList<D>>,
    /// Whether it is copied to or from memory that is merely borrowed.
    is_borrowed: bool,
}

/// Where the messages of a part are opened.
pub(crate) struct Channels<'t> {
    pub(crate) transport: &'t dyn Transport,
    /// The tag of the part.
    pub(crate) tag: u32,
    /// The first tag of later chunks.
    pub(crate) chunk_tag: u32,
}

/// Binds the messages of `sets`. `packed` is what packs one and the other of the messages in shared memory, along with the
/// first group. `reached`: the transport reaches memory of the device.
pub(crate) fn bind_messages<D: Device>(
    device: &D,
    fields: &[(usize, BoundField)],
    mut sets: MessageSets,
    packed: [Vec<CopyItem>; 2],
    reached: bool,
) -> Result<BoundMessages<D>, DeviceError> {
    let (first_bytes, unpack_bytes) = (sets.groups[0].bytes, sets.whole.bytes);
    let sent_bytes = sets.groups[1..].iter_mut().fold(first_bytes, |end, group| group.move_behind(end));
    let received_bytes = sets.chunks.move_behind(unpack_bytes);
    let buffers = Buffers::new(device, sent_bytes, received_bytes, reached)?;
    // Several threads, or a device that goes on by itself, have more to do with all messages at once.
    let one_by_one = device.info().runs_on_host() && device.info().compute_units == 1;
    let binder = Binder { device, fields, buffers: &buffers, one_by_one };

    let (mut sends, first_copies) = binder.bind(&sets.groups[0], Direction::Send)?;
    let mut groups = vec![binder.first_group(sends.len(), first_bytes, first_copies, packed)?];
    for set in &sets.groups[1..] {
        groups.push(binder.later_group(sends.len(), set)?);
        sends.extend(set.messages.iter().map(|layout| BoundMessage {
            layout: layout.clone(),
            copies: None,
            is_borrowed: false,
        }));
    }
    let (mut receives, unpack) = binder.bind(&sets.whole, Direction::Receive)?;
    receives.extend(binder.received_chunks(&sets.chunks)?);
    let mut chunks = None;
    if !sets.chunks.messages.is_empty() {
        chunks = Some(ReceivedChunks { unpacked: device.create_event(false)?, is_recorded: false });
    }
    Ok(BoundMessages { sends, receives, groups, unpack, unpack_bytes, chunks, buffers })
}

impl<D: Device> BoundMessages<D> {
    /// Opens the channels of all messages, parts of which lie in the `fields` at these places. If one cannot be opened, closes
    /// those that are.
    pub(crate) fn open(
        self,
        device: &D,
        fields: &[(usize, BoundField)],
        in_place: Vec<usize>,
        channels: &Channels<'_>,
        trace: &PartTrace<D>,
    ) -> Result<Messages<D>, BuildError> {
        let BoundMessages { sends, receives, groups, unpack, unpack_bytes, chunks, buffers } = self;
        let detour = buffers.detour(Direction::Receive, 0..unpack_bytes);
        let mut messages = Messages {
            sends: Vec::with_capacity(sends.len()),
            receives: Vec::with_capacity(receives.len()),
            groups,
            unpack: CopyList::bind(device, Purpose::Unpacking, unpack, detour)?,
            groups_sent: 0,
            chunks,
            buffers: Arc::new(buffers),
            in_place: in_place.into_iter().filter_map(|field| fields[field].1.storage.clone()).collect(),
        };
        let opened = (|| -> Result<(), TransportError> {
            for BoundMessage { layout, copies, .. } in sends {
                let message = messages.open(device, &layout, Direction::Send, channels, trace)?;
                messages.sends.push(SentMessage { message, pack: copies });
            }
            for BoundMessage { layout, copies, is_borrowed } in receives {
                let message = messages.open(device, &layout, Direction::Receive, channels, trace)?;
                messages.receives.push(ReceivedMessage { message, unpack: copies, late: is_borrowed });
            }
            Ok(())
        })();
        if let Err(error) = opened {
            messages.close(channels.transport);
            return Err(error.into());
        }
        Ok(messages)
    }
}

impl<D: Device> Messages<D> {
    /// Opens the channel of a message.
    fn open(
        &self,
        device: &D,
        layout: &MessageLayout,
        direction: Direction,
        channels: &Channels<'_>,
        trace: &PartTrace<D>,
    ) -> Result<Message, TransportError> {
        let buffer = self.buffers.on_wire(direction);
        let ranges = layout.stretches.iter().map(|stretch| {
            let pointer = match stretch.location {
                Location::Buffer(offset) => buffer.offset(offset as isize),
                Location::Field(pointer, _) => pointer,
            };
            MemoryRange { device: device.id(), pointer, bytes: stretch.bytes }
        });
        let ranges: Vec<_> = ranges.collect();
        let (peer, bytes, tag) = (layout.peer, layout.bytes(), layout.tag(channels.tag, channels.chunk_tag));
        // SAFETY: the part keeps the buffers and the fields that the message lies in, and closes the channel before it lets go
        // of them; in `close` it hands them over to the keeper.
        let channel = unsafe { channels.transport.open_parts(direction, peer, tag, &ranges)? };
        let wire = match direction {
            Direction::Send => trace.wire(Row::To(peer), "send", bytes),
            Direction::Receive => trace.wire(Row::From(peer), "receive", bytes),
        };
        let in_field = layout.in_fields().next().is_some();
        Ok(Message { peer, bytes, channel, in_field, state: MessageState::Complete, wire })
    }
}

/// What binding a message needs.
struct Binder<'b, D: Device> {
    device: &'b D,
    fields: &'b [(usize, BoundField)],
    buffers: &'b Buffers<D>,
    /// Whether each message has copies of its own.
    one_by_one: bool,
}

impl<D: Device> Binder<'_, D> {
    /// The messages in the order in which they are begun, the largest first, and the copies that serve all of them, or, if
    /// messages are packed and unpacked one by one, those that are unpacked together.
    ///
    /// Messages of short rows are: those of the two faces of the fastest axis lie on the same lines, and one sweep over both
    /// takes as long as over one. They are packed together too, by what packs the first of them.
    fn bind(
        &self,
        set: &MessageSet,
        direction: Direction,
    ) -> Result<(Vec<BoundMessage<D>>, Vec<CopyItem>), DeviceError> {
        let Binder { device, fields, buffers, one_by_one } = *self;
        let sends = direction == Direction::Send;
        let purpose = if sends { Purpose::Packing } else { Purpose::Unpacking };
        let mut listed = Vec::with_capacity(set.messages.len());
        for message in &set.messages {
            let items = set.copies_of_message(message, fields, buffers.on_device(direction), direction)?;
            let together = !one_by_one || has_short_rows(&items);
            listed.push((message, items, together));
        }
        if one_by_one && listed.iter().filter(|(.., together)| *together).count() == 1 {
            listed.iter_mut().for_each(|(.., together)| *together = false);
        }
        let largest =
            listed.iter().filter(|(.., together)| *together).map(|(message, ..)| message.bytes()).max();
        listed.sort_by_key(|(message, _, together)| {
            let bytes = largest.filter(|_| *together).unwrap_or_else(|| message.bytes());
            Reverse((bytes, *together))
        });
        let mut all: Vec<CopyItem> = listed
            .iter()
            .filter(|(.., together)| *together)
            .flat_map(|(_, items, _)| items.clone())
            .collect();
        let mut bound = Vec::with_capacity(listed.len());
        for (message, items, together) in listed {
            let own = match (one_by_one, together) {
                (false, _) => None,
                (true, false) => Some(items),
                // The first one packs for all that follow it.
                (true, true) if sends => Some(std::mem::take(&mut all)),
                (true, true) => None,
            };
            let copies = own.map(|items| CopyList::bind(device, purpose, items, None)).transpose()?;
            let is_borrowed = set.is_borrowed(message, fields);
            bound.push(BoundMessage { layout: message.clone(), copies, is_borrowed });
        }
        Ok((bound, all))
    }

    /// The group of the first `count` messages, of so many bytes, with what packs messages in shared memory.
    fn first_group(
        &self,
        count: usize,
        bytes: usize,
        copies: Vec<CopyItem>,
        packed: [Vec<CopyItem>; 2],
    ) -> Result<Group<D>, DeviceError> {
        let detour = self.buffers.detour(Direction::Send, 0..bytes);
        let mut pack = Vec::with_capacity(2);
        for items in packed {
            // Without shared memory the two lists are the same.
            if pack.is_empty() || !items.is_empty() {
                let items = items.into_iter().chain(copies.iter().cloned()).collect();
                pack.push(CopyList::bind(self.device, Purpose::Packing, items, detour)?);
            }
        }
        Ok(Group { pack, packed: self.device.create_event(false)?, messages: 0..count })
    }

    /// The group of chunks whose messages are those from `begin` on.
    fn later_group(&self, begin: usize, set: &MessageSet) -> Result<Group<D>, DeviceError> {
        let items = set.copies(self.fields, self.buffers.on_device(Direction::Send), Direction::Send)?;
        let detour = self.buffers.detour(Direction::Send, set.begin..set.bytes);
        let pack = vec![CopyList::bind(self.device, Purpose::Packing, items, detour)?];
        let packed = self.device.create_event(false)?;
        Ok(Group { pack, packed, messages: begin..begin + set.messages.len() })
    }

    /// The chunks that come, each with what unpacks it.
    fn received_chunks(&self, set: &MessageSet) -> Result<Vec<BoundMessage<D>>, DeviceError> {
        let Binder { device, fields, buffers, .. } = *self;
        let buffer = buffers.on_device(Direction::Receive);
        let bound = set.messages.iter().map(|chunk| {
            let items = set.copies_of_message(chunk, fields, buffer, Direction::Receive)?;
            let detour = buffers.detour(Direction::Receive, chunk.in_buffer());
            let copies = Some(CopyList::bind(device, Purpose::Unpacking, items, detour)?);
            Ok(BoundMessage { layout: chunk.clone(), copies, is_borrowed: set.is_borrowed(chunk, fields) })
        });
        bound.collect()
    }
}

/// Whether most of the bytes of some copies are in rows shorter than a line of the cache.
fn has_short_rows(items: &[CopyItem]) -> bool {
    let short = |item: &&CopyItem| matches!(item, CopyItem::Box(copy) if copy.run_bytes() < LINE_BYTES);
    2 * items.iter().filter(short).map(CopyItem::bytes).sum::<usize>() > bytes(items)
}
