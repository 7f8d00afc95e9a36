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
pub(crate) struct Messages {
    pub(crate) placed: Vec<Placed>,
    items: Vec<Placing>,
    /// Where they begin in the buffer.
    pub(crate) begin: usize,
    /// Where they end in the buffer, and what comes next begins.
    pub(crate) bytes: usize,
}

/// A message to or from `peer`.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
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
    pub(crate) place: Place,
    pub(crate) bytes: usize,
}

/// Where a part of a message lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this offset in the buffer.
    Buffer(usize),
    /// At this address of the field with this place in its part.
    Field(Pointer, usize),
}

/// Cells of a field and their place in a message.
pub(crate) struct Placing {
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

/// The bytes of what comes from `peer` through shared memory, from fields whose axes are in `orders` there.
pub(crate) fn packed_bytes(
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

impl Messages {
    pub(crate) fn new() -> Messages {
        Messages { placed: Vec::new(), items: Vec::new(), begin: 0, bytes: 0 }
    }

    /// Adds to the message for one neighbour: of each field that `travels`, every piece, in one part.
    pub(crate) fn add<'p>(
        &mut self,
        peer: usize,
        fields: &[(usize, BoundField)],
        travels: impl Fn(usize) -> Option<[u8; MAX_COPY_AXES]>,
        pieces: impl Iterator<Item = (usize, &'p Cells, Orientation)> + Clone,
    ) {
        let begin = self.bytes.next_multiple_of(MESSAGE_ALIGNMENT);
        let (mut end, first) = (begin, self.items.len());
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
            self.append(peer, first, Stretch { place: Place::Buffer(begin), bytes: end - begin });
        }
    }

    /// As [`add`](Messages::add), each piece in a part of its own; in the field where it lies so and `reached` says that
    /// the transport can reach it there.
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
                let place = if let Some(pointer) = lies {
                    Place::Field(pointer, position)
                } else {
                    let at = self.bytes.next_multiple_of(MESSAGE_ALIGNMENT);
                    self.items.push(Placing { field: position, cells, at, order, orientation });
                    self.bytes = at + bytes;
                    Place::Buffer(at)
                };
                self.append(peer, first, Stretch { place, bytes });
            }
        }
    }

    /// Adds a message for one neighbour that is chunk `number` of what goes there.
    pub(crate) fn add_chunk(
        &mut self,
        peer: usize,
        number: usize,
        chunk: Vec<Placing>,
        fields: &[(usize, BoundField)],
    ) {
        let begin = self.bytes.next_multiple_of(MESSAGE_ALIGNMENT);
        let (mut end, first) = (begin, self.items.len());
        for placing in chunk {
            let at = end.next_multiple_of(ALIGNMENT);
            end = at + placing.cells.elements() * fields[placing.field].1.element.bytes();
            self.items.push(Placing { at, ..placing });
        }
        self.bytes = end;
        let stretches = vec![Stretch { place: Place::Buffer(begin), bytes: end - begin }];
        self.placed.push(Placed { peer, chunk: Some(number), stretches, items: first..self.items.len() });
    }

    /// Moves what lies in the buffer behind what ends there at `end`. The end of both.
    pub(crate) fn move_behind(&mut self, end: usize) -> usize {
        if self.placed.is_empty() {
            return end;
        }
        let distance = end.next_multiple_of(MESSAGE_ALIGNMENT);
        self.items.iter_mut().for_each(|placing| placing.at += distance);
        for stretch in self.placed.iter_mut().flat_map(|message| &mut message.stretches) {
            if let Place::Buffer(at) = &mut stretch.place {
                *at += distance;
            }
        }
        self.begin += distance;
        self.bytes += distance;
        self.bytes
    }

    /// Appends a part, whose copies are those from `first` on, to the message for `peer`, which is the last one.
    fn append(&mut self, peer: usize, first: usize, stretch: Stretch) {
        match self.placed.last_mut().filter(|last| last.peer == peer) {
            Some(last) => last.stretches.push(stretch),
            None => {
                let stretches = vec![stretch];
                self.placed.push(Placed { peer, chunk: None, stretches, items: first..first });
            }
        }
        if let Some(last) = self.placed.last_mut() {
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
        message: &Placed,
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
        for Placing { field, cells, at, order, orientation } in &self.items[items] {
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
    pub(crate) fn is_borrowed(&self, message: &Placed, fields: &[(usize, BoundField)]) -> bool {
        self.items[message.items.clone()].iter().any(|placing| fields[placing.field].1.storage.is_none())
    }
}

impl Placed {
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
        let ranges = self.stretches.iter().filter_map(|stretch| match stretch.place {
            Place::Buffer(at) => Some(at..at + stretch.bytes),
            Place::Field(..) => None,
        });
        ranges.reduce(|all, next| all.start..next.end).unwrap_or_default()
    }

    /// The fields that the message lies in, by their place in the part, and how many of its bytes in each.
    pub(crate) fn in_fields(&self) -> impl Iterator<Item = (usize, usize)> {
        self.stretches.iter().filter_map(|stretch| match stretch.place {
            Place::Field(_, field) => Some((field, stretch.bytes)),
            Place::Buffer(_) => None,
        })
    }
}
