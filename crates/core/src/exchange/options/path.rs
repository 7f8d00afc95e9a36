//! How cells get to a neighbour, and which way is taken.

use serde::{Deserialize, Serialize};

use super::names::named;

use crate::field::Load;

/// How data may get to ranks that share memory with this one. Whatever cannot be had gives way to the next: direct
/// copies to shared memory, and that to messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataPath {
    /// Each field on the way that is quickest by the model of what ways cost.
    #[default]
    Quickest,
    /// Straight from the fields of neighbours: threads of the same process, and processes of the same node where the
    /// field is in memory that they can map ([`node_shared`](crate::field::FieldBuilder::node_shared)).
    Direct,
    /// Packed into memory that two processes share, and unpacked from it.
    Shared,
    /// In messages of the transport, as between nodes.
    Messages,
}

named!(DataPath {
    Quickest => "quickest",
    Direct => "direct",
    Shared => "shared",
    Messages => "messages",
});

/// How the cells of one field get to one neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    /// In the message.
    Message,
    /// In the message, each piece in a part of its own: from the field or to it, where it lies there without gaps.
    Apart,
    /// In several messages, where both ends stage what would be a large one.
    Chunks,
    /// Packed into shared memory, and unpacked from it.
    Shared,
    /// Copied straight from the field.
    Direct,
}

impl DataPath {
    /// The way of a field which can be copied straight or be packed into shared memory, as far as that is possible.
    pub(crate) fn choose(self, direct: bool, shared: bool, load: &Load) -> Way {
        let packed = match self {
            DataPath::Quickest => load.is_better_packed(),
            DataPath::Direct => false,
            DataPath::Shared => true,
            DataPath::Messages => return Way::Message,
        };
        match (direct, shared) {
            (true, true) if packed => Way::Shared,
            (true, _) => Way::Direct,
            (false, true) => Way::Shared,
            (false, false) => Way::Message,
        }
    }
}
