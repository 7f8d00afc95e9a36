//! What one device's part of an exchange is bound to: its messages laid out, its buffers, and every copy of every later
//! exchange.
//!
//! The cells of a piece lie in a message with the axes in the order of the sender's memory, from the slowest to the
//! fastest, so that packing walks memory in sequence; listed cells are an axis like any other. Fields follow each
//! other, and the pieces of each field, each aligned to [`ALIGNMENT`]. Axes and vectors are turned where a halo is
//! written, from a message or from a field, and never in a message.

use std::sync::Arc;

use super::choice::Stores;
use super::part::{Borrowed, DevicePart, Lent, Message, Part, Phase, Traffic};
use super::path::Way;
use super::plan::{BuildError, PartFields};
use super::segment::Slot;
use super::settle::Settled;
use super::side::{Side, fill, join};
use crate::device::{
    Buffer, CopyItem, Device, DeviceError, MAX_COPY_AXES, MemoryKind, MemoryRange, NextReader, Pointer,
    Priority,
};
use crate::domain::Orientation;
use crate::field::BoundField;
use crate::pattern::{Cells, Pattern, Piece};
use crate::transport::{Direction, Transport, TransportError, Window};

/// Where a piece begins in a message: at a multiple of this many bytes, on cache lines of its own.
const ALIGNMENT: usize = 64;

/// Where a message begins in the buffer of its part: on cache lines of its own.
pub(super) const MESSAGE_ALIGNMENT: usize = 128;

/// Binds the copies of a part, allocates its buffers and opens its channels.
pub(super) fn bind<D: Device>(
    fields: PartFields<D>,
    pattern: &Pattern,
    tag: u32,
    settled: Settled,
    stores: Stores,
) -> Result<Box<dyn Part>, BuildError> {
    let transport = &**pattern.comm().transport();
    let part = build(fields, pattern, transport.info().device_memory, settled, stores)?;
    Ok(Box::new(open(part, transport, tag)?))
}

/// The bytes of what comes from `peer` through shared memory, from fields whose axes are in `orders` there.
pub(super) fn packed_bytes(
    fields: &[(usize, BoundField)],
    pattern: &Pattern,
    peer: usize,
    orders: &[[u8; MAX_COPY_AXES]],
    ways: &[Way],
) -> usize {
    let pieces = pattern.receives().get(&peer).map_or(&[][..], Vec::as_slice);
    let targets = pieces.iter().map(|piece| (piece.target_domain, &piece.target, piece.orientation));
    let mut message = Messages::new();
    let packed = |position: usize| (ways[position] == Way::Shared).then(|| orders[position]);
    message.add(peer, fields, packed, targets);
    message.bytes
}

/// A part whose channels are not open yet: their messages and the place of each in its buffer.
struct Unopened<D: Device> {
    part: DevicePart<D>,
    sends: Vec<Placed>,
    receives: Vec<Placed>,
}

/// A message to or from `peer` and its place in the buffer.
#[derive(Debug, Clone, Copy)]
struct Placed {
    peer: usize,
    begin: usize,
    bytes: usize,
}

/// The copies between fields and messages in one direction, with the addresses in the message still relative.
pub(super) struct Messages {
    placed: Vec<Placed>,
    items: Vec<Placing>,
    pub(super) bytes: usize,
}

/// Cells of a field and their place in a message.
struct Placing {
    /// The place of the field in its part.
    field: usize,
    cells: Side,
    /// The offset in the buffer.
    at: usize,
    /// The order of axes in the message, as the sender numbers them.
    order: [u8; MAX_COPY_AXES],
    /// Along which axes of the message those of the cells run.
    orientation: Orientation,
}

impl Messages {
    pub(super) fn new() -> Messages {
        Messages { placed: Vec::new(), items: Vec::new(), bytes: 0 }
    }

