//! The items of a line that each rank owns.

use std::ops::Range;

use crate::comm::{CollectiveCall, Communicator};
use crate::sparse::SparseError;
use crate::transport::Reduction;

/// Items in a line, cut into intervals: each rank owns consecutive items, or none, in the order of the ranks.
#[derive(Debug, Clone)]
pub struct Line {
    comm: Communicator,
    /// Its number on the communicator, the same on every rank.
    number: u32,
    mine: Range<u64>,
    items: u64,
}

impl Line {
    /// Collective: makes a line of which this rank owns the items `mine`, counted from 0. The interval of a rank begins
    /// where that of the rank before ends.
    ///
    /// # Errors
    /// [`SparseError::Refused`], with the same text on every rank, if intervals leave a gap, overlap or end before they
    /// begin; [`SparseError::Transport`], as for [`SparseExchange::new`](crate::SparseExchange::new).
    pub fn new(comm: &Communicator, mine: Range<u64>) -> Result<Line, SparseError> {
        let steps = comm.enter(CollectiveCall::Line)?;
        let Range { start, end } = mine;
        let ends: Vec<(usize, u64)> = Some(comm.rank() + 1)
            .filter(|&next| next < comm.size())
            .map(|next| (next, end))
            .into_iter()
            .collect();
        let before = comm.sparse_exchange(&ends)?.first().map_or(0, |&(_, end)| end);
        let flaw = if start > end {
            Some(format!("its interval {start}..{end} ends before it begins"))
        } else if start != before {
            Some(format!(
                "its interval {start}..{end} should begin at {before}, where that of the rank before ends"
            ))
        } else {
            None
        };
        comm.agree(flaw)?.map_err(SparseError::Refused)?;
        let items = comm.all_reduce(end, Reduction::Max)?;
        Ok(Line { comm: comm.clone(), number: steps.number(), mine, items })
    }

    /// Collective: makes a line of `items` items in intervals of equal length, or one item less for the last ranks.
    ///
    /// # Errors
    /// As for [`new`](Line::new), if ranks pass different numbers of items.
    pub fn even(comm: &Communicator, items: u64) -> Result<Line, SparseError> {
        let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
        let (each, more) = (items / ranks, items % ranks);
        let start = |rank: u64| rank * each + rank.min(more);
        let _steps = comm.enter(CollectiveCall::Line)?;
        let line = Line::new(comm, start(rank)..start(rank + 1))?;
        // Intervals may fit together although the numbers of items differ.
        let flaw = (line.items != items).then(|| {
            format!("its line has {items} items, but the intervals of all ranks have {}", line.items)
        });
        comm.agree(flaw)?.map_err(SparseError::Refused)?;
        Ok(line)
    }

    /// The items that this rank owns.
    pub fn mine(&self) -> Range<u64> {
        self.mine.clone()
    }

    /// The number of items on all ranks.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// The rank before this one, which may own nothing; `None` for the first.
    pub fn left(&self) -> Option<usize> {
        self.comm.rank().checked_sub(1)
    }

    /// The rank after this one, which may own nothing; `None` for the last.
    pub fn right(&self) -> Option<usize> {
        Some(self.comm.rank() + 1).filter(|&next| next < self.comm.size())
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The communicator.
    pub fn comm(&self) -> &Communicator {
        &self.comm
    }
}
