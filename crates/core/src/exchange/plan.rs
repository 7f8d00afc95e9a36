//! What happens when a pattern is bound to fields: ranks agree on what travels, messages are laid out, and every
//! copy of every later exchange is bound.
//!
//! Each field of a part travels to a neighbour in one of two ways. Where the two share memory and both own theirs,
//! the neighbour copies straight from the field (a window). Otherwise the cells travel in the one message of that
//! part to that neighbour: field after field, piece after piece, each aligned to [`ALIGNMENT`], with the axes in the
//! order in which they lie in the sender's memory.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::BindError;
use super::part::{Borrowed, DevicePart, Lent, Message, Part, Phase, Progress, Traffic};
use crate::device::{
    BoxCopy, Buffer, CopyItem, Device, DeviceError, MAX_COPY_AXES, MemoryKind, MemoryRange, Pointer, Priority,
};
use crate::domain::IndexBox;
use crate::element::ElementType;
use crate::field::{BoundField, Storage, copy_axes};
use crate::pattern::{Pattern, Piece};
use crate::transport::{Direction, Reduction, Transport, TransportError, Window, WindowRegion};

/// Where a piece begins in a message: at a multiple of this many bytes.
const ALIGNMENT: usize = 16;

/// Where a message begins in the buffer of its part: on a cache line of its own.
const MESSAGE_ALIGNMENT: usize = 128;

/// The most devices of one exchange: each bind takes as many tags, whatever it is bound to, so that ranks stay in step
/// even where they disagree.
const MOST_PARTS: usize = 16;

/// The fields of one device, before they are bound.
pub(crate) struct PartFields<D: Device> {
    pub(crate) device: D,
    /// Each with its number within the exchange.
    pub(crate) fields: Vec<(usize, BoundField)>,
}

/// What all ranks must agree on about one field: its number and its element type.
type FieldSignature = (usize, ElementType);

/// How the sender is ready to send the fields of one part to one neighbour.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// The device, as text.
    device: String,
    /// For each field of the part: the axes from the slowest to the fastest in the sender's memory, and whether the
    /// neighbour may copy straight from it.
    fields: Vec<([u8; MAX_COPY_AXES], bool)>,
}

/// What we copy from a rank that sends to us: its offer, which fields we copy ourselves, and the window.
type BorrowedFrom = (Offer, Vec<bool>, Option<Arc<Window>>);

/// What was settled with the neighbours about one part.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// For each rank that we send to: which fields it copies itself, and the window that it does so through.
    lent: BTreeMap<usize, (Vec<bool>, Option<Arc<Window>>)>,
    /// For each rank that sends to us.
    borrowed: BTreeMap<usize, BorrowedFrom>,
}

/// The fields of one device, before they are bound, whatever the device.
pub(crate) trait PartBuilder: Any {
    fn signature(&self) -> Vec<FieldSignature>;
    /// The components of each field; `None` on a rank that owns no block of it.
    fn components(&self) -> Vec<Option<usize>>;
    fn storages(&self) -> Vec<Arc<Storage>>;
    /// What does not fit the pattern, in words.
    fn misfit(&self, pattern: &Pattern) -> Option<String>;
    fn offer(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        direct: bool,
    ) -> Result<(Offer, Option<Arc<Window>>), TransportError>;
    /// Which fields of an offer are copied straight.
    fn accept(&self, offer: &Offer, direct: bool) -> Vec<bool>;
    fn build(
        self: Box<Self>,
        pattern: &Pattern,
        tag: u32,
        settled: Settled,
    ) -> Result<Box<dyn Part>, BuildError>;
}

/// Why this rank could not build a part.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Transport(#[from] TransportError),
}

type Plan = (Vec<Box<dyn Part>>, Vec<Arc<Storage>>);

