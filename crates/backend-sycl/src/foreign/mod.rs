//! Memory and queues of other programs: `device` opens a device in their contexts, and `allocation` finds the memory
//! that an address belongs to.

mod allocation;
mod device;

pub use allocation::Allocation;
pub(crate) use allocation::not_of_context;
