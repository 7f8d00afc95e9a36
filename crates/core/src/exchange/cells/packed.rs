//! The layout of messages.
//!
//! A message holds one field after the other, and of each field one piece after the other, each aligned to
//! [`ALIGNMENT`]. The axes of a piece are in the order of the sender's memory, from the slowest to the fastest, so that
//! packing walks memory in sequence; a list of cells is an axis like any other. Axes and vectors are turned when a halo
//! is written, from a message or from a field, never within a message.
//!
//! Pieces that go [piece by piece](Way::PieceByPiece) are each a stretch of their own. If a piece lies in the field as
//! it would lie in the message, it is sent from the field or received into it; otherwise the buffer has room for it.
//!
//! A [chunk](super::side::cut) is a message of its own, of pieces and parts of pieces in the same layout.

use std::ops::Range;

use super::side::{ALIGNMENT, PieceCells, Side, fill, join};
use crate::device::{CopyItem, DeviceError, MAX_COPY_AXES, Pointer};
use crate::domain::Orientation;
use crate::exchange::options::Way;
use crate::field::BoundField;
use crate::transport::Direction;

/// Alignment in bytes of a message in the buffer of its part, so that it begins on a cache line of its own.
pub(crate) const MESSAGE_ALIGNMENT: usize = 128;

/// Messages in one direction, and the cells that are copied to or from them, as offsets in the buffer.
#[derive(Default)]
pub(crate) struct MessageSet {
    pub(crate) messages: Vec<MessageLayout>,
    items: Vec<PackedCells>,
    /// The offset of their beginning in the buffer.
    pub(crate) begin: usize,
    /// The offset of their end in the buffer.
    pub(crate) bytes: usize,
}

/// A message to or from `peer`.
#[derive(Debug, Clone)]
pub(crate) struct MessageLayout {
    pub(crate) peer: usize,
    /// Its number among the chunks for that neighbour; `None` if the message is not split.
    pub(crate) chunk: Option<usize>,
    pub(crate) stretches: Vec<Stretch>,
    /// The range of its copies in the set.
    items: Range<usize>,
}

/// A part of a message that is contiguous in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) location: Location,
    pub(crate) bytes: usize,
}

/// The location of a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Location {
    /// At this offset in the buffer.
    Buffer(usize),
    /// At this address, in the field at this position in its part.
    Field(Pointer, usize),
}

/// Cells of a field and their offset in a message.
#[derive(Debug, Clone)]
pub(crate) struct PackedCells {
    /// The position of the field in its part.
    pub(crate) field: usize,
    pub(crate) cells: Side,
    /// The offset in the buffer.
    pub(crate) at: usize,
    /// The order of axes in the message, in the sender's numbering.
    pub(crate) order: [u8; MAX_COPY_AXES],
    /// Relates the axes of the cells to those of the message.
    pub(crate) orientation: Orientation,
}

/// Lists the cells of every piece of every field for which `order_of` returns an order of axes.
pub(crate) fn cells_of<'p>(
    fields: &[(usize, BoundField)],
    order_of: impl Fn(usize) -> Option<[u8; MAX_COPY_AXES]>,
    pieces: impl Iterator<Item = PieceCells<'p>> + Clone,
) -> Vec<PackedCells> {
    let mut all = Vec::new();
    for (position, (_, field)) in fields.iter().enumerate() {
        let Some(order) = order_of(position) else { continue };
        all.extend(pieces.clone().map(|piece| {
            let (cells, orientation) = (Side::of_piece(field, piece), piece.orientation);
            PackedCells { field: position, cells, at: 0, order: piece.order(order), orientation }
        }));
    }
    all
}

/// Returns the address of cells of a field, if they lie there as they would lie in a message and the transport may use
/// them there. It may not use borrowed memory, which the exchange cannot keep alive, nor memory whose pages may be replaced, which
/// would be put back late if the transport kept it.
pub(crate) fn in_place(
    field: &BoundField,
    piece: PieceCells<'_>,
    order: &[u8; MAX_COPY_AXES],
) -> Option<Pointer> {
    let turned = !field.vector.is_empty() && piece.orientation.is_turned();
    Side::of_piece(field, piece)
        .packed_in_place(&piece.order(*order), field.element.bytes(), &piece.orientation)
        .filter(|_| field.storage_at(piece.end).is_some_and(|storage| !storage.is_movable()) && !turned)
}