/// Collective: plans an exchange of the fields in `builders`.
pub(crate) fn plan(
    pattern: &Pattern,
    builders: Vec<Box<dyn PartBuilder>>,
    direct: bool,
) -> Result<Plan, BindError> {
    let comm = pattern.comm();
    let refuse = |agreed: Result<(), String>| agreed.map_err(BindError::Refused);

    let tag = comm.take_tags(MOST_PARTS as u32);
    let signature: Vec<_> = builders.iter().map(|part| part.signature()).collect();
    let mine = (tag, direct, signature);
    let first: (u32, bool, Vec<Vec<FieldSignature>>) = comm.broadcast(0, &mine)?;
    let complaint = disagreement(&mine, &first)
        .or_else(|| {
            let found = builders.len();
            (found > MOST_PARTS)
                .then(|| format!("the fields are on {found} devices, expected at most {MOST_PARTS}"))
        })
        .or_else(|| builders.iter().find_map(|part| part.misfit(pattern)));
    refuse(comm.agree(complaint)?)?;

    // A rank without blocks knows no components and agrees with any.
    let known: Vec<Option<usize>> = builders.iter().flat_map(|part| part.components()).collect();
    let mut largest: Vec<u64> = known.iter().map(|components| components.unwrap_or(0) as u64).collect();
    comm.all_reduce(&mut largest, Reduction::Max)?;
    let smaller = known
        .iter()
        .zip(&largest)
        .position(|(known, largest)| known.is_some_and(|known| known as u64 != *largest));
    let complaint = smaller.map(|position| {
        let (here, there) = (known[position].unwrap_or(0), largest[position]);
        format!("a field has {here} components here and {there} on another rank")
    });
    refuse(comm.agree(complaint)?)?;

    let settled = settle(pattern, &builders, tag, direct)?;
    let storages = builders.iter().flat_map(|part| part.storages()).collect();
    let mut parts = Vec::with_capacity(builders.len());
    let mut failed = None;
    for (number, (builder, settled)) in builders.into_iter().zip(settled).enumerate() {
        match builder.build(pattern, tag + number as u32, settled) {
            Ok(part) => parts.push(part),
            Err(error) => failed = failed.or(Some(error.to_string())),
        }
    }
    let agreed = comm.agree(failed);
    if !matches!(agreed, Ok(Ok(()))) {
        parts.iter_mut().for_each(|part| part.abandon(&**comm.transport()));
    }
    refuse(agreed?)?;
    Ok((parts, storages))
}

fn disagreement(
    mine: &(u32, bool, Vec<Vec<FieldSignature>>),
    first: &(u32, bool, Vec<Vec<FieldSignature>>),
) -> Option<String> {
    if mine == first {
        return None;
    }
    if mine.0 != first.0 {
        return Some(
            "exchanges were bound in another order, or another number of times, than on rank 0".into(),
        );
    }
    if mine.1 != first.1 {
        return Some("the option `direct` is not that of rank 0".into());
    }
    let show = |parts: &Vec<Vec<FieldSignature>>| {
        let mut fields: Vec<(usize, String)> = parts
            .iter()
            .enumerate()
            .flat_map(|(part, fields)| {
                fields.iter().map(move |(number, element)| (*number, format!("{element} (device {part})")))
            })
            .collect();
        fields.sort();
        let fields: Vec<String> = fields.into_iter().map(|(_, text)| text).collect();
        format!("[{}]", fields.join(", "))
    };
    Some(format!("the fields are {} here and {} on rank 0", show(&mine.2), show(&first.2)))
}

/// Settles with every neighbour which fields it copies itself.
fn settle(
    pattern: &Pattern,
    builders: &[Box<dyn PartBuilder>],
    tag: u32,
    direct: bool,
) -> Result<Vec<Settled>, TransportError> {
    let comm = pattern.comm();
    let others = |peer: &&usize| **peer != comm.rank();
    let mut windows: BTreeMap<usize, Vec<Option<Arc<Window>>>> = BTreeMap::new();
    let mut offers: Vec<(usize, Vec<Offer>)> = Vec::new();
    for &peer in pattern.sends().keys().filter(others) {
        let made = builders
            .iter()
            .enumerate()
            .map(|(number, part)| part.offer(pattern, peer, tag + number as u32, direct))
            .collect::<Result<Vec<_>, _>>()?;
        let (to_send, lent) = made.into_iter().unzip();
        offers.push((peer, to_send));
        windows.insert(peer, lent);
    }
    let mut settled: Vec<Settled> = builders.iter().map(|_| Settled::default()).collect();
    let mut answers: Vec<(usize, Vec<Vec<bool>>)> = Vec::new();
    for (peer, offers) in comm.sparse_exchange(&offers)? {
        let mut accepted = Vec::with_capacity(offers.len());
        for (number, offer) in offers.into_iter().enumerate() {
            let window = comm.transport().attach(peer, tag + number as u32)?;
            let accept = builders[number].accept(&offer, direct && window.is_some());
            let window = window.filter(|_| accept.contains(&true));
            accepted.push(accept.clone());
            settled[number].borrowed.insert(peer, (offer, accept, window));
        }
        answers.push((peer, accepted));
    }
    for (peer, accepted) in comm.sparse_exchange(&answers)? {
        let lent = windows.remove(&peer).unwrap_or_default();
        for (number, (accept, window)) in accepted.into_iter().zip(lent).enumerate() {
            let window = window.filter(|_| accept.contains(&true));
            settled[number].lent.insert(peer, (accept, window));
        }
    }
    Ok(settled)
}

impl<D: Device> PartBuilder for PartFields<D> {
    fn signature(&self) -> Vec<FieldSignature> {
        self.fields.iter().map(|(number, field)| (*number, field.element)).collect()
    }

