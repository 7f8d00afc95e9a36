//! Which collective call a rank makes, so that ranks notice that their calls differ.

use std::fmt;
use std::thread::ThreadId;

use crate::element::ElementType;
use crate::transport::{Reduction, TransportError};

/// A collective call, with all that must be the same on every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CollectiveCall {
    Barrier,
    Reduction { reduction: Reduction, element: ElementType, values: usize },
    Broadcast { root: usize },
    Gather { root: usize },
    Messages,
    Agreement,
    WriteTrace,
    Pattern,
    Bind { pattern: u32 },
    Plan { pattern: u32 },
    SparseExchange { fixed: bool },
    Line,
    LineExchange { line: u32 },
    LineRound { exchange: u32 },
}

/// The bits of a word that differ between calls of one kind.
const DETAIL_BITS: u32 = 56;

impl CollectiveCall {
    /// The number of kinds of calls.
    pub(super) const KINDS: usize = 14;

    /// The kind of call, from 0.
    pub(super) fn kind(self) -> usize {
        self.parts().0
    }

    /// A word that differs between calls that differ.
    pub(super) fn word(self) -> u64 {
        let (kind, detail, _) = self.parts();
        (kind as u64) << DETAIL_BITS | detail & !(u64::MAX << DETAIL_BITS)
    }

    /// The name of the call's wait in the time line.
    pub(super) fn wait_name(self) -> &'static str {
        self.parts().2
    }

    /// The kind, the detail that differs between calls of this kind, and the name of the wait.
    fn parts(self) -> (usize, u64, &'static str) {
        match self {
            CollectiveCall::Barrier => (0, 0, "all ranks at a barrier"),
            CollectiveCall::Reduction { reduction, element, values } => {
                let detail = (values as u64) << 10 | element.number() << 2 | reduction as u64;
                (1, detail, "all ranks at a reduction")
            }
            CollectiveCall::Broadcast { root } => (2, root as u64, "all ranks at a broadcast"),
            CollectiveCall::Messages => (3, 0, "all ranks at a sparse exchange"),
            CollectiveCall::Agreement => (4, 0, "all ranks at an agreement"),
            CollectiveCall::WriteTrace => (5, 0, "all ranks at the writing of a time line"),
            CollectiveCall::Pattern => (6, 0, "all ranks at the making of a pattern"),
            CollectiveCall::Bind { pattern } => (7, pattern.into(), "all ranks at the binding of fields"),
            CollectiveCall::SparseExchange { fixed } => {
                (8, fixed.into(), "all ranks at the making of a sparse exchange")
            }
            CollectiveCall::Line => (9, 0, "all ranks at the making of a line"),
            CollectiveCall::LineExchange { line } => {
                (10, line.into(), "all ranks at the making of a line exchange")
            }
            CollectiveCall::LineRound { exchange } => {
                (11, exchange.into(), "all ranks at a round of a line exchange")
            }
            CollectiveCall::Plan { pattern } => (12, pattern.into(), "all ranks at the making of a plan"),
            CollectiveCall::Gather { root } => (13, root as u64, "all ranks at a gather"),
        }
    }
}

impl fmt::Display for CollectiveCall {
    /// Writes a text that differs between calls that differ.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CollectiveCall::Barrier => f.write_str("a barrier"),
            CollectiveCall::Reduction { reduction, element, values } => {
                write!(f, "a reduction ({reduction:?}) of {values} values, {}", element.in_words())
            }
            CollectiveCall::Broadcast { root } => write!(f, "a broadcast from rank {root}"),
            CollectiveCall::Gather { root } => write!(f, "a gather to rank {root}"),
            CollectiveCall::Messages => f.write_str("a sparse exchange of messages"),
            CollectiveCall::Agreement => f.write_str("an agreement"),
            CollectiveCall::WriteTrace => f.write_str("the writing of a time line"),
            CollectiveCall::Pattern => f.write_str("the making of a pattern"),
            CollectiveCall::Bind { pattern } => write!(f, "the binding of fields to pattern {pattern}"),
            CollectiveCall::Plan { pattern } => write!(f, "the making of a plan of pattern {pattern}"),
            CollectiveCall::SparseExchange { fixed: true } => {
                f.write_str("the making of a sparse exchange between fixed neighbours")
            }
            CollectiveCall::SparseExchange { fixed: false } => {
                f.write_str("the making of a sparse exchange between any ranks")
            }
            CollectiveCall::Line => f.write_str("the making of a line"),
            CollectiveCall::LineExchange { line } => {
                write!(f, "the making of a line exchange of line {line}")
            }
            CollectiveCall::LineRound { exchange } => write!(f, "a round of line exchange {exchange}"),
        }
    }
}

/// The state of a communicator between its collective calls. Locked during each step, so steps are not interleaved.
#[derive(Debug, Default)]
pub(super) struct Collectives {
    /// The first error after which ranks may be at different steps: further calls are refused.
    pub(super) failed: Option<TransportError>,
    /// The thread in a call of several steps.
    pub(super) within: Option<ThreadId>,
    /// The number of calls of each kind so far, the same on every rank.
    pub(super) counts: [u32; CollectiveCall::KINDS],
}
