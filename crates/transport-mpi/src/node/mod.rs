//! Memory that the processes of a node share: `reach` finds the ranks that share memory, `segment` makes such memory
//! and opens that of other processes, `in_place` makes it of memory of the program, `mapping` puts it at addresses, `forks`
//! keeps it from children, and `bell` wakes ranks through it.

pub(crate) mod bell;
mod forks;
pub(crate) mod in_place;
mod mapping;
pub(crate) mod reach;
pub(crate) mod segment;

pub use reach::try_node_memory;
