//! Cells that go through memory that two ranks share, handed over by their hosts: copied straight from the neighbour's
//! field, or packed by the sender and unpacked by the receiver.
//!
//! Once: `mapping` maps fields of other processes and keeps exported device memory alive, `segment` is memory that two
//! processes share, and `bind` binds the copies. Every time: `windows`; `lent_window`: a window that this rank lends.

pub(crate) mod bind;
pub(crate) mod lent_window;
pub(crate) mod mapping;
pub(crate) mod segment;
pub(crate) mod windows;
