//! Two accesses that nothing orders.

use std::fmt;
use std::sync::Arc;

/// Two accesses to the same byte, at least one of which writes, in works that may run in either order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Race {
    /// The name of the block of memory.
    pub block: Arc<str>,
    /// The first byte of the later access that is in both, counted from the beginning of the block.
    pub offset: usize,
    /// The access that came first in this run.
    pub earlier: Access,
    /// The access that came second.
    pub later: Access,
}

/// An access to a byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The description of the work.
    pub work: Arc<str>,
    /// Whether it writes.
    pub writes: bool,
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Race { block, offset, earlier, later } = self;
        let does = if later.writes { "writes" } else { "reads" };
        let has_done = if earlier.writes { "written" } else { "read" };
        write!(
            f,
            "`{}` {does} byte {offset} of {block}, which `{}` has {has_done}, ",
            later.work, earlier.work
        )?;
        write!(f, "and neither waits for the other")
    }
}

impl std::error::Error for Race {}
