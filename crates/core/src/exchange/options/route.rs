//! What was settled about the ways of fields, and why a field takes no quicker one.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::path::{Choice, DataPath, Way};
use super::traffic::Traffic;

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
    /// The rank that owns the cells.
    pub from: usize,
    /// The rank whose halo is filled.
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
    /// The two ranks share no memory, for example because they are on different nodes.
    Apart,
    /// The two ranks are threads of one process, which do not pack into shared memory.
    Threads,
    /// The exchange does not know the memory: fields are passed to each start.
    Passed,
    /// Cells are read from one field and arrive in another ([`SourceTarget`](crate::SourceTarget)).
    TwoFields,
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
    Apart => "apart",
    Threads => "threads",
    Passed => "passed",
    TwoFields => "two-fields",
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
            Obstacle::Apart => "the two ranks share no memory",
            Obstacle::Threads => "threads of one process do not pack into shared memory",
            Obstacle::Passed => "memory is passed to each start, so that no other rank can know it",
            Obstacle::TwoFields => "cells are read from one field and arrive in another",
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

impl Way {
    /// The path that it is part of.
    pub(crate) fn path(self) -> DataPath {
        match self {
            Way::Message | Way::PieceByPiece | Way::Chunks => DataPath::Messages,
            Way::StreamMessage => DataPath::StreamMessages,
            Way::Shared => DataPath::Shared,
            Way::Direct => DataPath::Direct,
        }
    }
}
