//! What can go wrong in a sparse exchange, as values.

use std::time::Duration;

use crate::transport::TransportError;

/// Why a sparse exchange could not be made, or a round of it failed.
///
/// [`NotAReceiver`](SparseError::NotAReceiver), [`Finished`](SparseError::Finished) and
/// [`TransportError::NoSuchRank`] leave the round as it was. After any other the exchange is poisoned: every later use
/// gives [`SparseError::Poisoned`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SparseError {
    /// The ranks disagree, or name ranks that do not exist. Every rank gets the same error; the text names the rank.
    #[error("{0}")]
    Refused(String),
    /// A message was for a rank that is not among the receivers that were fixed.
    #[error("rank {peer} is not among the receivers of this rank, which were fixed as {receivers:?}")]
    NotAReceiver {
        /// The rank named.
        peer: usize,
        /// The receivers.
        receivers: Vec<usize>,
    },
    /// A message came after the end of this rank's insertions.
    #[error("the round takes no more messages of this rank: `finish` or `wait` has ended its insertions")]
    Finished,
    /// A rank gave up the round, maybe this one.
    #[error("rank {rank} has given up the round: {why}")]
    GivenUp {
        /// The rank.
        rank: usize,
        /// What befell it.
        why: String,
    },
    /// Others did not come within the time limit.
    #[error("the round did not complete within the time limit of {limit:?}: missing {missing}")]
    TimeLimit {
        /// Whose messages are missing, or who has not received this rank's.
        missing: String,
        /// The limit.
        limit: Duration,
    },
    /// The completion callback of the exchange panicked, on whatever thread it ran.
    #[error("the completion callback of the sparse exchange panicked: {0}")]
    CallbackPanicked(String),
    /// An earlier round failed or was given up.
    #[error("the sparse exchange is poisoned: {0}; make a new one")]
    Poisoned(String),
    /// The transport's error.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl SparseError {
    /// What every later use of an exchange gets that failed by this.
    pub(super) fn poison(&self) -> SparseError {
        match self {
            SparseError::Poisoned(why) => SparseError::Poisoned(why.clone()),
            other => SparseError::Poisoned(other.to_string()),
        }
    }
}
