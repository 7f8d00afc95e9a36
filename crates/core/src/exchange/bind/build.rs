//! What one device's part of an exchange is bound to: its messages laid out, its buffers, and every copy of every later
//! exchange.

use std::sync::Arc;

use super::chunks::Chunks;
use super::fields::{BuildError, ImportedMemory, PartDevice};
use super::offer::{Settled, lent_blocks};
use crate::device::{
    Buffer, CopyItem, Device, DeviceError, DeviceId, DeviceInfo, MemoryRange, NextReader, Pointer,
};
use crate::domain::Orientation;
use crate::exchange::layout::messages::{Messages, Place, Placed};
use crate::exchange::layout::side::{Side, fill};
use crate::exchange::options::{Traffic, Way};
use crate::exchange::run::buffers::{Buffers, Room};
use crate::exchange::run::groups::{Groups, bind_received};
use crate::exchange::run::message::{BoundMessage, Incoming, Outgoing, bytes, own_copies};
use crate::exchange::run::part::{Bytes, DevicePart, Part, Phase};
use crate::exchange::run::streams::OwnStreams;
use crate::exchange::run::trace::{ExchangeTrace, PartTrace};
use crate::exchange::run::unpacked::Unpacked;
use crate::exchange::run::windows::{Borrowed, Lent};
use crate::field::{BoundField, LINE_BYTES};
use crate::pattern::{Pattern, Piece};
use crate::trace::Row;
use crate::transport::{Direction, Transport, TransportError, Window};

/// On asynchronous devices, a rank's copies to itself of up to so many bytes go along with the unpacking: a launch of their
/// own takes as long as they do.
const LOCAL_BYTES_WITH_UNPACKING: usize = 1 << 20;

impl<D: Device> PartDevice for D {
    fn info(&self) -> &DeviceInfo {
        Device::info(self)
    }

    fn reaches(&self, other: DeviceId) -> Result<bool, DeviceError> {
        Device::reaches(self, other)
    }

    unsafe fn import(&self, token: &[u8]) -> Result<ImportedMemory, DeviceError> {
        // SAFETY: the caller's promise.
        let buffer = unsafe { Device::import(self, token)? };
        Ok(ImportedMemory { pointer: buffer.pointer(), bytes: buffer.bytes(), owner: Arc::new(buffer) })
    }

    fn build(
        &self,
        fields: &[(usize, BoundField)],
        pattern: &Pattern,
        tag: u32,
        settled: Settled,
        trace: Option<&ExchangeTrace>,
    ) -> Result<Box<dyn Part>, BuildError> {
        let transport = &**pattern.comm().transport();
        let tags = (tag, settled.chunk_tag);
        let part = build(self, fields, pattern, transport.info().device_memory, settled, trace)?;
        Ok(Box::new(open(part, transport, tags)?))
    }
}

/// A part whose channels are not open yet: their messages and the place of each in its buffer.
struct Unopened<D: Device> {
    part: DevicePart<D>,
    sends: Vec<BoundMessage<D>>,
    receives: Vec<BoundMessage<D>>,
}

