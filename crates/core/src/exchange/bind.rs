//! What one device's part of an exchange is bound to: its messages laid out, its buffers, and every copy of every later
//! exchange.
//!
//! The cells of a piece lie in a message with the axes in the order of the sender's memory, from the slowest to the
//! fastest, so that packing walks memory in sequence. Fields follow each other, and the pieces of each field, each
//! aligned to [`ALIGNMENT`].

use std::sync::Arc;

use super::part::{Borrowed, DevicePart, Lent, Message, Part, Phase, Progress, Traffic};
use super::plan::{BuildError, PartFields, Settled};
use crate::device::{
    BoxCopy, Buffer, CopyItem, Device, DeviceError, MAX_COPY_AXES, MemoryKind, MemoryRange, Pointer, Priority,
};
use crate::domain::IndexBox;
use crate::field::{BlockLayout, BoundField, copy_axes};
use crate::pattern::{Pattern, Piece};
use crate::transport::{Direction, Transport, TransportError, Window};

/// Where a piece begins in a message: at a multiple of this many bytes.
const ALIGNMENT: usize = 16;

/// Where a message begins in the buffer of its part: on cache lines of its own.
const MESSAGE_ALIGNMENT: usize = 128;

/// Binds the copies of a part, allocates its buffers and opens its channels.
pub(super) fn bind<D: Device>(
    fields: PartFields<D>,
    pattern: &Pattern,
    tag: u32,
    settled: Settled,
) -> Result<Box<dyn Part>, BuildError> {
    let transport = &**pattern.comm().transport();
    let part = build(fields, pattern, transport.info().device_memory, settled)?;
    Ok(Box::new(open(part, transport, tag)?))
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
struct Messages {
    placed: Vec<Placed>,
    /// The field, the piece's box in it, the offset in the buffer, and the order of axes in the message.
    items: Vec<(usize, usize, IndexBox, usize, [u8; MAX_COPY_AXES])>,
    bytes: usize,
}

impl Messages {
    fn new() -> Messages {
        Messages { placed: Vec::new(), items: Vec::new(), bytes: 0 }
    }

    /// Adds the message for one neighbour: of each field that `travels`, every piece.
    fn add<'p>(
        &mut self,
        peer: usize,
        fields: &[(usize, BoundField)],
        travels: impl Fn(usize) -> Option<[u8; MAX_COPY_AXES]>,
        pieces: impl Iterator<Item = (usize, &'p IndexBox)> + Clone,
    ) {
        let begin = self.bytes.next_multiple_of(MESSAGE_ALIGNMENT);
        let mut end = begin;
        for (position, (_, field)) in fields.iter().enumerate() {
            let Some(order) = travels(position) else { continue };
            for (domain, cells) in pieces.clone() {
                let at = end.next_multiple_of(ALIGNMENT);
                let values = cells.cells() as usize * field.blocks[domain].1.components();
                self.items.push((position, domain, *cells, at, order));
                end = at + values * field.element.bytes();
            }
        }
        if end > begin {
            self.bytes = end;
            self.placed.push(Placed { peer, begin, bytes: end - begin });
        }
    }

    /// The bound copies, to the message or from it.
    fn copies<D: Device>(
        &self,
        device: &D,
        fields: &[(usize, BoundField)],
        buffer: Pointer,
        direction: Direction,
    ) -> Result<D::Copies, DeviceError> {
        let items = self.items.iter().map(|(position, domain, cells, at, order)| {
            let field = &fields[*position].1;
            let size = field.element.bytes();
            let (pointer, axes) = block(field, *domain, cells);
            let mut packed = axes;
            let mut stride = size as isize;
            for &axis in order.iter().rev() {
                packed[usize::from(axis)].1 = stride;
                stride *= packed[usize::from(axis)].0 as isize;
            }
            let message = buffer.offset(*at as isize);
            let copy = match direction {
                Direction::Send => BoxCopy::new(pointer, message, size, &copy_axes(&axes, &packed)),
                Direction::Receive => BoxCopy::new(message, pointer, size, &copy_axes(&packed, &axes)),
            };
            copy.map(CopyItem::Box)
        });
        device.bind_copies(items.collect::<Result<_, _>>()?)
    }
}

/// The address of the first of `cells` in a field's block, and the axes from there on.
fn block(field: &BoundField, domain: usize, cells: &IndexBox) -> (Pointer, [(usize, isize); MAX_COPY_AXES]) {
    let (pointer, layout) = &field.blocks[domain];
    at(*pointer, layout, cells, field.element.bytes())
}

fn at(
    pointer: Pointer,
    layout: &BlockLayout,
    cells: &IndexBox,
    element_bytes: usize,
) -> (Pointer, [(usize, isize); MAX_COPY_AXES]) {
    // `misfit` and the neighbour's own check have made sure that the cells are there.
    let offset = layout.offset(cells.lower(), 0).unwrap_or(0) * element_bytes as isize;
    (pointer.offset(offset), layout.region_axes(cells, element_bytes))
}

fn build<D: Device>(
    part: PartFields<D>,
    pattern: &Pattern,
    device_messages: bool,
    settled: Settled,
) -> Result<Unopened<D>, DeviceError> {
    let PartFields { device, fields } = part;
    let me = pattern.comm().rank();

    let mut outgoing = Messages::new();
    let mut lent = Vec::new();
    for (&peer, pieces) in pattern.sends().iter().filter(|(peer, _)| **peer != me) {
        let (accepted, window) = settled.lent.get(&peer).cloned().unwrap_or_default();
        let travels = |position: usize| {
            let own = fields[position].1.blocks.first().map(|(_, layout)| layout.memory_order());
            own.filter(|_| !accepted.get(position).copied().unwrap_or(false))
        };
        let sources = pieces.iter().map(|piece| (piece.source_domain, &piece.source));
        outgoing.add(peer, &fields, travels, sources);
        lent.extend(window.map(|window| Lent { peer, window, returned: false }));
    }

    let mut incoming = Messages::new();
    let mut borrowed = Vec::new();
    let mut traffic = Traffic::default();
    for (&peer, pieces) in pattern.receives().iter().filter(|(peer, _)| **peer != me) {
        let Some((offer, accepted, window)) = settled.borrowed.get(&peer) else { continue };
        let travels = |position: usize| (!accepted[position]).then_some(offer.fields[position].0);
        let targets = pieces.iter().map(|piece| (piece.target_domain, &piece.target));
        incoming.add(peer, &fields, travels, targets);
        if let Some(window) = window {
            let items = direct_copies(&fields, accepted, window, pieces)?;
            traffic.direct_bytes += bytes(&items);
            borrowed.push(Borrowed {
                peer,
                window: Arc::clone(window),
                copies: device.bind_copies(items)?,
                copied: device.create_event(false)?,
                progress: Progress::Done,
            });
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
    let part = DevicePart {
        stream: device.create_stream(Priority::High)?,
        pack: outgoing.copies(&device, &fields, send_buffer.pointer(), Direction::Send)?,
        local: device.bind_copies(items)?,
        unpack: incoming.copies(&device, &fields, receive_buffer.pointer(), Direction::Receive)?,
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
            let (source, from) = block(field, piece.source_domain, &piece.source);
            let (target, to) = block(field, piece.target_domain, &piece.target);
            items.push(CopyItem::Box(BoxCopy::new(
                source,
                target,
                field.element.bytes(),
                &copy_axes(&from, &to),
            )?));
        }
    }
    Ok(items)
}

/// What is copied straight from a neighbour's fields.
fn direct_copies(
    fields: &[(usize, BoundField)],
    accepted: &[bool],
    window: &Window,
    pieces: &[Piece],
) -> Result<Vec<CopyItem>, DeviceError> {
    let mut items = Vec::new();
    for (position, (_, field)) in fields.iter().enumerate().filter(|(position, _)| accepted[*position]) {
        let size = field.element.bytes();
        for piece in pieces {
            let lent = window
                .regions()
                .iter()
                .find(|region| region.field == position && region.domain == piece.source_domain);
            let Some(lent) = lent.filter(|lent| lent.layout.allocated().encloses(&piece.source)) else {
                return Err(DeviceError::invalid(
                    "the field that a neighbour lends",
                    format!("field {position}, domain {}, cells {}", piece.source_domain, piece.source),
                    "none that holds them",
                ));
            };
            let (source, from) = at(lent.pointer, &lent.layout, &piece.source, size);
            let (target, to) = block(field, piece.target_domain, &piece.target);
            items.push(CopyItem::Box(BoxCopy::new(source, target, size, &copy_axes(&from, &to))?));
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
