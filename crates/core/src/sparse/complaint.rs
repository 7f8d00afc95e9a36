//! The reason for which a rank gives up a round.

use serde::{Deserialize, Serialize};

use super::SparseError;

/// A rank, and the reason for which it gives up a round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Complaint {
    pub(super) rank: usize,
    pub(super) why: String,
}

impl From<Complaint> for SparseError {
    fn from(complaint: Complaint) -> SparseError {
        SparseError::GivenUp { rank: complaint.rank, why: complaint.why }
    }
}
