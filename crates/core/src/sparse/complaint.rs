//! The reason for which a rank gives up a round.

use serde::{Deserialize, Serialize};

use super::SparseError;

/// A rank, and the reason for which it gives up a round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Complaint {
    pub(super) rank: usize,
    pub(super) why: String,
}

impl Complaint {
    /// The complaint about a rank that has ended.
    pub(super) fn ended(rank: usize) -> Complaint {
        Complaint { rank, why: "it has ended: its communicator was dropped or closed".into() }
    }
}

impl From<Complaint> for SparseError {
    fn from(complaint: Complaint) -> SparseError {
        SparseError::GivenUp { rank: complaint.rank, why: complaint.why }
    }
}
