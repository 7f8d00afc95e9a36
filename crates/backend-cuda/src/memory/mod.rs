//! Memory that the device allocates, and memory that it reaches.
//!
//! - `allocation`: allocates, exports, imports and frees; `buffer`: the public buffer, which also keeps the device
//!   open.
//! - `foreign`: memory of other programs, and fields in their arrays.
//! - `words`: numbers in pinned memory, for flags and gates; `peers`: the memory of other devices.

pub(crate) mod allocation;
pub(crate) mod buffer;
pub(crate) mod foreign;
pub(crate) mod peers;
pub(crate) mod words;
