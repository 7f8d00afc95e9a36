//! The messages by which neighbours negotiate the way of each field, and the result.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::memory::{KeptMessage, SharedMessage};
use super::stream_messages::AnyGroup;
use super::words::windows::StreamWord;
use crate::device::{DeviceId, MAX_COPY_AXES, Pointer};
use crate::exchange::options::{Obstacle, Way};
use crate::field::{BlockLayout, Load};
use crate::transport::Window;

/// What a rank tells a neighbour to which it sends cells.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offers {
    /// Of each part.
    pub(crate) parts: Vec<Offer>,
    /// The token for a meeting, if this rank invites the neighbour to measure the distance of their cores.
    pub(crate) meeting: Option<Vec<u8>>,
}

/// The ways in which a rank can send the fields of one part to one neighbour.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// Whether the cells may go through memory that the sender shares.
    pub(crate) shares: bool,
    /// Whether the sender can pack into shared memory.
    pub(crate) packs: bool,
    /// Whether the sender stages its messages.
    pub(crate) is_staged: bool,
    /// Whether streams of the sender's device write and await words.
    pub(crate) has_words: bool,
    /// Whether the distance of the two cores counts for fields that the neighbour maps.
    pub(crate) counts_distance: bool,
    /// Whether these fields, packed, would be written past the caches.
    pub(crate) past_caches: bool,
    pub(crate) fields: Vec<FieldOffer>,
}

/// The ways in which a rank can send one field.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FieldOffer {
    /// The axes from the slowest to the fastest in the sender's memory.
    #[serde(deserialize_with = "axis_order")]
    pub(crate) order: [u8; MAX_COPY_AXES],
    /// Whether it is in the window that the sender publishes.
    pub(crate) published: bool,
    /// The handle by which the neighbour can map it.
    pub(crate) handle: Option<FieldHandle>,
    /// The amount and shape of the cells that are sent.
    pub(crate) load: Load,
    /// Whether every piece can be sent from the field itself.
    pub(crate) in_place: bool,
}

/// Reads an order of axes, in which each occurs once.
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
    /// The word by which streams hand the fields over, if the lender has one and is in this process.
    pub(crate) word: Option<StreamWord>,
    /// The memory for a message in their place, set before both ends bind their copies, if the lender is in this process
    /// and may leave one.
    pub(crate) kept: OnceLock<KeptMessage>,
    /// The owners of their memory.
    pub(crate) _owners: Vec<Arc<dyn Any + Send + Sync>>,
}

/// One block of one field.
pub(crate) struct LentBlock {
    /// The position of the field in its part.
    pub(crate) field: usize,
    /// The number of the domain in its rank, among those of its pattern.
    pub(crate) domain: usize,
    /// The device that owns the memory.
    pub(crate) device: DeviceId,
    /// The address of the block's first element.
    pub(crate) pointer: Pointer,
    pub(crate) layout: BlockLayout,
}

/// The blocks that `window` lends.
pub(crate) fn lent_blocks(window: &Window) -> &[LentBlock] {
    window.lent::<LentFields>().map_or(&[], |lent| &lent.blocks)
}

/// The word by which streams hand over the fields that `window` lends, if it has one.
pub(crate) fn lent_word(window: &Window) -> Option<&StreamWord> {
    window.lent::<LentFields>()?.word.as_ref()
}

/// The memory for a message in place of the fields that `window` lends, if their owner may leave one.
pub(crate) fn kept_message(window: &Window) -> Option<&KeptMessage> {
    window.lent::<LentFields>()?.kept.get()
}

/// The receiver's answer to an offer.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The way of each field.
    pub(crate) ways: Vec<Way>,
    /// Why each field takes no quicker one.
    pub(crate) obstacles: Vec<Option<Obstacle>>,
    /// The token by which the sender can map the memory that the receiver shares with it.
    pub(crate) token: Option<Vec<u8>>,
    /// How the fields that are copied straight are handed over.
    pub(crate) word: AnsweredWord,
    /// The end that copies them.
    pub(crate) copied: AnsweredCopies,
    /// Whether the sender, in this process, packs them into a message that it leaves in their place.
    pub(crate) left: bool,
}

