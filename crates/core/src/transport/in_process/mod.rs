//! Ranks as threads of one process, which [`run_ranks`](crate::run_ranks) starts, or a
//! program itself ([`threads`](crate::threads)).
//!
//! - `transport`: the transport of one rank;
//! - `world`: the data that all ranks share: the first failure, wake-ups, channels and published windows;
//! - `pipe`: one channel between two ranks: the later of the two to post copies the message;
//! - `mail`: messages that receivers need not expect;
//! - `collective`: the collectives.

mod collective;
mod mail;
mod pipe;
mod transport;
mod world;

pub(crate) use transport::InProcess;
pub(crate) use world::World;