fn build<D: Device>(
    device: &D,
    fields: &[(usize, BoundField)],
    pattern: &Pattern,
    device_messages: bool,
    settled: Settled,
    trace: Option<&ExchangeTrace>,
) -> Result<Unopened<D>, DeviceError> {
    let mut streams = OwnStreams::new(device)?;
    let Chunks { first: mut outgoing, mut later, received: mut chunks } =
        Chunks::new(fields, pattern, &settled);
    // Packing, copies to oneself and unpacking, what is copied from each neighbour, and chunks.
    let launches = 3 + settled.borrowed.len() * 2 + later.len() + chunks.placed.len();
    let trace = PartTrace::new(trace, device, &streams, launches)?;
    let me = pattern.comm().rank();
    let host = device.info().host_accessible || device_messages;
    // Several threads, or a device that goes on by itself, have more to do with all messages at once.
    let one_by_one = device.info().runs_on_host() && device.info().compute_units == 1;

    let mut traffic = Traffic { steps: 1, ..Traffic::default() };
    // What goes to one and the other of the two messages in shared memory.
    let mut slots: [Vec<CopyItem>; 2] = Default::default();
    let mut lent = Vec::new();
    for (&peer, pieces) in pattern.sends().iter().filter(|(peer, _)| **peer != me) {
        let Some((ways, windows)) = settled.lent.get(&peer) else { continue };
        let in_order = |position: usize| fields[position].1.memory_order();
        let unturned = Orientation::default();
        let sources = pieces.iter().map(|piece| (piece.source_domain, &piece.source, unturned));
        let by = |way: Way| move |position: usize| (ways[position] == way).then(|| in_order(position));
        outgoing.add(peer, fields, by(Way::Message), sources.clone());
        outgoing.add_apart(peer, fields, by(Way::Apart), sources.clone(), host);
        if let Some(pair) = &windows.slots {
            let mut message = Messages::new();
            message.add(peer, fields, by(Way::Shared), sources);
            for (items, slot) in slots.iter_mut().zip(pair) {
                items.extend(message.copies(fields, message.place_in(slot)?, Direction::Send)?);
            }
            traffic.shared_bytes += message.bytes;
            let wire = trace.wire(Row::To(peer), "lend message", message.bytes);
            lent.push(Lent::message(peer, pair.each_ref().map(|slot| Arc::clone(&slot.window)), wire));
        }
        if let Some(window) = &windows.direct {
            let wire = trace.wire(Row::To(peer), "lend field", direct_bytes(fields, ways, pieces));
            lent.push(Lent::fields(peer, Arc::clone(window), wire));
        }
    }

    let mut incoming = Messages::new();
    let mut borrowed = Vec::new();
    for (&peer, pieces) in pattern.receives().iter().filter(|(peer, _)| **peer != me) {
        let Some((offer, ways, windows)) = settled.borrowed.get(&peer) else { continue };
        let targets = pieces.iter().map(|piece| (piece.target_domain, &piece.target, piece.orientation));
        let by =
            |way: Way| move |position: usize| (ways[position] == way).then(|| offer.fields[position].order);
        incoming.add(peer, fields, by(Way::Message), targets.clone());
        incoming.add_apart(peer, fields, by(Way::Apart), targets.clone(), host);
        let bound = |items: Vec<CopyItem>| own_copies(device, items, NextReader::Here);
        if let Some(window) = &windows.direct {
            let items = direct_copies(fields, ways, window, pieces)?;
            traffic.direct_bytes += bytes(&items);
            let wire = trace.wire(Row::From(peer), "read field", bytes(&items));
            let copied = device.create_event(false)?;
            borrowed.push(Borrowed::fields(peer, Arc::clone(window), bound(items)?, copied, wire));
        }
        if let Some(pair) = &windows.slots {
            let mut message = Messages::new();
            message.add(peer, fields, by(Way::Shared), targets);
            let mut copies = Vec::with_capacity(pair.len());
            for slot in pair {
                copies.push(bound(message.copies(fields, message.place_in(slot)?, Direction::Receive)?)?);
            }
            let late = fields
                .iter()
                .zip(ways)
                .any(|((_, field), way)| *way == Way::Shared && field.storage.is_none());
            let windows = pair.each_ref().map(|slot| Arc::clone(&slot.window));
            let wire = trace.wire(Row::From(peer), "read message", message.bytes);
            borrowed.push(Borrowed::message(peer, windows, copies, device.create_event(false)?, late, wire));
        }
    }

    let own = pattern.receives().get(&me).map_or(&[][..], Vec::as_slice);
    let items = local_copies(fields, own)?;
    traffic.local_bytes = bytes(&items);
    let in_fields = |message: &Placed| message.in_fields().map(|(_, bytes)| bytes).sum::<usize>();
    let sent = || outgoing.placed.iter().chain(later.iter().flat_map(|group| &group.placed));
    traffic.messages = sent().map(|message| message.stretches.len()).sum();
    traffic.message_bytes = sent().map(Placed::bytes).sum();
    traffic.chunked_bytes = sent().filter(|message| message.is_chunk()).map(Placed::bytes).sum();
    traffic.sent_in_place_bytes = outgoing.placed.iter().map(in_fields).sum();
    traffic.received_in_place_bytes = incoming.placed.iter().map(in_fields).sum();
    let mut in_place: Vec<usize> = outgoing
        .placed
        .iter()
        .chain(&incoming.placed)
        .flat_map(Placed::in_fields)
        .map(|(field, _)| field)
        .collect();
    in_place.sort_unstable();
    in_place.dedup();

    let end = later.iter_mut().fold(outgoing.bytes, |end, group| group.move_behind(end));
    let sent = Room { at_once: outgoing.bytes, bytes: end };
    let received = Room { at_once: incoming.bytes, bytes: chunks.move_behind(incoming.bytes) };
    let buffers = Buffers::new(device, sent, received, host)?;
    let bind_all = |messages, direction| {
        bind_messages(device, messages, fields, buffers.on_device(direction), direction, one_by_one)
    };
    let (mut sends, outgoing_copies) = bind_all(outgoing, Direction::Send)?;
    let (mut receives, mut unpack) = bind_all(incoming, Direction::Receive)?;
    let comes = !chunks.placed.is_empty();
    let groups = Groups::new(device, (sends.len(), &later), comes, fields, &buffers)?;
    sends.extend(later.iter().flat_map(|group| &group.placed).map(|chunk| (chunk.clone(), None, false)));
    receives.extend(bind_received(device, &chunks, fields, &buffers)?);
    let mut local = items;
    if device.info().asynchronous && traffic.local_bytes <= LOCAL_BYTES_WITH_UNPACKING && !unpack.is_empty() {
        unpack.append(&mut local);
    }
    let slot_bytes = bytes(&slots[0]);
    let moved = Bytes {
        packed: slot_bytes + bytes(&outgoing_copies),
        local: bytes(&local),
        unpacked: bytes(&unpack),
    };
    let largest = moved.packed.max(moved.local).max(moved.unpacked).max(traffic.direct_bytes);
    let ranks = if pattern.comm().has_threads() { pattern.comm().size() } else { 1 };
    streams.suit(device, largest, ranks);
    let mut pack = Vec::with_capacity(2);
    for items in slots {
        // Without shared memory the two lists are the same.
        if pack.is_empty() || !items.is_empty() {
            let items = items.into_iter().chain(outgoing_copies.iter().cloned()).collect();
            pack.push(device.bind_copies(items, NextReader::Elsewhere)?);
        }
    }
    let part = DevicePart {
        streams,
        pack,
        round: 0,
        local: device.bind_copies(local, NextReader::Here)?,
        unpack: device.bind_copies(unpack, NextReader::Here)?,
        sends: Vec::new(),
        receives: Vec::new(),
        groups,
        lent,
        borrowed,
        buffers: Arc::new(buffers),
        in_place: in_place.into_iter().filter_map(|field| fields[field].1.storage.clone()).collect(),
        traffic,
        before: device.create_event(false)?,
        packed: device.create_event(false)?,
        moved: device.create_event(false)?,
        unpacked: Unpacked::new(device, fields)?,
        phase: Phase::Idle,
        gate: None,
        trace,
        bytes: moved,
        recorded: None,
        device: device.clone(),
    };
    Ok(Unopened { part, sends, receives })
}

