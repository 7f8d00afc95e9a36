//! The memory that the driver gives out.
//!
//! - `mapping`: pages of the host; `blocks`: the allocations that live, and finding them by address.
//! - `foreign`: memory that another process has exported.

pub(crate) mod blocks;
pub(crate) mod foreign;
pub(crate) mod mapping;
