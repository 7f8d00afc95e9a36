//! Binding the messages of a part: the copies that pack and unpack them, and their channels.

use std::cmp::Reverse;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use super::run::{Group, Messages};
use super::{Message, MessageSets, MessageState, ReceivedMessage, SentMessage};
use crate::device::{CopyItem, Device, DeviceError, MemoryRange};
use crate::exchange::cells::packed::{Location, MessageLayout, MessageSet};
use crate::exchange::ways::accumulate::Combining;
use crate::exchange::ways::offer::PartWays;
use crate::exchange::ways::{Binding, BuildError};
use crate::exchange::work::HostWay as _;
use crate::exchange::work::copy_list::{Batch, Buffers, CopyList, Purpose, Staging, bytes};
use crate::exchange::work::mark::{Mark, Marks};
use crate::field::LINE_BYTES;
use crate::trace::Row;
use crate::transport::{Direction, Transport, TransportError};

/// The messages of a part, whose channels are not open yet.
pub(crate) struct BoundMessages<D: Device> {
    sends: Vec<BoundMessage<D>>,
    receives: Vec<BoundMessage<D>>,
    pub(crate) groups: Vec<Group<D>>,
    /// The copies that unpack all messages without a list of their own.
    pub(crate) unpack: Vec<CopyItem>,
    /// These messages in the buffer.
    unpack_batch: Batch,
    /// The copies that combine their cells with owned ones, if they go from halos to their owners.
    pub(crate) combining: Option<Combining<D>>,
    buffers: Buffers<D>,
}

struct BoundMessage<D: Device> {
    layout: MessageLayout,
    /// The copies that pack or unpack it, if it has a list of its own.
    copies: Option<CopyList<D>>,
    /// Whether it is copied to or from borrowed memory.
    is_borrowed: bool,
}

/// The transport and the tags with which the channels of a part are opened.
pub(crate) struct Channels<'t> {
    pub(crate) transport: &'t dyn Transport,
    pub(crate) tag: u32,
    /// The tag of the second chunk; later ones follow.
    pub(crate) chunk_tag: u32,
}

/// Binds the messages of `sets`, which go by `ways`. `packed` are the copies to the two messages in shared memory, which are packed along
/// with the first group; `marks` makes the points at which groups are packed.
pub(crate) fn bind_messages<D: Device>(
    binding: &Binding<'_, D>,
    (ways, mut sets): (&PartWays, MessageSets),
    packed: [Vec<CopyItem>; 2],
    staging: &Staging,
    marks: &mut Marks<D>,
) -> Result<BoundMessages<D>, DeviceError> {
    let device = binding.device;
    sets.groups.iter_mut().fold(0, |end, group| group.move_behind(end));
    sets.chunks.move_behind(sets.whole.bytes);
    let sent: Vec<Batch> = sets.groups.iter().map(|group| staging.batch(group.in_buffer())).collect();
    let unpack_batch = staging.batch(sets.whole.in_buffer());
    let chunks = sets.chunks.messages.iter().map(|chunk| staging.received_chunk(chunk.in_buffer()));
    let received: Vec<Batch> = iter::once(unpack_batch.clone()).chain(chunks).collect();
    let buffers = Buffers::new(device, staging, &sent, &received)?;
    // Several threads, or an asynchronous device, are faster with the copies of all messages at once.
    let one_by_one = device.info().runs_on_host() && device.info().compute_units == 1;
    let binder = MessageBinder { binding, buffers: &buffers, one_by_one };

    let (mut sends, first_copies) = binder.bind(&sets.groups[0], &sent[0], Direction::Send)?;
    let mut lists = Vec::from(packed);
    if lists[1].is_empty() {
        // Without shared memory the two lists are the same: one is enough.
        lists.truncate(1);
    }
    lists.iter_mut().for_each(|list| list.extend(first_copies.iter().cloned()));
    let mut groups = vec![binder.group(0..sends.len(), &sent[0], lists, marks.mark()?)?];
    for (set, batch) in sets.groups.iter().zip(&sent).skip(1) {
        let (mark, messages) = (marks.mark()?, sends.len()..sends.len() + set.messages.len());
        let items = set.copies(binding.fields, buffers.on_device(Direction::Send, batch), Direction::Send)?;
        groups.push(binder.group(messages, batch, vec![items], mark)?);
        sends.extend(set.messages.iter().map(|layout| BoundMessage {
            layout: layout.clone(),
            copies: None,
            is_borrowed: false,
        }));
    }
    let (mut receives, mut unpack) = (Vec::new(), Vec::new());
    let combining = match binding.pattern.reversal() {
        None => {
            (receives, unpack) = binder.bind(&sets.whole, &unpack_batch, Direction::Receive)?;
            None
        }
        Some(reversal) => {
            let layouts = sets.whole.messages.iter().cloned();
            receives.extend(layouts.map(|layout| BoundMessage { layout, copies: None, is_borrowed: false }));
            Some(Combining::bind(binding, reversal, ways, (&sets, &buffers, &unpack_batch))?)
        }
    };
    receives.extend(binder.received_chunks(&sets.chunks, &received[1..])?);
    Ok(BoundMessages { sends, receives, groups, unpack, unpack_batch, combining, buffers })
}

impl<D: Device> BoundMessages<D> {
    pub(crate) fn are_received(&self) -> bool {
        !self.receives.is_empty()
    }

