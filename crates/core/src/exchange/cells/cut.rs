//! Cutting a large message into chunks.
//!
//! Both ends cut in the same way, since both know the pieces of the pattern in their order, the size of the elements,
//! and the order of the axes in the message, which is that of the sender's memory. Whole pieces are gathered until a
//! chunk is full. A piece larger than a chunk is cut across its slowest axis into slabs; if a single layer is still too
//! large, it is cut across the next axis. A list of cells is cut along the list. The components of a cell stay
//! together, because they may be exchanged with one another if axes are turned.

use std::ops::Range;

use crate::device::MAX_COPY_AXES;
use crate::domain::MAX_AXES;

/// Alignment in bytes of a piece in a message, so that it begins on a cache line of its own.
pub(crate) const ALIGNMENT: usize = 64;

/// A part of a piece: a range along each axis, in the sender's numbering.
pub(crate) type Slab = [Range<usize>; MAX_COPY_AXES];

/// The shape of a piece in a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedShape {
    /// The number of cells along each axis, in the sender's numbering.
    pub(crate) along: [usize; MAX_COPY_AXES],
    /// The axes from the slowest to the fastest in the message.
    pub(crate) order: [u8; MAX_COPY_AXES],
    pub(crate) element_bytes: usize,
}

/// Cuts a message of `pieces` into chunks of at most `max_bytes`; a single cell may exceed that. For each chunk, lists
/// the number of each piece in it and the slab of that piece. Pieces stay in order; those without cells are left out.
pub(crate) fn cut(pieces: &[PackedShape], max_bytes: usize) -> Vec<Vec<(usize, Slab)>> {
    let mut chunks: Vec<Vec<(usize, Slab)>> = Vec::new();
    let mut filled = 0usize;
    for (number, piece) in pieces.iter().enumerate() {
        piece.split(piece.along.map(|extent| 0..extent), max_bytes, &mut |slab| {
            let bytes = piece.bytes(&slab);
            let begin = filled.next_multiple_of(ALIGNMENT);
            match chunks.last_mut() {
                Some(chunk) if begin + bytes <= max_bytes => {
                    chunk.push((number, slab));
                    filled = begin + bytes;
                }
                _ => {
                    chunks.push(vec![(number, slab)]);
                    filled = bytes;
                }
            }
        });
    }
    chunks
}

impl PackedShape {
    /// Splits `part` into slabs of at most `max_bytes`, and calls `take` with each in order.
    fn split(&self, part: Slab, max_bytes: usize, take: &mut impl FnMut(Slab)) {
        let bytes = self.bytes(&part);
        let axes = self.order.iter().map(|&axis| usize::from(axis));
        let slowest = axes.filter(|&axis| axis < MAX_AXES).find(|&axis| part[axis].len() > 1);
        let Some(axis) = slowest.filter(|_| bytes > max_bytes) else {
            if bytes > 0 {
                take(part);
            }
            return;
        };
        let Range { start, end } = part[axis].clone();
        let layers = (max_bytes / (bytes / (end - start))).max(1);
        for begin in (start..end).step_by(layers) {
            let mut slab = part.clone();
            slab[axis] = begin..end.min(begin + layers);
            self.split(slab, max_bytes, take);
        }
    }

    fn bytes(&self, slab: &Slab) -> usize {
        slab.iter().map(Range::len).product::<usize>() * self.element_bytes
    }
}
