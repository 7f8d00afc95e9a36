//! Ranks along a line: each owns consecutive items, such as rows of a sorted table, and passes payloads of any length
//! to the ranks beside it.
//!
//! Each rank wants the three items before its own. What it passes on in one round is its own items, and then what came
//! in the round before, so that short intervals do not stop a wide window:
//!
//! ```
//! use haloport_core::line::{Payloads, NextRound};
//! use haloport_core::{Line, LineExchange, run_ranks};
//!
//! let before = run_ranks(4, |comm| {
//!     let line = Line::even(&comm, 7)?; // 2, 2, 2 and 1
//!     let own: Vec<u8> = line.mine().map(|item| item as u8).collect();
//!     let wanted = line.mine().start.min(3) as usize;
//!     let (mut before, mut next) = (Vec::new(), own);
//!     LineExchange::new(&line)?.rounds(|came| {
//!         if let Some(items) = came.left {
//!             before.splice(..0, items.iter().copied());
//!             next = items;
//!         }
//!         let pass = Payloads { right: Some(std::mem::take(&mut next)), left: None };
//!         NextRound { pass, enough: before.len() >= wanted }
//!     })?;
//!     Ok(before.split_off(before.len() - wanted))
//! })?;
//! assert_eq!(before, [vec![], vec![0, 1], vec![1, 2, 3], vec![3, 4, 5]]);
//! # Ok::<(), haloport_core::RanksError>(())
//! ```
//!
//! - `interval`: [`Line`], which rank owns which items;
//! - this file: [`LineExchange`], which passes payloads along it.

mod interval;

pub use interval::Line;

use crate::comm::CollectiveCall;
use crate::sparse::{SparseError, SparseExchange};
use crate::transport::Reduction;

/// What a rank passes to the ranks beside it, or what came from them. `None` is nothing; an empty payload is something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payloads {
    /// To or from the rank that owns the items before.
    pub left: Option<Vec<u8>>,
    /// To or from the rank that owns the items after.
    pub right: Option<Vec<u8>>,
}

/// What a rank does between two rounds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NextRound {
    /// What it passes in the next round. At the ends of the line nobody gets it.
    pub pass: Payloads,
    /// Whether it wants no more for itself. It may be asked to pass on what others want.
    pub enough: bool,
}

/// Passes payloads of any length along a line, in rounds. Payloads are bytes in host memory.
#[derive(Debug)]
pub struct LineExchange {
    line: Line,
    /// On its communicator, the same on every rank.
    number: u32,
    exchange: SparseExchange,
}

impl LineExchange {
    /// Collective: between the ranks of `line`. A rank that owns nothing takes part as any other.
    ///
    /// # Errors
    /// As for [`SparseExchange::between`].
    pub fn new(line: &Line) -> Result<LineExchange, SparseError> {
        let steps = line.comm().enter(CollectiveCall::LineExchange { line: line.number() })?;
        let neighbours: Vec<usize> = [line.left(), line.right()].into_iter().flatten().collect();
        let exchange = SparseExchange::between(line.comm(), &neighbours, &neighbours)?;
        Ok(LineExchange { line: line.clone(), number: steps.number(), exchange })
    }

    /// One round, in which a rank waits for the two beside it and no others: passes payloads and returns those that
    /// came.
    ///
    /// # Errors
    /// As for [`Round::wait`](crate::sparse::Round::wait).
    pub fn pass(&mut self, pass: Payloads) -> Result<Payloads, SparseError> {
        let (left, right) = (self.line.left(), self.line.right());
        let round = self.exchange.begin()?;
        for (peer, payload) in [(left, pass.left), (right, pass.right)] {
            if let (Some(peer), Some(payload)) = (peer, payload) {
                round.send(peer, payload)?;
            }
        }
        let mut came = Payloads::default();
        for (sender, payload) in round.wait()? {
            let side = if Some(sender) == left { &mut came.left } else { &mut came.right };
            *side = Some(payload);
        }
        Ok(came)
    }

    /// Collective: goes through rounds until every rank has enough, and returns how many there were. `turn` is called
    /// before each round with what came in the one before, first with nothing, and once more after the last. One rank
    /// alone returns at once.
    ///
    /// # Errors
    /// [`SparseError::Refused`], on every rank, where a rank wants more after as many rounds as there are other ranks:
    /// by then what is passed on has come to all. As for [`pass`](LineExchange::pass), and what the reduction says by
    /// which ranks agree that all have enough.
    pub fn rounds(&mut self, mut turn: impl FnMut(Payloads) -> NextRound) -> Result<usize, SparseError> {
        let comm = self.line.comm().clone();
        let mut came = Payloads::default();
        for round in 0..comm.size() {
            let NextRound { pass, enough } = turn(came);
            if comm.size() == 1 {
                return Ok(0);
            }
            let mut wanting = [if enough { u64::MAX } else { comm.rank() as u64 }];
            comm.reduce_in(
                CollectiveCall::LineRound { exchange: self.number },
                &mut wanting,
                Reduction::Min,
            )?;
            match wanting[0] {
                u64::MAX => return Ok(round),
                rank if round + 1 == comm.size() => {
                    return Err(SparseError::Refused(format!(
                        "rank {rank} has not enough after {round} rounds, in which all that is passed on comes to all \
                         ranks: pass on what comes, and end where the line does"
                    )));
                }
                _ => came = self.pass(pass)?,
            }
        }
        Ok(0)
    }

    /// The line.
    pub fn line(&self) -> &Line {
        &self.line
    }
}
