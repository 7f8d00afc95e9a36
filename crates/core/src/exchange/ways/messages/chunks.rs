//! Splitting staged messages into chunks.
//!
//! An asynchronous device whose memory the transport cannot read stages messages: it packs them into memory of the
//! host. If the neighbour stages as well, a message larger than a chunk is packed, sent and unpacked chunk by chunk.
//! While one chunk is on the wire, the sender packs the next and the receiver unpacks the one before.

use crate::exchange::cells::cut::{PackedShape, cut};
use crate::exchange::cells::packed::{MessageSet, PackedCells, cells_of, targets};
use crate::exchange::options::Way;
use crate::exchange::ways::fields::PartFields;
use crate::exchange::ways::offer::Offer;
use crate::field::BoundField;
use crate::pattern::Pattern;

impl PartFields {
    /// Whether messages of this device are staged, and so may be split.
    pub(crate) fn is_staged(&self, pattern: &Pattern) -> bool {
        let info = self.device.info();
        info.asynchronous && !info.host_accessible && !pattern.comm().info().takes_memory_of(&info.id)
    }

    /// Splits the message from `peer` into chunks if both ends stage it and it is larger than `chunk` bytes. Returns
    /// the number of chunks; 0 if the message is not split.
    pub(crate) fn set_chunks(
        &self,
        pattern: &Pattern,
        peer: usize,
        chunk: usize,
        offer: &Offer,
        ways: &mut [Way],
    ) -> usize {
        if !(offer.is_staged && self.is_staged(pattern)) {
            return 0;
        }
        let order = |position: usize| (ways[position] == Way::Message).then(|| offer.fields[position].order);
        let cells = cells_of(&self.fields, order, targets(pattern, peer));
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

/// Splits the cells of a message into chunks of at most `bytes`.
pub(crate) fn in_chunks(
    whole: Vec<PackedCells>,
    fields: &[(usize, BoundField)],
    bytes: usize,
) -> Vec<Vec<PackedCells>> {
    let extents = whole.iter().map(|packed| PackedShape {
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
