//! How a large message is cut into chunks.
//!
//! Both ends cut alike, from what both know: the pieces of the pattern in their order, the size of the elements, and the
//! order of the axes in the message, which is that of the sender's memory. Whole pieces are gathered until a chunk is full. A
//! piece that is larger than a chunk is cut across its slowest axis into slabs, one of whose layers alone is larger across
//! the next one, and a list of cells along the list. The components of a cell stay together: those of a vector come from
//! each other where axes are turned.

use std::ops::Range;

use crate::device::MAX_COPY_AXES;
use crate::domain::MAX_AXES;

/// Where a piece begins in a message: at a multiple of this many bytes, on cache lines of its own.
pub(crate) const ALIGNMENT: usize = 64;

/// A part of a piece: a range along each axis, as the sender numbers them.
pub(crate) type Slab = [Range<usize>; MAX_COPY_AXES];

/// The cells of a piece in a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extents {
    /// How many there are along each axis, as the sender numbers them.
    pub(crate) along: [usize; MAX_COPY_AXES],
    /// The axes from the slowest to the fastest in the message.
    pub(crate) order: [u8; MAX_COPY_AXES],
    pub(crate) element_bytes: usize,
}

/// The chunks of a message of these pieces, of at most so many bytes as far as cells can be told apart: for each chunk the
/// numbers of pieces, and what of them is in it. All pieces are in them, each in order; those without cells are in none.
pub(crate) fn cut(pieces: &[Extents], most: usize) -> Vec<Vec<(usize, Slab)>> {
    let mut chunks: Vec<Vec<(usize, Slab)>> = Vec::new();
    let mut filled = 0usize;
    for (number, piece) in pieces.iter().enumerate() {
        piece.split(piece.along.map(|extent| 0..extent), most, &mut |slab| {
            let bytes = piece.bytes(&slab);
            let begin = filled.next_multiple_of(ALIGNMENT);
            match chunks.last_mut() {
                Some(chunk) if begin + bytes <= most => {
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

impl Extents {
    /// Gives the slabs of `part` to `take`, in order.
    fn split(&self, part: Slab, most: usize, take: &mut impl FnMut(Slab)) {
        let bytes = self.bytes(&part);
        let axes = self.order.iter().map(|&axis| usize::from(axis));
        let slowest = axes.filter(|&axis| axis < MAX_AXES).find(|&axis| part[axis].len() > 1);
        let Some(axis) = slowest.filter(|_| bytes > most) else {
            if bytes > 0 {
                take(part);
            }
            return;
        };
        let Range { start, end } = part[axis].clone();
        let layers = (most / (bytes / (end - start))).max(1);
        for begin in (start..end).step_by(layers) {
            let mut slab = part.clone();
            slab[axis] = begin..end.min(begin + layers);
            self.split(slab, most, take);
        }
    }

    fn bytes(&self, slab: &Slab) -> usize {
        slab.iter().map(Range::len).product::<usize>() * self.element_bytes
    }
}
