//! Where the cells that travel in messages lie in them.
//!
//! The cells of a piece lie in a message with the axes in the order of the sender's memory, from the slowest to the
//! fastest, so that packing walks memory in sequence; listed cells are an axis like any other. Fields follow each
//! other, and the pieces of each field, each aligned to [`ALIGNMENT`]. Axes and vectors are turned where a halo is
//! written, from a message or from a field, and never in a message.
//!
//! Pieces that go [apart](super::path::Way::Apart) are parts of their own of the message. One that lies in a field as it
//! would lie in the message is sent from the field, or received there; else it has a place in the buffer.
//!
//! A [chunk](crate::exchange::bind::chunks) is a message of its own, of pieces and of parts of pieces that lie in it in the same way.

use std::ops::Range;

use super::cut::ALIGNMENT;
use super::segment::{MESSAGE_ALIGNMENT, Slot};
use super::side::{Side, fill, join};
use crate::device::{CopyItem, DeviceError, MAX_COPY_AXES, Pointer};
use crate::domain::Orientation;
use crate::exchange::options::Way;
use crate::field::BoundField;
use crate::pattern::{Cells, Pattern};
use crate::transport::Direction;

/// The copies between fields and messages in one direction, with the addresses in the messages still relative.
pub(crate) struct MessageSet {
    pub(crate) messages: Vec<MessageLayout>,
    items: Vec<PackedCells>,
    /// Where they begin in the buffer.
    pub(crate) begin: usize,
    /// Where they end in the buffer, and what comes next begins.
    pub(crate) bytes: usize,
}

/// A message to or from `peer`.
#[derive(Debug, Clone)]
pub(crate) struct MessageLayout {
    pub(crate) peer: usize,
    /// Its number among the chunks of what goes to that neighbour; `None` where that goes whole.
    chunk: Option<usize>,
    pub(crate) stretches: Vec<Stretch>,
    /// Which copies are to it or from it.
    items: Range<usize>,
}

/// A part of a message that lies in one place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) location: Location,
    pub(crate) bytes: usize,
}

/// Where a part of a message lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Location {
    /// At this offset in the buffer.
    Buffer(usize),
    /// At this address of the field with this place in its part.
    Field(Pointer, usize),
}

/// Cells of a field and their place in a message.
#[derive(Debug, Clone)]
pub(crate) struct PackedCells {
    /// The place of the field in its part.
    pub(crate) field: usize,
    pub(crate) cells: Side,
    /// The offset in the buffer.
    pub(crate) at: usize,
    /// The order of axes in the message, as the sender numbers them.
    pub(crate) order: [u8; MAX_COPY_AXES],
    /// Along which axes of the message those of the cells run.
    pub(crate) orientation: Orientation,
}

/// Of each field that `travels`, the cells of every piece in the order of axes that it gives.
pub(crate) fn cells_of<'p>(
    fields: &[(usize, BoundField)],
    travels: impl Fn(usize) -> Option<[u8; MAX_COPY_AXES]>,
    pieces: impl Iterator<Item = (usize, &'p Cells, Orientation)> + Clone,
) -> Vec<PackedCells> {
    let mut all = Vec::new();
    for (position, (_, field)) in fields.iter().enumerate() {
        let Some(order) = travels(position) else { continue };
        all.extend(pieces.clone().map(|(domain, cells, orientation)| {
            let cells = Side::of_field(field, domain, cells);
            PackedCells { field: position, cells, at: 0, order, orientation }
        }));
    }
    all
}

/// The bytes of what comes from `peer` through shared memory, from fields whose axes are in `orders` there.
pub(crate) fn packed_bytes(
    fields: &[(usize, BoundField)],
    pattern: &Pattern,
    peer: usize,
    orders: &[[u8; MAX_COPY_AXES]],
    ways: &[Way],
) -> usize {
    let packed = |position: usize| (ways[position] == Way::Shared).then(|| orders[position]);
    let mut message = MessageSet::new();
    message.add(peer, None, cells_of(fields, packed, targets(pattern, peer)), fields);
    message.bytes
}