    /// Adds the message for one neighbour: of each field that `travels`, every piece.
    pub(super) fn add<'p>(
        &mut self,
        peer: usize,
        fields: &[(usize, BoundField)],
        travels: impl Fn(usize) -> Option<[u8; MAX_COPY_AXES]>,
        pieces: impl Iterator<Item = (usize, &'p Cells, Orientation)> + Clone,
    ) {
        let begin = self.bytes.next_multiple_of(MESSAGE_ALIGNMENT);
        let mut end = begin;
        for (position, (_, field)) in fields.iter().enumerate() {
            let Some(order) = travels(position) else { continue };
            for (domain, cells, orientation) in pieces.clone() {
                let at = end.next_multiple_of(ALIGNMENT);
                let cells = Side::of_field(field, domain, cells);
                end = at + cells.elements() * field.element.bytes();
                self.items.push(Placing { field: position, cells, at, order, orientation });
            }
        }
        if end > begin {
            self.bytes = end;
            self.placed.push(Placed { peer, begin, bytes: end - begin });
        }
    }

    /// The address of the message in shared memory.
    fn place_in(&self, slot: &Slot) -> Result<Pointer, DeviceError> {
        let (expected, found) = (self.bytes, slot.bytes);
        let fits = found >= expected;
        fits.then_some(slot.message).ok_or_else(|| {
            DeviceError::invalid("the shared memory of a message", format!("{expected} bytes or more"), found)
        })
    }

    /// The copies to the messages, which lie from `buffer` on, or from them.
    pub(super) fn copies(
        &self,
        fields: &[(usize, BoundField)],
        buffer: Pointer,
        direction: Direction,
    ) -> Result<Vec<CopyItem>, DeviceError> {
        let mut items = Vec::with_capacity(self.items.len());
        for Placing { field, cells, at, order, orientation } in &self.items {
            let field = &fields[*field].1;
            let size = field.element.bytes();
            let message = cells.packed(buffer.offset(*at as isize), order, size, orientation);
            match direction {
                Direction::Send => items.push(join(cells, &message, size, None)?),
                Direction::Receive => fill(&mut items, &message, cells, field, orientation)?,
            }
        }
        Ok(items)
    }
}

