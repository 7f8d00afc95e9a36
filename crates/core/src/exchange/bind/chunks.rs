//! Messages that are staged in chunks: which are, and where their chunks lie.
//!
//! A device that goes on by itself, and whose memory the transport cannot read, packs messages into memory of the host. What
//! is larger than a chunk goes there chunk by chunk where the neighbour stages as well, so that the next chunk is packed, and
//! the one before unpacked, while one is on the wire. Chunk k of each neighbour is in group k, and the messages that go whole
//! are in the first group.

use super::fields::PartFields;
use super::offer::{Offer, Settled};
use crate::device::MAX_COPY_AXES;
use crate::domain::Orientation;
use crate::exchange::layout::cut::{Extents, cut};
use crate::exchange::layout::messages::{Messages, Placing};
use crate::exchange::layout::side::Side;
use crate::exchange::options::Way;
use crate::field::BoundField;
use crate::pattern::{Cells, Pattern};

/// What a part sends and receives in chunks.
pub(crate) struct Chunks {
    /// The first chunk of each message.
    pub(crate) first: Messages,
    /// The second ones, the third ones, and so on.
    pub(crate) later: Vec<Messages>,
    /// All that come.
    pub(crate) received: Messages,
}

impl Chunks {
    /// Of all that was settled to go so.
    pub(crate) fn new(fields: &[(usize, BoundField)], pattern: &Pattern, settled: &Settled) -> Chunks {
        let mut all = Chunks { first: Messages::new(), later: Vec::new(), received: Messages::new() };
        for (&peer, (ways, _)) in &settled.lent {
            let pieces = pattern.sends().get(&peer).map_or(&[][..], Vec::as_slice);
            let unturned = Orientation::default();
            let sources = pieces.iter().map(|piece| (piece.source_domain, &piece.source, unturned));
            let in_order = |position: usize| fields[position].1.memory_order();
            let travels = |position: usize| (ways[position] == Way::Chunks).then(|| in_order(position));
            let chunks = chunks_of(fields, travels, sources, settled.chunk);
            for (number, chunk) in chunks.into_iter().enumerate() {
                all.group(number).add_chunk(peer, number, chunk, fields);
            }
        }
        for (&peer, (offer, ways, _)) in &settled.borrowed {
            let pieces = pattern.receives().get(&peer).map_or(&[][..], Vec::as_slice);
            let targets = pieces.iter().map(|piece| (piece.target_domain, &piece.target, piece.orientation));
            let in_order = |position: usize| offer.fields[position].order;
            let travels = |position: usize| (ways[position] == Way::Chunks).then(|| in_order(position));
            let chunks = chunks_of(fields, travels, targets, settled.chunk);
            for (number, chunk) in chunks.into_iter().enumerate() {
                all.received.add_chunk(peer, number, chunk, fields);
            }
        }
        all
    }

    fn group(&mut self, number: usize) -> &mut Messages {
        let Some(later) = number.checked_sub(1) else { return &mut self.first };
        if self.later.len() <= later {
            self.later.resize_with(later + 1, Messages::new);
        }
        &mut self.later[later]
    }
}

impl PartFields {
    /// Whether messages are staged, so that they may go in chunks.
    pub(crate) fn stages(&self, pattern: &Pattern) -> bool {
        let info = self.device.info();
        info.asynchronous && !info.host_accessible && !pattern.comm().info().device_memory
    }

    /// Has what goes in the message of `peer` go in chunks of so many bytes, if it is more and both ends stage it. The number
    /// of chunks; 0 where it goes whole.
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
        let pieces = pattern.receives().get(&peer).map_or(&[][..], Vec::as_slice);
        let targets = pieces.iter().map(|piece| (piece.target_domain, &piece.target, piece.orientation));
        let order = |position: usize| offer.fields[position].order;
        let travels = |position: usize| (ways[position] == Way::Message).then(|| order(position));
        let mut whole = Messages::new();
        whole.add(peer, &self.fields, travels, targets.clone());
        if whole.bytes <= chunk {
            return 0;
        }
        let chunks = chunks_of(&self.fields, travels, targets, chunk).len();
        if chunks < 2 {
            return 0;
        }
        ways.iter_mut().filter(|way| **way == Way::Message).for_each(|way| *way = Way::Chunks);
        chunks
    }
}

/// The chunks of the message for one neighbour, or from it: of each field that `travels`, every piece.
fn chunks_of<'p>(
    fields: &[(usize, BoundField)],
    travels: impl Fn(usize) -> Option<[u8; MAX_COPY_AXES]>,
    pieces: impl Iterator<Item = (usize, &'p Cells, Orientation)> + Clone,
    bytes: usize,
) -> Vec<Vec<Placing>> {
    let (mut whole, mut extents) = (Vec::new(), Vec::new());
    for (position, (_, field)) in fields.iter().enumerate() {
        let Some(order) = travels(position) else { continue };
        for (domain, cells, orientation) in pieces.clone() {
            let cells = Side::of_field(field, domain, cells);
            let along = cells.extents(&orientation);
            extents.push(Extents { along, order, element_bytes: field.element.bytes() });
            whole.push(Placing { field: position, cells, at: 0, order, orientation });
        }
    }
    let chunks = cut(&extents, bytes).into_iter().map(|chunk| {
        let placings = chunk.into_iter().map(|(number, slab)| {
            let Placing { field, ref cells, at, order, orientation } = whole[number];
            Placing { field, cells: cells.within(&slab, &orientation), at, order, orientation }
        });
        placings.collect::<Vec<_>>()
    });
    chunks.collect()
}
