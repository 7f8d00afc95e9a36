//! Which messages a part sends and receives, and in which groups they are packed.

use super::chunks::in_chunks;
use super::offer::PartWays;
use crate::exchange::layout::messages::{MessageLayout, MessageSet, cells_of, sources, targets};
use crate::exchange::options::{Traffic, Way};
use crate::field::BoundField;
use crate::pattern::Pattern;

/// All messages of a part, laid out.
pub(crate) struct MessageSets {
    /// The messages that go whole and the first chunk of each other one, then the second chunks, and so on.
    pub(crate) groups: Vec<MessageSet>,
    /// What comes whole.
    pub(crate) whole: MessageSet,
    /// What comes in chunks.
    pub(crate) chunks: MessageSet,
}

impl MessageSets {
    /// Of all fields that go in messages by `ways`. `reached`: the transport reaches memory of the device.
    pub(crate) fn new(
        fields: &[(usize, BoundField)],
        pattern: &Pattern,
        ways: &PartWays,
        reached: bool,
    ) -> MessageSets {
        let empty = MessageSet::new;
        let mut sets = MessageSets { groups: vec![empty()], whole: empty(), chunks: empty() };
        for (&peer, (of_fields, _)) in &ways.lent {
            let cells = || sources(pattern, peer);
            let order = |position: usize| fields[position].1.memory_order();
            let by = |way: Way| move |position: usize| (of_fields[position] == way).then(|| order(position));
            let chunks = in_chunks(cells_of(fields, by(Way::Chunks), cells()), fields, ways.chunk);
            sets.groups.resize_with(sets.groups.len().max(chunks.len()), empty);
            for (number, (group, chunk)) in sets.groups.iter_mut().zip(chunks).enumerate() {
                group.add(peer, Some(number), chunk, fields);
            }
            let first = &mut sets.groups[0];
            first.add(peer, None, cells_of(fields, by(Way::Message), cells()), fields);
            first.add_apart(peer, fields, by(Way::Apart), cells(), reached);
        }
        for (&peer, (offer, of_fields, _)) in &ways.borrowed {
            let cells = || targets(pattern, peer);
            let order = |position: usize| offer.fields[position].order;
            let by = |way: Way| move |position: usize| (of_fields[position] == way).then(|| order(position));
            let chunks = in_chunks(cells_of(fields, by(Way::Chunks), cells()), fields, ways.chunk);
            for (number, chunk) in chunks.into_iter().enumerate() {
                sets.chunks.add(peer, Some(number), chunk, fields);
            }
            sets.whole.add(peer, None, cells_of(fields, by(Way::Message), cells()), fields);
            sets.whole.add_apart(peer, fields, by(Way::Apart), cells(), reached);
        }
        sets
    }

    /// What the messages move.
    pub(crate) fn traffic(&self) -> Traffic {
        let in_fields = |message: &MessageLayout| message.in_fields().map(|(_, bytes)| bytes).sum::<usize>();
        let sent = || self.groups.iter().flat_map(|group| &group.messages);
        Traffic {
            steps: 1,
            messages: sent().map(|message| message.stretches.len()).sum(),
            message_bytes: sent().map(MessageLayout::bytes).sum(),
            chunked_bytes: sent().filter(|message| message.is_chunk()).map(MessageLayout::bytes).sum(),
            sent_in_place_bytes: sent().map(in_fields).sum(),
            received_in_place_bytes: self.whole.messages.iter().map(in_fields).sum(),
            ..Traffic::default()
        }
    }

    /// The fields that messages lie in, by their place in the part.
    pub(crate) fn fields_in_place(&self) -> Vec<usize> {
        let all = self.groups.iter().flat_map(|group| &group.messages).chain(&self.whole.messages);
        let mut fields: Vec<usize> = all.flat_map(MessageLayout::in_fields).map(|(field, _)| field).collect();
        fields.sort_unstable();
        fields.dedup();
        fields
    }
}