/// How fields that are copied straight are handed over.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) enum AnsweredWord {
    /// By the hosts.
    #[default]
    None,
    /// By the word of the window that was published.
    Published,
    /// By a word in memory that the receiver shares, with its token.
    Shared(Vec<u8>),
}

/// The end that copies the fields that are copied straight.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) enum AnsweredCopies {
    /// The receiver, from the sender's fields.
    #[default]
    ByReceiver,
    /// The sender, to the receiver's fields: in a window that the receiver has published.
    ToPublished,
    /// The sender, to the receiver's fields: those with a handle, by which it can map them.
    ToExported(Vec<Option<FieldHandle>>),
}

/// The windows between two neighbours for one part, in one direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct PeerWindows {
    /// The window on the sender's fields, if the receiver copies.
    pub(crate) direct: Option<Arc<Window>>,
    /// The window on the receiver's fields, if the sender copies.
    pub(crate) halos: Option<Arc<Window>>,
    /// The word by which streams hand the fields over; `None` if hosts do.
    pub(crate) word: Option<StreamWord>,
    /// The memory for a message in place of the sender's fields, if the sender may leave one.
    pub(crate) kept: Option<KeptMessage>,
    /// On the two messages in shared memory.
    pub(crate) messages: Option<[SharedMessage; 2]>,
}

/// The receiver's answer for one part, and the resources that the receiver keeps for it.
#[derive(Default)]
pub(crate) struct Acceptance {
    pub(crate) answer: Answer,
    /// The number of chunks of the message; 0 if it is not split.
    pub(crate) chunks: usize,
    pub(crate) windows: PeerWindows,
    /// The tokens of the answer are valid as long as these are kept.
    pub(crate) names: Vec<Box<dyn Any + Send + Sync>>,
}

impl Acceptance {
    /// An answer with these `ways`, without any memory.
    pub(crate) fn new(ways: Vec<Way>) -> Acceptance {
        Acceptance { answer: Answer { ways, ..Answer::default() }, ..Acceptance::default() }
    }

    /// Whether a field goes this way.
    pub(crate) fn takes(&self, way: Way) -> bool {
        self.answer.ways.contains(&way)
    }
}

/// The result of the negotiation about one part.
#[derive(Default)]
pub(crate) struct PartWays {
    /// For each rank to which this rank sends.
    pub(crate) sends: BTreeMap<usize, PeerWays>,
    /// For each rank from which this rank receives, with its offer.
    pub(crate) receives: BTreeMap<usize, (Offer, PeerWays)>,
    /// Maximum size of a chunk in bytes.
    pub(crate) chunk: usize,
    /// The tag of the second chunk; later ones follow.
    pub(crate) chunk_tag: u32,
    /// Minimum size in bytes of staged messages that are moved by a copy.
    pub(crate) moved_from: usize,
    /// The group whose streams exchange messages, and the tag by which its ranks watch each other.
    pub(crate) streams: Option<(Arc<dyn AnyGroup>, u32)>,
}

/// The ways of the fields that are sent to one rank, or received from one.
#[derive(Debug)]
pub(crate) struct PeerWays {
    /// The way of each field.
    pub(crate) ways: Vec<Way>,
    /// Why each field takes no quicker one.
    pub(crate) obstacles: Vec<Option<Obstacle>>,
    /// The windows that are lent or borrowed.
    pub(crate) windows: PeerWindows,
    /// As [`Answer::left`].
    pub(crate) left: bool,
}

/// A handle by which a neighbour in another process can map a field.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FieldHandle {
    pub(crate) memory: MemoryToken,
    /// For each domain the offset of the first element in that memory, in bytes, and the layout.
    pub(crate) blocks: Vec<(i64, BlockLayout)>,
}

/// A token by which memory can be mapped.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MemoryToken {
    /// By the transport.
    Shared(Vec<u8>),
    /// By a device of this backend.
    Exported(String, Vec<u8>),
}
