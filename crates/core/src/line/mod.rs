//! Ranks along a line: each owns consecutive items, such as rows of a sorted table, and passes payloads of any length
//! to the ranks beside it.
//!
//! Here each rank needs the three items before its own. In the first round it passes its own items on, and in later
//! rounds those that came in the round before, so a window may be wider than the intervals:
//!
//! ```
//! use haloport::line::{Line, LineExchange, NextRound, Payloads};
//! use haloport::run_ranks;
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
//! # Ok::<(), haloport::comm::RanksError>(())
//! ```
//!
//! - `interval`: [`Line`], the items of each rank;
//! - this file: [`LineExchange`], which passes payloads along a line.

mod interval;

pub use interval::Line;

use crate::comm::CollectiveCall;
use crate::sparse::{SparseError, SparseExchange};
use crate::transport::Reduction;

/// The payloads to or from the ranks beside this one. `None` is no payload; an empty payload is one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payloads {
    /// To or from the rank that owns the items before.
    pub left: Option<Vec<u8>>,
    /// To or from the rank that owns the items after.
    pub right: Option<Vec<u8>>,
}

/// The next round of a rank, or its last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NextRound {
    /// The payloads of the next round. Those beyond the ends of the line are dropped.
    pub pass: Payloads,
    /// Whether the rank needs no more items. Rounds go on until all ranks have enough.
    pub enough: bool,
}

/// Passes payloads of any length along a line, in rounds. Payloads are bytes in host memory.
#[derive(Debug)]
pub struct LineExchange {
    line: Line,
    /// Its number on the communicator, the same on every rank.
    number: u32,
    exchange: SparseExchange,
}

impl LineExchange {
    /// Collective: makes an exchange between the ranks of `line`. A rank without items takes part as any other.
    ///
    /// # Errors
    /// As for [`SparseExchange::between`].
    pub fn new(line: &Line) -> Result<LineExchange, SparseError> {
        let steps = line.comm().enter(CollectiveCall::LineExchange { line: line.number() })?;
        let neighbours: Vec<usize> = [line.left(), line.right()].into_iter().flatten().collect();
        let exchange = SparseExchange::between(line.comm(), &neighbours, &neighbours)?;
        Ok(LineExchange { line: line.clone(), number: steps.number(), exchange })
    }

    /// Passes payloads in one round, and returns those that came. Waits for the two ranks beside this one alone.
    ///
    /// # Errors
    /// As for [`begin`](LineExchange::begin) and [`end`](LineExchange::end).
    pub fn pass(&mut self, pass: Payloads) -> Result<Payloads, SparseError> {
        self.begin(pass)?;
        self.end()
    }

    /// Begins to pass payloads in one round, which goes on until [`end`](LineExchange::end) and borrows nothing
    /// meanwhile. Payloads beyond the ends of the line are dropped. Does not block.
    ///
    /// Dropping the exchange before the end first completes the round, within the time limit, and discards its payloads.
    /// If its thread is panicking, the round is given up instead.
    ///
    /// # Errors
    /// As for [`SparseExchange::begin_with`], for instance [`SparseError::InRound`] if a round was begun before and not ended.
    pub fn begin(&mut self, pass: Payloads) -> Result<(), SparseError> {
        let sides = [(self.line.left(), pass.left), (self.line.right(), pass.right)];
        self.exchange.begin_with(sides.into_iter().filter_map(|(peer, payload)| peer.zip(payload)))
    }

    /// Makes progress, and returns whether [`end`](LineExchange::end) would return without waiting; also `true` if no
    /// round is under way or the round has failed. Does not block.
    pub fn is_ready(&self) -> bool {
        self.exchange.is_ready()
    }

    /// Whether a round was begun by [`begin`](LineExchange::begin) and not ended.
    pub fn is_in_round(&self) -> bool {
        self.exchange.is_in_round()
    }

    /// Ends the round that [`begin`](LineExchange::begin) began, and returns the payloads that came. Waits for the two
    /// ranks beside this one alone.
    ///
    /// # Errors
    /// As for [`SparseExchange::end`].
    pub fn end(&mut self) -> Result<Payloads, SparseError> {
        let mut came = Payloads::default();
        for (sender, payload) in self.exchange.end()? {
            let side = if Some(sender) == self.line.left() { &mut came.left } else { &mut came.right };
            *side = Some(payload);
        }
        Ok(came)
    }

    /// Collective: goes through rounds until every rank has enough, and returns their number. Calls `turn` before each
    /// round with the payloads of the round before, at first with none, and once more after the last round. A single
    /// rank returns at once.
    ///
    /// # Errors
    /// [`SparseError::Refused`], on every rank, if a rank needs more after as many rounds as there are other ranks: by
    /// then, payloads that are passed on have reached all ranks. [`SparseError::InRound`], at once and on this rank alone,
    /// if a round was begun before and not ended. As for [`pass`](LineExchange::pass), and the errors of the reduction by
    /// which ranks agree that all have enough.
    pub fn rounds(&mut self, mut turn: impl FnMut(Payloads) -> NextRound) -> Result<usize, SparseError> {
        self.exchange.check_no_round()?;
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
                        "rank {rank} needs more after {round} rounds, in which passed-on items reach all ranks: pass \
                         on the items that come, and have enough at the ends of the line"
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
