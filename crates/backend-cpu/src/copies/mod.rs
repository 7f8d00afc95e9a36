//! Lists of copies between strided boxes and indexed rows.
//!
//! - `list`: the bound list, cut into pieces for several threads. Its items are `boxes`, `sweeps` (two boxes of the
//!   same form copied together) and `rows` (picked by index; `tiles` of them if they are combined).
//! - `lines`: the loops that all of them share; `stores`: writing through the caches or past them; `choice`: finds out
//!   which of the two is faster; `fetch`: prefetching; `wide`: listed rows of a few cache lines;
//! - `combine`: writing that combines what is read with what is there; `numbers`: what is combined, and how.

pub(crate) mod boxes;
mod choice;
mod combine;
mod fetch;
mod lines;
pub(crate) mod list;
mod numbers;
mod rows;
pub(crate) mod stores;
mod sweeps;
mod tiles;
mod wide;