/// The cells that go to `peer`, with their domains, as they lie here.
pub(crate) fn sources(
    pattern: &Pattern,
    peer: usize,
) -> impl Iterator<Item = (usize, &Cells, Orientation)> + Clone {
    let pieces = pattern.sends().get(&peer).map_or(&[][..], Vec::as_slice);
    pieces.iter().map(|piece| (piece.source_domain, &piece.source, Orientation::default()))
}

/// The cells that come from `peer`, with their domains, and how they are turned.
pub(crate) fn targets(
    pattern: &Pattern,
    peer: usize,
) -> impl Iterator<Item = (usize, &Cells, Orientation)> + Clone {
    let pieces = pattern.receives().get(&peer).map_or(&[][..], Vec::as_slice);
    pieces.iter().map(|piece| (piece.target_domain, &piece.target, piece.orientation))
}

/// Where cells of a field begin, if they lie there as they would lie in a message and the transport may use them there:
/// the memory of the field is kept for it, as memory that was merely lent is not.
pub(crate) fn in_place(
    field: &BoundField,
    (domain, cells, orientation): (usize, &Cells, Orientation),
    order: &[u8; MAX_COPY_AXES],
) -> Option<Pointer> {
    let turned = !field.vector.is_empty() && orientation.is_turned();
    let cells = Side::of_field(field, domain, cells);
    cells
        .packed_in_place(order, field.element.bytes(), &orientation)
        .filter(|_| field.storage.is_some() && !turned)
}

impl MessageSet {
    pub(crate) fn new() -> MessageSet {
        MessageSet { messages: Vec::new(), items: Vec::new(), begin: 0, bytes: 0 }
    }

    /// Adds a message of these cells to or from `peer`, in one part; nothing if there are none. `chunk`: its number among the
    /// chunks of what goes there, if it is one.
    pub(crate) fn add(
        &mut self,
        peer: usize,
        chunk: Option<usize>,
        cells: Vec<PackedCells>,
        fields: &[(usize, BoundField)],
    ) {
        let begin = self.bytes.next_multiple_of(MESSAGE_ALIGNMENT);
        let (mut end, first) = (begin, self.items.len());
        for packed in cells {
            let at = end.next_multiple_of(ALIGNMENT);
            end = at + packed.cells.elements() * fields[packed.field].1.element.bytes();
            self.items.push(PackedCells { at, ..packed });
        }
        if end > begin {
            self.bytes = end;
            let stretches = vec![Stretch { location: Location::Buffer(begin), bytes: end - begin }];
            self.messages.push(MessageLayout { peer, chunk, stretches, items: first..self.items.len() });
        }
    }

    /// Adds to the message to or from `peer`, which is the last one: of each field that `travels`, every piece in a part of its
    /// own. That lies in the field if the piece lies there as it would in a message, and `reached` says that the transport can
    /// reach it there.
    pub(crate) fn add_apart<'p>(
        &mut self,
        peer: usize,
        fields: &[(usize, BoundField)],
        travels: impl Fn(usize) -> Option<[u8; MAX_COPY_AXES]>,
        pieces: impl Iterator<Item = (usize, &'p Cells, Orientation)> + Clone,
        reached: bool,
    ) {
        for (position, (_, field)) in fields.iter().enumerate() {
            let Some(order) = travels(position) else { continue };
            for (domain, cells, orientation) in pieces.clone() {
                let lies = in_place(field, (domain, cells, orientation), &order).filter(|_| reached);
                let cells = Side::of_field(field, domain, cells);
                let (bytes, first) = (cells.elements() * field.element.bytes(), self.items.len());
                if bytes == 0 {
                    continue;
                }
                let location = if let Some(pointer) = lies {
                    Location::Field(pointer, position)
                } else {
                    let at = self.bytes.next_multiple_of(MESSAGE_ALIGNMENT);
                    self.items.push(PackedCells { field: position, cells, at, order, orientation });
                    self.bytes = at + bytes;
                    Location::Buffer(at)
                };
                self.append(peer, first, Stretch { location, bytes });
            }
        }
    }

    /// Moves what lies in the buffer behind what ends there at `end`. The end of both.
    pub(crate) fn move_behind(&mut self, end: usize) -> usize {
        if self.messages.is_empty() {
            return end;
        }
        let distance = end.next_multiple_of(MESSAGE_ALIGNMENT);
        self.items.iter_mut().for_each(|packed| packed.at += distance);
        for stretch in self.messages.iter_mut().flat_map(|message| &mut message.stretches) {
            if let Location::Buffer(at) = &mut stretch.location {
                *at += distance;
            }
        }
        self.begin += distance;
        self.bytes += distance;
        self.bytes
    }

