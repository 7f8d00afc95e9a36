//! Memory that the device allocates, and memory that it reaches.
//!
//! - `allocation`: allocates, exports, imports and frees; `buffer`: the public buffer, which also keeps the device
//!   open.
//! - `pages`: memory that other processes map by a file descriptor or a fabric handle; `descriptors`: hands these file
//!   descriptors over; `token`: what another process needs; `readers`: which devices reach such memory.
//! - `foreign`: memory of other programs, and fields in their arrays.
//! - `words`: numbers in pinned memory, for gates; `pieces`: pinned memory for copies to and from the host; `peers`: the memory of
//!   other devices.

pub(crate) mod allocation;
pub(crate) mod buffer;
#[cfg(target_os = "linux")]
mod descriptors;
pub(crate) mod foreign;
#[cfg_attr(not(target_os = "linux"), path = "no_pages.rs")]
mod pages;
pub(crate) mod peers;
pub(crate) mod pieces;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there is no such memory"))]
mod readers;
pub(crate) mod registered;
mod token;
pub(crate) mod words;
