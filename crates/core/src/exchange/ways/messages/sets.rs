//! The messages that a part sends and receives, and the groups in which they are packed.

use crate::exchange::cells::packed::{
    MessageLayout, MessageSet, PackedCells, PieceCells, cells_of, in_place, sources, targets,
};
use crate::exchange::cells::side::{PackedShape, Side, cut};
use crate::exchange::options::{Traffic, Way};
use crate::exchange::ways::fields::PartFields;
use crate::exchange::ways::offer::{Offer, PartWays, ReceiveWays, SendWays};
use crate::field::BoundField;
use crate::pattern::Pattern;

/// Minimum size in bytes of a piece that is sent or received in place, without packing. Packing a smaller one takes
/// less time than sending one more message.
const MIN_PIECE_BYTES: usize = 16 << 10;

/// All messages of a part, laid out.
pub(crate) struct MessageSets {
    /// Sent messages by group: first all unsplit messages and all first chunks, then all second chunks, and so on.
    pub(crate) groups: Vec<MessageSet>,
    /// Received messages that are not split.
    pub(crate) whole: MessageSet,
    /// Received chunks.
    pub(crate) chunks: MessageSet,
    /// Messages that streams send.
    pub(crate) sent_by_streams: MessageSet,
    /// Messages that streams receive.
    pub(crate) received_by_streams: MessageSet,
}

impl MessageSets {
    /// Lays out the messages of all fields that travel in messages by `ways`. `reached`: the transport can reach the
    /// memory of the device.
    pub(crate) fn new(
        fields: &[(usize, BoundField)],
        pattern: &Pattern,
        ways: &PartWays,
        reached: bool,
    ) -> MessageSets {
        let empty = MessageSet::new;
        let mut sets = MessageSets {
            groups: vec![empty()],
            whole: empty(),
            chunks: empty(),
            sent_by_streams: empty(),
            received_by_streams: empty(),
        };
        for (&peer, SendWays { ways: chosen, .. }) in &ways.sends {
            let cells = || sources(pattern, peer);
            let order = |position: usize| fields[position].1.memory_order();
            let by = |way: Way| move |position: usize| (chosen[position] == way).then(|| order(position));
            let chunks = in_chunks(cells_of(fields, by(Way::Chunks), cells()), fields, ways.chunk);
            sets.groups.resize_with(sets.groups.len().max(chunks.len()), empty);
            for (number, (group, chunk)) in sets.groups.iter_mut().zip(chunks).enumerate() {
                group.add(peer, Some(number), chunk, fields);
            }
            let first = &mut sets.groups[0];
            first.add(peer, None, cells_of(fields, by(Way::Message), cells()), fields);
            first.add_piece_by_piece(peer, fields, by(Way::PieceByPiece), cells(), reached);
            sets.sent_by_streams.add(peer, None, cells_of(fields, by(Way::StreamMessage), cells()), fields);
        }
        for (&peer, ReceiveWays { offer, ways: chosen, .. }) in &ways.receives {
            let cells = || targets(pattern, peer);
            let order = |position: usize| offer.fields[position].order;
            let by = |way: Way| move |position: usize| (chosen[position] == way).then(|| order(position));
            let chunks = in_chunks(cells_of(fields, by(Way::Chunks), cells()), fields, ways.chunk);
            for (number, chunk) in chunks.into_iter().enumerate() {
                sets.chunks.add(peer, Some(number), chunk, fields);
            }
            sets.whole.add(peer, None, cells_of(fields, by(Way::Message), cells()), fields);
            sets.whole.add_piece_by_piece(peer, fields, by(Way::PieceByPiece), cells(), reached);
            let by_streams = cells_of(fields, by(Way::StreamMessage), cells());
            sets.received_by_streams.add(peer, None, by_streams, fields);
        }
        sets
    }

    /// The traffic of the messages.
    pub(crate) fn traffic(&self) -> Traffic {
        let in_fields = |message: &MessageLayout| message.in_fields().map(|(_, bytes)| bytes).sum::<usize>();
        let by_streams = &self.sent_by_streams.messages;
        let sent = || self.groups.iter().flat_map(|group| &group.messages).chain(by_streams);
        Traffic {
            steps: 1,
            messages: sent().map(|message| message.stretches.len()).sum(),
            message_bytes: sent().map(MessageLayout::bytes).sum(),
            chunked_bytes: sent().filter(|message| message.is_chunk()).map(MessageLayout::bytes).sum(),
            stream_message_bytes: by_streams.iter().map(MessageLayout::bytes).sum(),
            sent_in_place_bytes: sent().map(in_fields).sum(),
            received_in_place_bytes: self.whole.messages.iter().map(in_fields).sum(),
            ..Traffic::default()
        }
    }

    /// The positions in the part of all fields that stretches of messages lie in.
    pub(crate) fn fields_in_place(&self) -> Vec<usize> {
        let all = self.groups.iter().flat_map(|group| &group.messages).chain(&self.whole.messages);
        let mut fields: Vec<usize> = all.flat_map(MessageLayout::in_fields).map(|(field, _)| field).collect();
        fields.sort_unstable();
        fields.dedup();
        fields
    }
}

// Splitting staged messages into chunks.
//
// An asynchronous device whose memory the transport cannot read stages messages: it packs them into memory of the
// host. If the neighbour stages as well, a message larger than a chunk is packed, sent and unpacked chunk by chunk.
// While one chunk is on the wire, the sender packs the next and the receiver unpacks the one before.

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

    /// Chooses [`Way::PieceByPiece`] for fields in messages whose pieces lie without gaps at one end, if the pieces are
    /// large or the message has only one.
    pub(crate) fn choose_pieces(&self, pattern: &Pattern, peer: usize, offer: &Offer, ways: &mut [Way]) {
        let reached = self.reached(pattern);
        let single = targets(pattern, peer).count() == 1
            && ways.iter().filter(|way| **way == Way::Message).count() == 1;
        let fields = self.fields.iter().zip(&offer.fields).zip(ways);
        for (((_, field), offered), way) in fields.filter(|(_, way)| **way == Way::Message) {
            let mut targets = targets(pattern, peer);
            let one_end_in_place = offered.in_place
                || reached && targets.clone().all(|piece| in_place(field, piece, &offered.order).is_some());
            let large = targets.all(|PieceCells { domain, cells, end, .. }| {
                let elements = Side::of_field(field, end, domain, cells).elements();
                elements * field.element.bytes() >= MIN_PIECE_BYTES
            });
            if one_end_in_place && (single || large) {
                *way = Way::PieceByPiece;
            }
        }
    }

    /// Whether the transport can reach fields of this device, so that messages can lie in them.
    pub(crate) fn reached(&self, pattern: &Pattern) -> bool {
        let device = self.device.info();
        device.host_accessible || pattern.comm().info().takes_memory_of(&device.id)
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