/// The messages in the order in which they are begun, the largest first, and the copies that serve all of them, or, where
/// messages are packed and unpacked `one_by_one`, those that are unpacked together.
///
/// Messages of short rows are: those of the two faces of the fastest axis lie on the same lines, and one sweep over both
/// takes as long as over one. They are packed together too, by what packs the first of them.
fn bind_messages<D: Device>(
    device: &D,
    messages: Messages,
    fields: &[(usize, BoundField)],
    buffer: Pointer,
    direction: Direction,
    one_by_one: bool,
) -> Result<(Vec<BoundMessage<D>>, Vec<CopyItem>), DeviceError> {
    let sends = direction == Direction::Send;
    let reader = if sends { NextReader::Elsewhere } else { NextReader::Here };
    let mut listed = Vec::with_capacity(messages.placed.len());
    for message in &messages.placed {
        let items = messages.copies_of_message(message, fields, buffer, direction)?;
        let together = !one_by_one || has_short_rows(&items);
        listed.push((message, items, together));
    }
    if one_by_one && listed.iter().filter(|(.., together)| *together).count() == 1 {
        listed.iter_mut().for_each(|(.., together)| *together = false);
    }
    let largest = listed.iter().filter(|(.., together)| *together).map(|(message, ..)| message.bytes()).max();
    listed.sort_by_key(|(message, _, together)| {
        let bytes = largest.filter(|_| *together).unwrap_or_else(|| message.bytes());
        std::cmp::Reverse((bytes, *together))
    });
    let mut all: Vec<CopyItem> =
        listed.iter().filter(|(.., together)| *together).flat_map(|(_, items, _)| items.clone()).collect();
    let mut bound = Vec::with_capacity(listed.len());
    for (message, items, together) in listed {
        let copies = match (one_by_one, together) {
            (false, _) => None,
            (true, false) => Some(own_copies(device, items, reader)?),
            // The first one packs for all that follow it.
            (true, true) if sends => Some(own_copies(device, std::mem::take(&mut all), reader)?),
            (true, true) => None,
        };
        bound.push((message.clone(), copies, messages.is_borrowed(message, fields)));
    }
    Ok((bound, all))
}