    /// Appends a part, whose copies are those from `first` on, to the message for `peer`, which is the last one.
    fn append(&mut self, peer: usize, first: usize, stretch: Stretch) {
        match self.messages.last_mut().filter(|last| last.peer == peer) {
            Some(last) => last.stretches.push(stretch),
            None => {
                let stretches = vec![stretch];
                self.messages.push(MessageLayout { peer, chunk: None, stretches, items: first..first });
            }
        }
        if let Some(last) = self.messages.last_mut() {
            last.items.end = self.items.len();
        }
    }

    /// The address of the message in shared memory.
    pub(crate) fn place_in(&self, slot: &Slot) -> Result<Pointer, DeviceError> {
        let (expected, found) = (self.bytes, slot.bytes);
        let fits = found >= expected;
        fits.then_some(slot.message).ok_or_else(|| {
            DeviceError::invalid("the shared memory of a message", format!("{expected} bytes or more"), found)
        })
    }

    /// The copies to all messages, which lie from `buffer` on, or from them.
    pub(crate) fn copies(
        &self,
        fields: &[(usize, BoundField)],
        buffer: Pointer,
        direction: Direction,
    ) -> Result<Vec<CopyItem>, DeviceError> {
        self.copies_of(0..self.items.len(), fields, buffer, direction)
    }

    /// The same of one message alone.
    pub(crate) fn copies_of_message(
        &self,
        message: &MessageLayout,
        fields: &[(usize, BoundField)],
        buffer: Pointer,
        direction: Direction,
    ) -> Result<Vec<CopyItem>, DeviceError> {
        self.copies_of(message.items.clone(), fields, buffer, direction)
    }

    fn copies_of(
        &self,
        items: Range<usize>,
        fields: &[(usize, BoundField)],
        buffer: Pointer,
        direction: Direction,
    ) -> Result<Vec<CopyItem>, DeviceError> {
        let mut copies = Vec::with_capacity(items.len());
        for PackedCells { field, cells, at, order, orientation } in &self.items[items] {
            let field = &fields[*field].1;
            let size = field.element.bytes();
            let message = cells.packed(buffer.offset(*at as isize), order, size, orientation);
            match direction {
                Direction::Send => copies.push(join(cells, &message, size, None)?),
                Direction::Receive => fill(&mut copies, &message, cells, field, orientation)?,
            }
        }
        Ok(copies)
    }

    /// Whether a message is copied to or from memory that is merely borrowed.
    pub(crate) fn is_borrowed(&self, message: &MessageLayout, fields: &[(usize, BoundField)]) -> bool {
        self.items[message.items.clone()].iter().any(|packed| fields[packed.field].1.storage.is_none())
    }
}

impl MessageLayout {
    pub(crate) fn bytes(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.bytes).sum()
    }

    /// The tag of its channel: that of its part, or for later chunks one of those from `later` on.
    pub(crate) fn tag(&self, part: u32, later: u32) -> u32 {
        match self.chunk {
            None | Some(0) => part,
            Some(number) => later + (number - 1) as u32,
        }
    }

    /// Whether it is a chunk.
    pub(crate) fn is_chunk(&self) -> bool {
        self.chunk.is_some()
    }

    /// From where to where it lies in the buffer.
    pub(crate) fn in_buffer(&self) -> Range<usize> {
        let ranges = self.stretches.iter().filter_map(|stretch| match stretch.location {
            Location::Buffer(at) => Some(at..at + stretch.bytes),
            Location::Field(..) => None,
        });
        ranges.reduce(|all, next| all.start..next.end).unwrap_or_default()
    }

    /// The fields that the message lies in, by their place in the part, and how many of its bytes in each.
    pub(crate) fn in_fields(&self) -> impl Iterator<Item = (usize, usize)> {
        self.stretches.iter().filter_map(|stretch| match stretch.location {
            Location::Field(_, field) => Some((field, stretch.bytes)),
            Location::Buffer(_) => None,
        })
    }
}
