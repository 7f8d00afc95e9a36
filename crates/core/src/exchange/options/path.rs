//! The path and the order that the user asks for, those that are chosen, the way that the cells of one field take to one
//! neighbour, and why a field takes no quicker one.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Traffic;
use crate::field::{Handover, Load};

/// How data gets to other ranks. Between ranks that share memory, `Quickest` takes the first of these paths that is
/// possible for a field and its neighbour, unless the next one is quicker: direct copies, shared memory, messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataPath {
    /// For each field, the path that is quickest by the cost model.
    #[default]
    Quickest,
    /// Copied straight from the neighbour's field, by the end that
    /// [`BindOptions::copied_by`](crate::exchange::BindOptions::copied_by) chooses: between threads of one process, and
    /// between processes of one node if the field is in memory that both can map
    /// ([`node_shared`](crate::field::FieldBuilder::node_shared)).
    Direct,
    /// Packed into memory that the two ranks share, and unpacked from it. Between threads of one process, only fields that
    /// could be copied straight.
    Shared,
    /// In messages of the transport, as between nodes.
    Messages,
    /// In messages that streams of the devices send and receive without the host: on CUDA devices, by NCCL. No other path
    /// is taken instead: if the ranks cannot send such messages, for example because the library is missing, binding
    /// fails with the reason. Each rank has a device of its own. All ranks start the exchanges of a communicator that go this
    /// way in the same order.
    StreamMessages,
}

named!(DataPath {
    Quickest => "quickest",
    Direct => "direct",
    Shared => "shared",
    Messages => "messages",
    StreamMessages => "stream-messages",
});

/// Which end copies fields straight, where both reach the other's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CopiedBy {
    /// The sender if the ranks are processes or the fields on different devices, where a write is posted and a read waits for
    /// its answer; otherwise the receiver.
    #[default]
    Quickest,
    /// The receiver reads the neighbour's field.
    Receiver,
    /// The sender writes into the neighbour's halo. Both ends must be devices whose streams write and await words
    /// ([`StreamWords`](crate::device::StreamWords)); otherwise the receiver copies.
    Sender,
}

/// How the cells of one field get to one neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    /// In the message.
    Message,
    /// In the message, each piece in a range of its own: sent from the field or received into it if it lies there
    /// without gaps.
    PieceByPiece,
    /// In several messages: both ends stage, and one message would be large.
    Chunks,
    /// In a message that streams send and receive.
    StreamMessage,
    /// Packed into shared memory, and unpacked from it.
    Shared,
    /// Copied straight from the field.
    Direct,
}

impl Way {
    /// The path that it is part of. `left`: the neighbour leaves a message in place of fields that it would lend.
    pub(crate) fn path(self, left: bool) -> DataPath {
        match self {
            Way::Direct if left => DataPath::Shared,
            Way::Message | Way::PieceByPiece | Way::Chunks => DataPath::Messages,
            Way::StreamMessage => DataPath::StreamMessages,
            Way::Shared => DataPath::Shared,
            Way::Direct => DataPath::Direct,
        }
    }
}

impl DataPath {
    /// Chooses the way of a field, given whether direct copies and shared memory are possible.
    pub(crate) fn choose(self, direct: bool, shared: bool, load: &Load, handover: Handover) -> Way {
        let packed = match self {
            DataPath::Quickest => load.is_better_packed(handover),
            DataPath::Direct => false,
            DataPath::Shared => true,
            DataPath::Messages => return Way::Message,
            DataPath::StreamMessages => return Way::StreamMessage,
        };
        match (direct, shared) {
            (true, true) if packed => Way::Shared,
            (true, _) => Way::Direct,
            (false, true) => Way::Shared,
            (false, false) => Way::Message,
        }
    }
}

/// The order in which the halos of a grid are filled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HaloOrder {
    /// [`AxisByAxis`](HaloOrder::AxisByAxis) if it is possible and all ranks are neighbours along one axis only, so
    /// that they wait for each other just once; otherwise [`AllNeighbours`](HaloOrder::AllNeighbours).
    #[default]
    Quickest,
    /// All at once, from all neighbours, including diagonal ones.
    AllNeighbours,
    /// Along one axis after the other, the last axis first. A rank passes the cells that it received along one axis on
    /// along the next, so it communicates only with the neighbours across its faces, in few and large pieces.
    /// Neighbours wait for each other once per axis.
    ///
    /// Requires domains that are a Cartesian product of intervals, halos that have edges and corners, a synchronous
    /// device, and fields that own their memory, on all ranks. Otherwise halos are filled all at once;
    /// [`Traffic::steps`](crate::exchange::Traffic::steps) tells the two apart. Borrowed memory is excluded because
    /// only `start` and `finish` touch it: they could not go on to the next axis while the rank finishes another
    /// exchange.
    AxisByAxis,
}

