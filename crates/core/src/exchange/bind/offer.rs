//! What neighbours tell each other when they settle the way of each field, and what comes of it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::device::{DeviceId, MAX_COPY_AXES, Pointer};
use crate::exchange::layout::segment::Slot;
use crate::exchange::options::Way;
use crate::field::{BlockLayout, Load};
use crate::transport::Window;

/// How the sender is ready to send the fields of one part to one neighbour.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// Whether the sender can pack into shared memory.
    pub(crate) packs: bool,
    /// Whether the sender stages what goes in messages.
    pub(crate) stages: bool,
    pub(crate) fields: Vec<FieldOffer>,
}

/// The same of one field.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FieldOffer {
    /// The axes from the slowest to the fastest in the sender's memory.
    #[serde(deserialize_with = "axis_order")]
    pub(crate) order: [u8; MAX_COPY_AXES],
    /// Whether it is in the window that the sender publishes.
    pub(crate) published: bool,
    /// Where it lies in memory that the neighbour can map.
    pub(crate) place: Option<FieldPlace>,
    /// What is sent of it.
    pub(crate) load: Load,
    /// Whether each piece that is sent can be sent from where it lies.
    pub(crate) in_place: bool,
}

/// Each axis once, in any order.
fn axis_order<'d, R: Deserializer<'d>>(reader: R) -> Result<[u8; MAX_COPY_AXES], R::Error> {
    let order = <[u8; MAX_COPY_AXES]>::deserialize(reader)?;
    let mut sorted = order;
    sorted.sort_unstable();
    let is_order = sorted.iter().zip(0..).all(|(&axis, expected)| axis == expected);
    is_order.then_some(order).ok_or_else(|| R::Error::custom(format!("{order:?} is no order of axes")))
}

/// The fields that a [`Window`] lends.
#[derive(Default)]
pub(crate) struct LentFields {
    pub(crate) blocks: Vec<LentBlock>,
    /// Owns their memory.
    pub(crate) _owners: Vec<Arc<dyn Any + Send + Sync>>,
}

/// One block of one field.
pub(crate) struct LentBlock {
    /// The number of the field within its exchange.
    pub(crate) field: usize,
    /// The number of the domain within its rank.
    pub(crate) domain: usize,
    /// The device whose memory it is.
    pub(crate) device: DeviceId,
    /// The address of the block's first element.
    pub(crate) pointer: Pointer,
    pub(crate) layout: BlockLayout,
}

/// The blocks that `window` lends.
pub(crate) fn lent_blocks(window: &Window) -> &[LentBlock] {
    window.lent::<LentFields>().map_or(&[], |lent| &lent.blocks)
}

/// What the receiver has chosen: the way of each field, and the token of the memory that it shares for them.
pub(crate) type Answer = (Vec<Way>, Option<Vec<u8>>);

/// What the two ends have between them for one part.
#[derive(Debug, Clone, Default)]
pub(crate) struct PeerWindows {
    /// On the fields.
    pub(crate) direct: Option<Arc<Window>>,
    /// On messages in shared memory.
    pub(crate) slots: Option<[Slot; 2]>,
}

/// What a receiver has chosen for one part, and by what the sender finds the memory for it.
pub(crate) struct Accepted {
    pub(crate) ways: Vec<Way>,
    /// In how many chunks messages come; 0 where they come whole.
    pub(crate) chunks: usize,
    pub(crate) windows: PeerWindows,
    pub(crate) token: Option<Vec<u8>>,
    /// The token is good as long as this is kept.
    pub(crate) name: Option<Box<dyn Any + Send + Sync>>,
}

/// What was settled with the neighbours about one part.
#[derive(Debug, Default)]
pub(crate) struct PartWays {
    /// For each rank that we send to: the way of each field, and the windows that it needs.
    pub(crate) lent: BTreeMap<usize, (Vec<Way>, PeerWindows)>,
    /// For each rank that sends to us: its offer, the way of each field, and the windows that we need.
    pub(crate) borrowed: BTreeMap<usize, (Offer, Vec<Way>, PeerWindows)>,
    /// The most bytes of a chunk.
    pub(crate) chunk: usize,
    /// The first tag of later chunks.
    pub(crate) chunk_tag: u32,
}

/// Where a field lies in memory that a neighbour can reach.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FieldPlace {
    pub(crate) memory: Token,
    /// For each domain where the first element is, in bytes from the begin of that memory, and the layout.
    pub(crate) blocks: Vec<(i64, BlockLayout)>,
}

/// What the memory is found by.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Token {
    /// By the transport.
    Shared(Vec<u8>),
    /// By a device of this backend.
    Exported(String, Vec<u8>),
}
