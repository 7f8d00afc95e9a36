//! What can go wrong between ranks, as values.

use std::time::Duration;

/// An error of a transport or of a collective operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// A rank that does not exist was named.
    #[error("there is no rank {peer}: the communicator has {size} ranks, numbered from 0")]
    NoSuchRank {
        /// The rank named.
        peer: usize,
        /// The number of ranks.
        size: usize,
    },
    /// Another rank ended with an error or a panic.
    #[error("rank {rank} has failed: {why}")]
    PeerFailed {
        /// The rank that failed.
        rank: usize,
        /// Its error or the message of its panic.
        why: String,
    },
    /// Waiting took longer than the time limit.
    #[error("waiting for {what} took longer than the time limit of {limit:?}")]
    TimeLimit {
        /// What was waited for.
        what: String,
        /// The limit.
        limit: Duration,
    },
    /// A message has another length than its channel.
    #[error(
        "a message from rank {sender} to rank {receiver} has {found} bytes where the receiver expects {expected}"
    )]
    Length {
        /// The sending rank.
        sender: usize,
        /// The receiving rank.
        receiver: usize,
        /// Bytes expected by the receiver.
        expected: usize,
        /// Bytes sent.
        found: usize,
    },
    /// A channel was used in a way that its contract forbids.
    #[error("{0}")]
    Channel(String),
    /// A collective was called while another one was under way on the same communicator.
    #[error(
        "another collective call is under way on this communicator: they are made one after another, \
         and never from a completion callback"
    )]
    Busy,
    /// Ranks came to different collective calls. Every rank gets the same error, and none has done anything; the
    /// communicator can still be used.
    #[error(
        "the ranks are out of step: rank {rank} has come to {call}, and rank 0 to {first}; all ranks make the same \
         collective calls in the same order"
    )]
    OutOfStep {
        /// The lowest rank whose call is not that of rank 0.
        rank: usize,
        /// Its call.
        call: String,
        /// The call of rank 0.
        first: String,
    },
    /// An environment variable has a value that cannot be understood.
    #[error(
        "the environment variable {name} is `{found}`, expected a number of seconds above 0, or `none`: correct it, \
         or unset it"
    )]
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value.
        found: String,
    },
    /// An earlier collective failed on this rank.
    #[error("an earlier collective call failed, so ranks may have come to different ones: {0}")]
    Broken(String),
    /// Ranks brought lists of different lengths to a reduction.
    #[error("ranks brought {one} and {other} values to the same reduction")]
    Lengths {
        /// One rank's number of values.
        one: usize,
        /// Another rank's.
        other: usize,
    },
    /// The other end of a window or of a channel was closed while this end waited for it.
    #[error("rank {peer} has given up the exchange")]
    PeerGaveUp {
        /// The rank at the other end.
        peer: usize,
    },
    /// A message used in setting up could not be understood.
    #[error("a setup message from rank {sender} could not be understood: {why}")]
    Malformed {
        /// The rank that sent it.
        sender: usize,
        /// What the decoder says.
        why: String,
    },
    /// The transport was called from a thread that may not call it.
    #[error("{what}, called from another thread than the one that made it: {advice}")]
    WrongThread {
        /// The transport and its thread level.
        what: String,
        /// What to do.
        advice: &'static str,
    },
    /// A launcher has started several processes, and the layer below knows of this one alone.
    #[error(
        "{library} finds {ranks} rank here, but {variable}={value} says that the launcher has started more: they are of \
         different MPIs, and each process would run alone. Start it with the launcher of {library}, or build it for the \
         launcher's MPI (`MPICC` chooses which); if it is meant to run alone, unset {variable}"
    )]
    WrongLauncher {
        /// The layer below and its version.
        library: String,
        /// The ranks that it finds.
        ranks: usize,
        /// The environment variable by which the launcher says that there are more.
        variable: &'static str,
        /// Its value.
        value: u64,
    },
    /// A call of the layer below failed.
    #[error("{call} failed: {message}")]
    Layer {
        /// The call.
        call: &'static str,
        /// Its message.
        message: String,
    },
}