    fn components(&self) -> Vec<Option<usize>> {
        let first = |field: &BoundField| field.blocks.first().map(|(_, layout)| layout.components());
        self.fields.iter().map(|(_, field)| first(field)).collect()
    }

    fn storages(&self) -> Vec<Arc<Storage>> {
        self.fields.iter().filter_map(|(_, field)| field.storage.clone()).collect()
    }

    fn misfit(&self, pattern: &Pattern) -> Option<String> {
        self.fields.iter().find_map(|(number, field)| misfit(pattern, *number, field))
    }

    fn offer(
        &self,
        pattern: &Pattern,
        peer: usize,
        tag: u32,
        direct: bool,
    ) -> Result<(Offer, Option<Arc<Window>>), TransportError> {
        let transport = pattern.comm().transport();
        let mut regions = Vec::new();
        let mut keep: Vec<Arc<dyn Any + Send + Sync>> = Vec::new();
        for (position, (_, field)) in self.fields.iter().enumerate() {
            let Some(storage) = &field.storage else { continue };
            keep.push(Arc::clone(storage) as _);
            regions.extend(field.blocks.iter().enumerate().map(|(domain, (pointer, layout))| WindowRegion {
                field: position,
                domain,
                device: self.device.id(),
                pointer: *pointer,
                layout: layout.clone(),
            }));
        }
        let window = Arc::new(Window::new(regions, keep));
        let lent = direct && transport.publish(peer, tag, &window)?;
        let fields = self.fields.iter().map(|(_, field)| {
            let order = field.blocks.first().map(|(_, layout)| layout.memory_order());
            let order = order.unwrap_or(std::array::from_fn(|axis| axis as u8));
            (order, lent && field.storage.is_some())
        });
        let offer = Offer { device: self.device.id().to_string(), fields: fields.collect() };
        Ok((offer, lent.then_some(window)))
    }

    fn accept(&self, offer: &Offer, direct: bool) -> Vec<bool> {
        let reachable = direct && offer.device == self.device.id().to_string();
        let fields = self.fields.iter().zip(&offer.fields);
        fields.map(|((_, field), (_, offered))| reachable && *offered && field.storage.is_some()).collect()
    }

    fn build(
        self: Box<Self>,
        pattern: &Pattern,
        tag: u32,
        settled: Settled,
    ) -> Result<Box<dyn Part>, BuildError> {
        let transport = &**pattern.comm().transport();
        let part = build(*self, pattern, transport.info().device_memory, settled)?;
        Ok(Box::new(open(part, transport, tag)?))
    }
}

/// Checks that a field has a block for each domain, with a margin wide enough for the halo.
fn misfit(pattern: &Pattern, number: usize, field: &BoundField) -> Option<String> {
    let domains = pattern.domains();
    if field.blocks.len() != domains.len() {
        let (found, expected) = (field.blocks.len(), domains.len());
        return Some(format!(
            "field {number} has {found} blocks, expected one for each of the {expected} domains"
        ));
    }
    let components = field.blocks.first().map_or(1, |(_, layout)| layout.components());
    for (domain, (owned, (pointer, layout))) in domains.iter().zip(&field.blocks).enumerate() {
        if !owned.is_empty() && layout.owned() != *owned {
            let found = layout.owned();
            return Some(format!(
                "field {number} has the cells {found} as domain {domain}, expected {owned}"
            ));
        }
        if layout.components() != components {
            let found = layout.components();
            return Some(format!(
                "field {number} has {components} and {found} components in two of its blocks"
            ));
        }
        if !layout.allocated().is_empty() && pointer.as_ptr().addr() % field.alignment != 0 {
            return Some(format!(
                "field {number} is not aligned to {} bytes, as its elements are",
                field.alignment
            ));
        }
    }
    let targets = pattern.receives().values().flatten();
    targets.filter(|piece| !field.blocks[piece.target_domain].1.allocated().encloses(&piece.target)).map(|piece| {
        let allocated = field.blocks[piece.target_domain].1.allocated();
        format!(
            "field {number} has memory for the cells {allocated} of domain {}, expected also the halo cells {}",
            piece.target_domain, piece.target
        )
    }).next()
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
    layout: &crate::field::BlockLayout,
    cells: &IndexBox,
    element_bytes: usize,
) -> (Pointer, [(usize, isize); MAX_COPY_AXES]) {
    // `misfit` and the neighbour's own check have made sure that the cells are there.
    let offset = layout.offset(cells.lower(), 0).unwrap_or(0) * element_bytes as isize;
    (pointer.offset(offset), layout.region_axes(cells, element_bytes))
}

/// Binds the copies of a part and allocates its buffers.
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
