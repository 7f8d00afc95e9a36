//! The messages that a part sends and receives, and the groups in which they are packed.

use super::chunks::in_chunks;
use crate::exchange::cells::packed::{MessageLayout, MessageSet, cells_of, sources, targets};
use crate::exchange::options::{Traffic, Way};
use crate::exchange::ways::offer::{PartWays, ReceiveWays, SendWays};
use crate::field::BoundField;
use crate::pattern::Pattern;

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
