//! Messages that are staged in chunks: which are, and how they are cut.
//!
//! A device that goes on by itself, and whose memory the transport cannot read, packs messages into memory of the host. A
//! message that is larger than a chunk is packed chunk by chunk if the neighbour stages as well, so that the next chunk is
//! packed, and the one before unpacked, while one is on the wire.

use super::fields::PartFields;
use super::offer::Offer;
use crate::exchange::layout::cut::{Extents, cut};
use crate::exchange::layout::messages::{MessageSet, PackedCells, cells_of, targets};
use crate::exchange::options::Way;
use crate::field::BoundField;
use crate::pattern::Pattern;

impl PartFields {
    /// Whether messages are staged, so that they may go in chunks.
    pub(crate) fn stages(&self, pattern: &Pattern) -> bool {
        let info = self.device.info();
        info.asynchronous && !info.host_accessible && !pattern.comm().info().device_memory
    }

    /// If both ends stage the message from `peer` and it has more than `chunk` bytes, has it come in chunks. The number of
    /// chunks; 0 if it comes whole.
    pub(crate) fn set_chunks(
        &self,
        pattern: &Pattern,
        peer: usize,
        chunk: usize,
        offer: &Offer,
        ways: &mut [Way],
    ) -> usize {
        if !(offer.stages && self.stages(pattern)) {
            return 0;
        }
        let order = |position: usize| offer.fields[position].order;
        let travels = |position: usize| (ways[position] == Way::Message).then(|| order(position));
        let cells = cells_of(&self.fields, travels, targets(pattern, peer));
        let mut whole = MessageSet::new();
        whole.add(peer, None, cells.clone(), &self.fields);
        if whole.bytes <= chunk {
            return 0;
        }
        let chunks = in_chunks(cells, &self.fields, chunk).len();
        if chunks < 2 {
            return 0;
        }
        ways.iter_mut().filter(|way| **way == Way::Message).for_each(|way| *way = Way::Chunks);
        chunks
    }
}

/// The cells of a message, cut into chunks of at most so many `bytes`.
pub(crate) fn in_chunks(
    whole: Vec<PackedCells>,
    fields: &[(usize, BoundField)],
    bytes: usize,
) -> Vec<Vec<PackedCells>> {
    let extents = whole.iter().map(|packed| Extents {
        along: packed.cells.extents(&packed.orientation),
        order: packed.order,
        element_bytes: fields[packed.field].1.element.bytes(),
    });
    let chunks = cut(&extents.collect::<Vec<_>>(), bytes).into_iter().map(|chunk| {
        let parts = chunk.into_iter().map(|(number, slab)| {
            let packed = whole[number].clone();
            PackedCells { cells: packed.cells.within(&slab, &packed.orientation), ..packed }
        });
        parts.collect()
    });
    chunks.collect()
}
