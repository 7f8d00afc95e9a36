//! The memory that the driver gives out.
//!
//! - `mapping`: pages of the host; `blocks`: the allocations that live, and finding them by address.
//! - `pages`: memory with handles, mapped at reserved addresses; `foreign`: memory that another process has exported.

pub(crate) mod blocks;
pub(crate) mod foreign;
pub(crate) mod mapping;
pub(crate) mod pages;