/// Whether most of the bytes of some copies are in rows shorter than a line of the cache.
fn has_short_rows(items: &[CopyItem]) -> bool {
    let short = |item: &&CopyItem| matches!(item, CopyItem::Box(copy) if copy.run_bytes() < LINE_BYTES);
    2 * items.iter().filter(short).map(CopyItem::bytes).sum::<usize>() > bytes(items)
}

/// What a rank's domains copy from each other and from themselves.
fn local_copies(fields: &[(usize, BoundField)], pieces: &[Piece]) -> Result<Vec<CopyItem>, DeviceError> {
    let mut items = Vec::new();
    for (_, field) in fields {
        for piece in pieces {
            let source = Side::of_field(field, piece.source_domain, &piece.source).turned(&piece.orientation);
            let target = Side::of_field(field, piece.target_domain, &piece.target);
            fill(&mut items, &source, &target, field, &piece.orientation)?;
        }
    }
    Ok(items)
}

/// What is copied straight from a neighbour's fields.
fn direct_copies(
    fields: &[(usize, BoundField)],
    ways: &[Way],
    window: &Window,
    pieces: &[Piece],
) -> Result<Vec<CopyItem>, DeviceError> {
    let mut items = Vec::new();
    for (position, (_, field)) in
        fields.iter().enumerate().filter(|(position, _)| ways[*position] == Way::Direct)
    {
        let size = field.element.bytes();
        for piece in pieces {
            let lent = lent_blocks(window)
                .iter()
                .find(|block| block.field == position && block.domain == piece.source_domain);
            let source = lent.and_then(|lent| Side::new(lent.pointer, &lent.layout, &piece.source, size));
            let Some(source) = source else {
                return Err(DeviceError::invalid(
                    "the field that a neighbour lends",
                    format!("field {position}, domain {}, with what it sends", piece.source_domain),
                    "none that holds it",
                ));
            };
            let target = Side::of_field(field, piece.target_domain, &piece.target);
            fill(&mut items, &source.turned(&piece.orientation), &target, field, &piece.orientation)?;
        }
    }
    Ok(items)
}

/// How many bytes a neighbour copies straight from our fields.
fn direct_bytes(fields: &[(usize, BoundField)], ways: &[Way], pieces: &[Piece]) -> usize {
    let direct = fields.iter().zip(ways).filter(|(_, way)| **way == Way::Direct);
    let bytes = direct.flat_map(|((_, field), _)| {
        let of_piece = |piece: &Piece| Side::of_field(field, piece.source_domain, &piece.source).elements();
        pieces.iter().map(move |piece| of_piece(piece) * field.element.bytes())
    });
    bytes.sum()
}

/// Opens the channels of a part, with its tag and the first one of later chunks; if one cannot be opened, gives up all that
/// there is.
fn open<D: Device>(
    unopened: Unopened<D>,
    transport: &dyn Transport,
    (tag, chunk_tag): (u32, u32),
) -> Result<DevicePart<D>, TransportError> {
    let Unopened { mut part, sends, receives } = unopened;
    let opened = (|| {
        for (placed, direction) in [(sends, Direction::Send), (receives, Direction::Receive)] {
            for (message, copies, borrowed) in placed {
                let buffer = part.buffers.on_wire(direction);
                let ranges = message.stretches.iter().map(|stretch| {
                    let pointer = match stretch.place {
                        Place::Buffer(offset) => buffer.offset(offset as isize),
                        Place::Field(pointer, _) => pointer,
                    };
                    MemoryRange { device: part.device.id(), pointer, bytes: stretch.bytes }
                });
                let ranges: Vec<_> = ranges.collect();
                let (peer, bytes, tag) = (message.peer, message.bytes(), message.tag(tag, chunk_tag));
                let in_field = message.in_fields().next().is_some();
                // SAFETY: the part keeps the buffers and the fields that the message lies in, and closes the channel
                // before it lets go of them; in `abandon` it hands them over to the keeper.
                let channel = unsafe { transport.open_parts(direction, peer, tag, &ranges)? };
                match direction {
                    Direction::Send => {
                        let wire = part.trace.wire(Row::To(peer), "send", bytes);
                        part.sends.push(Outgoing::new(peer, bytes, channel, in_field, copies, wire));
                    }
                    Direction::Receive => {
                        let wire = part.trace.wire(Row::From(peer), "receive", bytes);
                        let incoming = Incoming::new(peer, bytes, channel, in_field, copies, borrowed, wire);
                        part.receives.push(incoming);
                    }
                }
            }
        }
        Ok(())
    })();
    match opened {
        Ok(()) => Ok(part),
        Err(error) => {
            part.abandon(transport);
            Err(error)
        }
    }
}
