//! The amount of data that an exchange moves.

use serde::Serialize;

/// The amount of data that one exchange moves on this rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// The number of messages sent to other ranks.
    pub messages: usize,
    /// Bytes sent in messages.
    pub message_bytes: usize,
    /// The part of `message_bytes` that is staged in chunks through memory of the host, each chunk a message
    /// ([`BindOptions::staging_chunk`](crate::exchange::BindOptions::staging_chunk)).
    pub chunked_bytes: usize,
    /// The part of `message_bytes` that streams send, without the host
    /// ([`DataPath::StreamMessages`](crate::exchange::DataPath::StreamMessages)).
    pub stream_message_bytes: usize,
    /// The part of `message_bytes` that is sent from the field itself, without packing.
    pub sent_in_place_bytes: usize,
    /// Bytes of messages that are received into the halo itself, without unpacking.
    pub received_in_place_bytes: usize,
    /// Bytes packed into memory shared with neighbours, which unpack from it.
    pub shared_bytes: usize,
    /// Bytes of this rank's halos that are copied straight from neighbours' fields, by either end.
    pub direct_bytes: usize,
    /// Bytes that the rank's domains copy from each other or from themselves.
    pub local_bytes: usize,
    /// How often neighbours wait for each other: 1, or the number of axes if halos are filled
    /// [axis by axis](crate::exchange::HaloOrder::AxisByAxis).
    pub steps: usize,
}

impl Traffic {
    /// Describes in words how data gets to other ranks.
    pub fn path(&self) -> String {
        let whole = self.message_bytes.saturating_sub(self.chunked_bytes + self.stream_message_bytes);
        let ways = [
            (self.direct_bytes, "direct copies from neighbours' fields"),
            (self.shared_bytes, "memory shared with neighbours"),
            (whole, "messages"),
            (self.chunked_bytes, "messages in chunks"),
            (self.stream_message_bytes, "messages in streams"),
        ];
        let taken: Vec<&str> = ways.into_iter().filter(|(bytes, _)| *bytes > 0).map(|(_, way)| way).collect();
        if taken.is_empty() { "copies within the rank".into() } else { taken.join(" and ") }
    }

    /// Adds the traffic of a part that runs after this one.
    pub(crate) fn then(self, next: Traffic) -> Traffic {
        Traffic { steps: self.steps + next.steps, ..self.beside(next) }
    }

    /// Adds the traffic of a part that runs at the same time.
    pub(crate) fn beside(self, other: Traffic) -> Traffic {
        Traffic {
            messages: self.messages + other.messages,
            message_bytes: self.message_bytes + other.message_bytes,
            chunked_bytes: self.chunked_bytes + other.chunked_bytes,
            stream_message_bytes: self.stream_message_bytes + other.stream_message_bytes,
            sent_in_place_bytes: self.sent_in_place_bytes + other.sent_in_place_bytes,
            received_in_place_bytes: self.received_in_place_bytes + other.received_in_place_bytes,
            shared_bytes: self.shared_bytes + other.shared_bytes,
            direct_bytes: self.direct_bytes + other.direct_bytes,
            local_bytes: self.local_bytes + other.local_bytes,
            steps: self.steps.max(other.steps),
        }
    }
}