fn build<D: Device>(
    part: PartFields<D>,
    pattern: &Pattern,
    device_messages: bool,
    settled: Settled,
    stores: Stores,
) -> Result<Unopened<D>, DeviceError> {
    let PartFields { device, fields } = part;
    let me = pattern.comm().rank();

    let mut traffic = Traffic { steps: 1, ..Traffic::default() };
    let mut outgoing = Messages::new();
    // What goes to one and the other of the two messages in shared memory.
    let mut slots: [Vec<CopyItem>; 2] = Default::default();
    let mut lent = Vec::new();
    for (&peer, pieces) in pattern.sends().iter().filter(|(peer, _)| **peer != me) {
        let Some((ways, windows)) = settled.lent.get(&peer) else { continue };
        let in_order = |position: usize| fields[position].1.memory_order();
        let unturned = Orientation::default();
        let sources = pieces.iter().map(|piece| (piece.source_domain, &piece.source, unturned));
        let by = |way: Way| move |position: usize| (ways[position] == way).then(|| in_order(position));
        outgoing.add(peer, &fields, by(Way::Message), sources.clone());
        if let Some(pair) = &windows.slots {
            let mut message = Messages::new();
            message.add(peer, &fields, by(Way::Shared), sources);
            for (items, slot) in slots.iter_mut().zip(pair) {
                items.extend(message.copies(&fields, message.place_in(slot)?, Direction::Send)?);
            }
            traffic.shared_bytes += message.bytes;
            lent.push(Lent::message(peer, pair.each_ref().map(|slot| Arc::clone(&slot.window))));
        }
        lent.extend(windows.direct.iter().map(|window| Lent::fields(peer, Arc::clone(window))));
    }

    let mut incoming = Messages::new();
    let mut borrowed = Vec::new();
    for (&peer, pieces) in pattern.receives().iter().filter(|(peer, _)| **peer != me) {
        let Some((offer, ways, windows)) = settled.borrowed.get(&peer) else { continue };
        let targets = pieces.iter().map(|piece| (piece.target_domain, &piece.target, piece.orientation));
        let by =
            |way: Way| move |position: usize| (ways[position] == way).then(|| offer.fields[position].order);
        incoming.add(peer, &fields, by(Way::Message), targets.clone());
        let bound = |items: Vec<CopyItem>| device.bind_copies(items, NextReader::Here);
        if let Some(window) = &windows.direct {
            let items = direct_copies(&fields, ways, window, pieces)?;
            traffic.direct_bytes += bytes(&items);
            let copied = device.create_event(false)?;
            borrowed.push(Borrowed::fields(peer, Arc::clone(window), bound(items)?, copied));
        }
        if let Some(pair) = &windows.slots {
            let mut message = Messages::new();
            message.add(peer, &fields, by(Way::Shared), targets);
            let mut copies = Vec::with_capacity(pair.len());
            for slot in pair {
                copies.push(bound(message.copies(&fields, message.place_in(slot)?, Direction::Receive)?)?);
            }
            let late = fields
                .iter()
                .zip(ways)
                .any(|((_, field), way)| *way == Way::Shared && field.storage.is_none());
            let windows = pair.each_ref().map(|slot| Arc::clone(&slot.window));
            borrowed.push(Borrowed::message(peer, windows, copies, device.create_event(false)?, late));
        }
    }

    let own = pattern.receives().get(&me).map_or(&[][..], Vec::as_slice);
    let items = local_copies(&fields, own)?;
    traffic.local_bytes = bytes(&items);
    traffic.messages = outgoing.placed.len();
    traffic.message_bytes = outgoing.placed.iter().map(|message| message.bytes).sum();

    let host = device.info().host_accessible || device_messages;
    let kind = if host { MemoryKind::Device } else { MemoryKind::Pinned };
    let send_buffer = device.allocate(outgoing.bytes, kind)?;
    let receive_buffer = device.allocate(incoming.bytes, kind)?;
    let outgoing_copies = outgoing.copies(&fields, send_buffer.pointer(), Direction::Send)?;
    let mut pack = Vec::with_capacity(2);
    for items in slots {
        // Without shared memory the two lists are the same.
        if pack.is_empty() || !items.is_empty() {
            let items = items.into_iter().chain(outgoing_copies.iter().cloned()).collect();
            pack.push(device.bind_copies(items, stores.reader())?);
        }
    }
    let unpack = incoming.copies(&fields, receive_buffer.pointer(), Direction::Receive)?;
    let part = DevicePart {
        stream: device.create_stream(Priority::High)?,
        pack,
        round: 0,
        local: device.bind_copies(items, NextReader::Here)?,
        unpack: device.bind_copies(unpack, NextReader::Here)?,
        sends: Vec::new(),
        receives: Vec::new(),
        lent,
        borrowed,
        buffers: Arc::new([send_buffer, receive_buffer]),
        traffic,
        before: device.create_event(false)?,
        packed: device.create_event(false)?,
        moved: device.create_event(false)?,
        unpacked: device.create_event(false)?,
        phase: Phase::Idle,
        device,
    };
    Ok(Unopened { part, sends: outgoing.placed, receives: incoming.placed })
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
            let lent = window
                .regions()
                .iter()
                .find(|region| region.field == position && region.domain == piece.source_domain);
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

fn bytes(items: &[CopyItem]) -> usize {
    items.iter().map(CopyItem::bytes).sum()
}

/// Opens the channels of a part; if one cannot be opened, gives up all that there is.
fn open<D: Device>(
    unopened: Unopened<D>,
    transport: &dyn Transport,
    tag: u32,
) -> Result<DevicePart<D>, TransportError> {
    let Unopened { mut part, sends, receives } = unopened;
    let opened = (|| {
        for (placed, direction) in [(sends, Direction::Send), (receives, Direction::Receive)] {
            for Placed { peer, begin, bytes } in placed {
                let buffer = &part.buffers[usize::from(direction == Direction::Receive)];
                let pointer = buffer.pointer().offset(begin as isize);
                let memory = MemoryRange { device: part.device.id(), pointer, bytes };
                // SAFETY: the part owns the buffer and closes the channel before it lets go of it; in `abandon` it
                // hands the buffer over as the keeper.
                let channel = unsafe { transport.open(direction, peer, tag, memory)? };
                let messages =
                    if direction == Direction::Send { &mut part.sends } else { &mut part.receives };
                messages.push(Message { peer, bytes, channel, complete: true });
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