named!(HaloOrder {
    Quickest => "quickest",
    AllNeighbours => "all-neighbours",
    AxisByAxis => "axis-by-axis",
});

/// The path and the order that were chosen for an exchange; the same on every rank. See
/// [`Exchange::choice`](crate::exchange::Exchange::choice).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Choice {
    /// How data gets to ranks that share memory. With [`DataPath::Quickest`], the cost model chooses for each field and
    /// neighbour.
    pub path: DataPath,
    /// The order in which halos are filled; never [`HaloOrder::Quickest`].
    pub order: HaloOrder,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.path, self.order)
    }
}

/// What the ranks have settled for an exchange.
#[derive(Debug, Clone)]
pub(crate) struct Settled {
    pub(crate) choice: Choice,
    pub(crate) routes: Vec<Route>,
}

/// An exchange as seen from this rank, for reports. See [`Exchange::describe`](crate::exchange::Exchange::describe).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Description {
    /// The path and the order.
    pub choice: Choice,
    /// The amount of data that one exchange moves.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// How each field gets to and from each other rank.
    pub routes: Vec<Route>,
}

/// How one field gets from one rank to another, one of which is this rank. See
/// [`Exchange::routes`](crate::exchange::Exchange::routes).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Route {
    /// The rank that sends the cells: their owner, unless halos are [accumulated](crate::BindOptions::accumulate).
    pub from: usize,
    /// The rank that receives them.
    pub to: usize,
    /// The number of the field in the exchange.
    pub field: usize,
    /// The path; never [`DataPath::Quickest`].
    pub path: DataPath,
    /// Why the field takes no path that comes before this one in [`DataPath`]; `None` if it is copied straight.
    pub why: Option<Obstacle>,
}

/// Why a field takes no quicker path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Obstacle {
    /// The option `path` asks for this path.
    Asked,
    /// By the cost model, this path is quicker for these cells.
    Quicker,
    /// Cells go from halos to their owners ([`BindOptions::accumulate`](crate::exchange::BindOptions::accumulate)) on a device
    /// with streams, in messages.
    Accumulated,
    /// The two ranks share no memory, for example because they are on different nodes.
    Apart,
    /// The two ranks are threads of one process, which pack into shared memory only what they could copy straight.
    Threads,
    /// The exchange does not know the memory: fields are passed to each start.
    Passed,
    /// The field that is filled is in memory that was lent to the exchange.
    ReceiverMemory,
    /// The field that is read is in memory that other ranks cannot reach: it was lent to the exchange, or was not
    /// allocated for sharing.
    SenderMemory,
    /// The device of one of the fields cannot reach the memory of the other one, or memory that ranks share; if a warning
    /// tells of a failed attempt, it says why.
    Device,
    /// The system or the driver has refused to share or to map memory; a warning says why.
    Refused,
}

named!(Obstacle {
    Asked => "asked",
    Quicker => "quicker",
    Accumulated => "accumulated",
    Apart => "apart",
    Threads => "threads",
    Passed => "passed",
    ReceiverMemory => "receiver-memory",
    SenderMemory => "sender-memory",
    Device => "device",
    Refused => "refused",
});

impl Obstacle {
    /// The reason in words, behind "because".
    pub fn text(self) -> &'static str {
        match self {
            Obstacle::Asked => "the option `path` asks for it",
            Obstacle::Quicker => "it is quicker for these cells, by the cost model",
            Obstacle::Accumulated => "cells go from halos to their owners on a device with streams",
            Obstacle::Apart => "the two ranks share no memory",
            Obstacle::Threads => {
                "threads of one process pack into shared memory only what they could copy straight"
            }
            Obstacle::Passed => "memory is passed to each start, so that no other rank can know it",
            Obstacle::ReceiverMemory => "the receiver's memory was lent to the exchange",
            Obstacle::SenderMemory => {
                "the sender's memory was not allocated for sharing, or was lent to the exchange"
            }
            Obstacle::Device => "a device cannot reach the other rank's memory, or memory that ranks share",
            Obstacle::Refused => "the system or the driver has refused to share memory; a warning says why",
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Route { from, to, field, path, why } = self;
        write!(f, "field {field} from rank {from} to rank {to}: {path}")?;
        why.map_or(Ok(()), |why| write!(f, ", because {}", why.text()))
    }
}