    /// Opens the channels of all messages. `in_place` lists the positions of the fields that stretches of messages
    /// lie in. If a channel cannot be opened, closes those that are open.
    pub(crate) fn open(
        self,
        binding: &Binding<'_, D>,
        in_place: Vec<usize>,
        channels: &Channels<'_>,
    ) -> Result<Messages<D>, BuildError> {
        let BoundMessages { sends, receives, groups, unpack, unpack_batch, combining, buffers } = self;
        let host_copy = buffers.host_copy(Direction::Receive, &unpack_batch);
        let mut messages = Messages {
            sends: Vec::with_capacity(sends.len()),
            receives: Vec::with_capacity(receives.len()),
            groups,
            unpack: CopyList::bind(binding.device, Purpose::Unpacking, unpack, host_copy)?,
            combining,
            groups_sent: 0,
            buffers: Arc::new(buffers),
            in_place: in_place.into_iter().flat_map(|at| binding.fields[at].1.storages().cloned()).collect(),
        };
        let opened = (|| -> Result<(), TransportError> {
            for BoundMessage { layout, copies, .. } in sends {
                let message = messages.open(binding, &layout, Direction::Send, channels)?;
                messages.sends.push(SentMessage { message, pack: copies });
            }
            for BoundMessage { layout, copies, is_borrowed } in receives {
                let message = messages.open(binding, &layout, Direction::Receive, channels)?;
                messages.receives.push(ReceivedMessage {
                    message,
                    unpack: copies,
                    is_in_stream: false,
                    only_in_finish: is_borrowed,
                });
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
    fn open(
        &self,
        &Binding { device, trace, .. }: &Binding<'_, D>,
        layout: &MessageLayout,
        direction: Direction,
        channels: &Channels<'_>,
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
        // SAFETY: the part keeps the buffers and the fields that the message lies in, and closes the channel before it
        // releases them; `close` hands them over to the transport.
        let channel = unsafe { channels.transport.open_parts(direction, peer, tag, &ranges)? };
        let transfer = match direction {
            Direction::Send => trace.transfer(Row::To(peer), "send", bytes),
            Direction::Receive => trace.transfer(Row::From(peer), "receive", bytes),
        };
        let in_field = layout.in_fields().next().is_some();
        Ok(Message { peer, bytes, channel, in_field, state: MessageState::Complete, transfer })
    }
}

struct MessageBinder<'b, D: Device> {
    binding: &'b Binding<'b, D>,
    buffers: &'b Buffers<D>,
    /// Whether each message has a list of copies of its own.
    one_by_one: bool,
}

impl<D: Device> MessageBinder<'_, D> {
    /// Returns the messages in the order in which they are begun, the largest first, and the copies that all of them
    /// share. If messages are packed and unpacked one by one, the shared copies are those that unpack messages of short
    /// rows.
    ///
    /// Messages of short rows are copied together: the two faces of the fastest axis lie on the same cache lines, and
    /// one sweep over both takes as long as over one. The list of the first such message packs all of them.
    fn bind(
        &self,
        set: &MessageSet,
        batch: &Batch,
        direction: Direction,
    ) -> Result<(Vec<BoundMessage<D>>, Vec<CopyItem>), DeviceError> {
        let MessageBinder { binding: &Binding { device, fields, .. }, buffers, one_by_one } = *self;
        let sends = direction == Direction::Send;
        let purpose = if sends { Purpose::Packing } else { Purpose::Unpacking };
        let mut listed = Vec::with_capacity(set.messages.len());
        for message in &set.messages {
            let buffer = buffers.on_device(direction, batch);
            let items = set.copies_of_message(message, fields, buffer, direction)?;
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
                // The first one packs all others, too.
                (true, true) if sends => Some(std::mem::take(&mut all)),
                (true, true) => None,
            };
            let copies = own.map(|items| CopyList::bind(device, purpose, items, None)).transpose()?;
            let is_borrowed = set.is_borrowed(message, fields);
            bound.push(BoundMessage { layout: message.clone(), copies, is_borrowed });
        }
        Ok((bound, all))
    }

    /// Returns the group of these `messages`, which are `batch` and are packed by the `lists` in turn.
    fn group(
        &self,
        messages: Range<usize>,
        batch: &Batch,
        lists: Vec<Vec<CopyItem>>,
        packed: Mark<D>,
    ) -> Result<Group<D>, DeviceError> {
        let host_copy = self.buffers.host_copy(Direction::Send, batch);
        let bind = |items| CopyList::bind(self.binding.device, Purpose::Packing, items, host_copy);
        let pack = lists.into_iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Group { pack, packed, messages })
    }

    /// Returns the received chunks, each with the copies that unpack it.
    fn received_chunks(
        &self,
        set: &MessageSet,
        batches: &[Batch],
    ) -> Result<Vec<BoundMessage<D>>, DeviceError> {
        let MessageBinder { binding: &Binding { device, fields, .. }, buffers, .. } = *self;
        let bound = set.messages.iter().zip(batches).map(|(chunk, batch)| {
            let buffer = buffers.on_device(Direction::Receive, batch);
            let items = set.copies_of_message(chunk, fields, buffer, Direction::Receive)?;
            let host_copy = buffers.host_copy(Direction::Receive, batch);
            let copies = Some(CopyList::bind(device, Purpose::Unpacking, items, host_copy)?);
            Ok(BoundMessage { layout: chunk.clone(), copies, is_borrowed: set.is_borrowed(chunk, fields) })
        });
        bound.collect()
    }
}

/// Whether most of the bytes of `items` are in rows shorter than a cache line.
fn has_short_rows(items: &[CopyItem]) -> bool {
    let short = |item: &&CopyItem| matches!(item, CopyItem::Box(copy) if copy.run_bytes() < LINE_BYTES);
    2 * items.iter().filter(short).map(CopyItem::bytes).sum::<usize>() > bytes(items)
}
