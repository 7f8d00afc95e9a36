//! Errors of sparse exchanges.

use std::time::Duration;

use crate::transport::TransportError;

/// An error in making a sparse exchange, or in a round of it.
///
/// [`NotADestination`](SparseError::NotADestination), [`Finished`](SparseError::Finished),
/// [`InRound`](SparseError::InRound), [`NotInRound`](SparseError::NotInRound), [`TransportError::NoSuchRank`] and, except in
/// [`Round::wait`](crate::sparse::Round::wait), [`TransportError::WrongThread`] leave the exchange and its round as they were.
/// Any other error poisons the exchange: every later use returns [`SparseError::Poisoned`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SparseError {
    /// The ranks disagree, or name ranks that do not exist. Every rank gets the same error; the text names the rank.
    #[error("{0}")]
    Refused(String),
    /// A message is for a rank that is not among the fixed destinations.
    #[error("rank {peer} is not among the destinations of this rank, which are fixed as {destinations:?}")]
    NotADestination {
        /// The rank named.
        peer: usize,
        /// The destinations.
        destinations: Vec<usize>,
    },
    /// A message was inserted after the end of this rank's insertions.
    #[error("the round takes no more messages of this rank: `finish` or `wait` has ended its insertions")]
    Finished,
    /// A round was begun while another one is under way that [`begin_with`](crate::SparseExchange::begin_with) began.
    #[error("a round has been begun and not ended; call `end` first")]
    InRound,
    /// A round was ended that was not begun, or that has ended.
    #[error("no round is under way: it was not begun, or has ended; begin one first")]
    NotInRound,
    /// A rank, maybe this one, gave up the round.
    #[error("rank {rank} has given up the round: {why}")]
    GivenUp {
        /// The rank.
        rank: usize,
        /// The reason.
        why: String,
    },
    /// The round did not end within the time limit.
    #[error("the round did not complete within the time limit of {limit:?}: missing {missing}")]
    TimeLimit {
        /// The ranks whose messages are missing, and those that have not received this rank's messages, in words.
        missing: String,
        /// Those ranks, ascending, as far as they are known. With unknown neighbours, a rank may only know that one of
        /// several is missing, which are named in `missing` alone.
        ranks: Vec<usize>,
        /// The limit.
        limit: Duration,
    },
    /// The completion callback of the exchange panicked, on any thread.
    #[error("the completion callback of the sparse exchange panicked: {0}")]
    CallbackPanicked(String),
    /// An earlier round failed, or was given up.
    #[error("the sparse exchange is poisoned: {0}; make a new one")]
    Poisoned(String),
    /// An error of the transport.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl SparseError {
    /// The error of later uses of an exchange that failed with this one.
    pub(super) fn poison(&self) -> SparseError {
        match self {
            SparseError::Poisoned(why) => SparseError::Poisoned(why.clone()),
            other => SparseError::Poisoned(other.to_string()),
        }
    }
}