impl MessageSet {
    /// The message to or from `peer` with all fields that go by `way`; without messages if there are no such cells. `ways`
    /// has the way of each field, `order` returns the order of its axes in the sender's memory.
    pub(crate) fn of_way<'p>(
        peer: usize,
        (ways, way): (&[Way], Way),
        fields: &[(usize, BoundField)],
        order: impl Fn(usize) -> [u8; MAX_COPY_AXES],
        pieces: impl Iterator<Item = PieceCells<'p>> + Clone,
    ) -> MessageSet {
        let order_of = |position: usize| (ways[position] == way).then(|| order(position));
        let mut message = MessageSet::default();
        message.add(peer, None, cells_of(fields, order_of, pieces), fields);
        message
    }

    /// Adds a message of these cells to or from `peer`, in one stretch; does nothing if there are no cells. `chunk` is
    /// its number among the chunks for that neighbour, if it is a chunk.
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

    /// Adds stretches to the message to or from `peer`, which is the last one: one for each piece of each field for
    /// which `order_of` returns an order of axes. If the piece lies in the field as it would in a message, and the
    /// transport can reach the memory of the device (`reached`), the stretch is in the field; otherwise it is in the
    /// buffer.
    pub(crate) fn add_piece_by_piece<'p>(
        &mut self,
        peer: usize,
        fields: &[(usize, BoundField)],
        order_of: impl Fn(usize) -> Option<[u8; MAX_COPY_AXES]>,
        pieces: impl Iterator<Item = PieceCells<'p>> + Clone,
        reached: bool,
    ) {
        for (position, (_, field)) in fields.iter().enumerate() {
            let Some(order) = order_of(position) else { continue };
            for piece in pieces.clone() {
                let address = in_place(field, piece, &order).filter(|_| reached);
                let (cells, orientation) = (Side::of_piece(field, piece), piece.orientation);
                let (bytes, first) = (cells.elements() * field.element.bytes(), self.items.len());
                if bytes == 0 {
                    continue;
                }
                let location = if let Some(pointer) = address {
                    Location::Field(pointer, position)
                } else {
                    let at = self.bytes.next_multiple_of(MESSAGE_ALIGNMENT);
                    let order = piece.order(order);
                    self.items.push(PackedCells { field: position, cells, at, order, orientation });
                    self.bytes = at + bytes;
                    Location::Buffer(at)
                };
                self.append(peer, first, Stretch { location, bytes });
            }
        }
    }

    /// Moves these messages in the buffer behind others that end at `end`. Returns the end of both.
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

    /// Appends a stretch, whose copies are those from `first` on, to the message for `peer`, which is the last one.
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

    /// The range of the buffer that they span.
    pub(crate) fn in_buffer(&self) -> Range<usize> {
        self.begin..self.bytes
    }

    /// Returns the copies to or from all messages, in a buffer at `buffer`.
    pub(crate) fn copies(
        &self,
        fields: &[(usize, BoundField)],
        buffer: Pointer,
        direction: Direction,
    ) -> Result<Vec<CopyItem>, DeviceError> {
        self.copies_of(0..self.items.len(), fields, buffer, direction)
    }

    /// As [`copies`](MessageSet::copies), in memory that is shared with a neighbour: its address and size.
    pub(crate) fn copies_within(
        &self,
        fields: &[(usize, BoundField)],
        (pointer, room): (Pointer, usize),
        direction: Direction,
    ) -> Result<Vec<CopyItem>, DeviceError> {
        self.check_room(room)?;
        self.copies(fields, pointer, direction)
    }

    /// Checks that shared memory of `room` bytes holds the messages.
    pub(crate) fn check_room(&self, room: usize) -> Result<(), DeviceError> {
        if room < self.bytes {
            let expected = format!("{} bytes or more", self.bytes);
            return Err(DeviceError::invalid("the shared memory of a message", expected, room));
        }
        Ok(())
    }

    /// Returns the copies to or from one message only.
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
        for packed in &self.items[items] {
            packed.add_copies(&mut copies, fields, buffer, direction)?;
        }
        Ok(copies)
    }

    /// As [`copies_of_message`](MessageSet::copies_of_message), apart for the cells of each piece of each field, with the
    /// position of the field in its part.
    pub(crate) fn copies_by_cells(
        &self,
        message: &MessageLayout,
        fields: &[(usize, BoundField)],
        buffer: Pointer,
        direction: Direction,
    ) -> Result<Vec<(usize, Vec<CopyItem>)>, DeviceError> {
        let of_cells = self.items[message.items.clone()].iter().map(|packed| {
            let mut copies = Vec::new();
            packed.add_copies(&mut copies, fields, buffer, direction)?;
            Ok((packed.field, copies))
        });
        of_cells.collect()
    }

    /// Whether a message is copied to or from borrowed memory.
    pub(crate) fn is_borrowed(&self, message: &MessageLayout, fields: &[(usize, BoundField)]) -> bool {
        let mut cells = self.items[message.items.clone()].iter().filter(|packed| packed.cells.elements() > 0);
        cells.any(|packed| fields[packed.field].1.storage.is_none())
    }
}

impl PackedCells {
    /// Adds the copies to or from the message, in a buffer at `buffer`.
    fn add_copies(
        &self,
        copies: &mut Vec<CopyItem>,
        fields: &[(usize, BoundField)],
        buffer: Pointer,
        direction: Direction,
    ) -> Result<(), DeviceError> {
        let PackedCells { field, cells, at, order, orientation } = self;
        if cells.elements() == 0 {
            return Ok(());
        }
        let field = &fields[*field].1;
        let size = field.element.bytes();
        let message = cells.packed(buffer.offset(*at as isize), order, size, orientation);
        match direction {
            Direction::Send => copies.push(join(cells, &message, size, None)?),
            Direction::Receive => fill(copies, &message, cells, field, orientation)?,
        }
        Ok(())
    }
}

impl MessageLayout {
    pub(crate) fn bytes(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.bytes).sum()
    }

    /// Returns the tag of its channel: `part_tag`, or for chunks after the first one from `chunk_tag` on.
    pub(crate) fn tag(&self, part_tag: u32, chunk_tag: u32) -> u32 {
        match self.chunk {
            None | Some(0) => part_tag,
            Some(number) => chunk_tag + (number - 1) as u32,
        }
    }

    /// The range of the buffer that it spans.
    pub(crate) fn in_buffer(&self) -> Range<usize> {
        let ranges = self.stretches.iter().filter_map(|stretch| match stretch.location {
            Location::Buffer(at) => Some(at..at + stretch.bytes),
            Location::Field(..) => None,
        });
        ranges.reduce(|all, next| all.start..next.end).unwrap_or_default()
    }

    /// For each stretch in a field: the position of the field in the part, and the bytes.
    pub(crate) fn in_fields(&self) -> impl Iterator<Item = (usize, usize)> {
        self.stretches.iter().filter_map(|stretch| match stretch.location {
            Location::Field(_, field) => Some((field, stretch.bytes)),
            Location::Buffer(_) => None,
        })
    }
}
