//! Ranks as threads of one process.
//!
//! [`run_ranks`](crate::run_ranks) starts them.
//!
//! - `transport` is what each rank has;
//! - `world` is what they share: who has failed, the bells that wake them, collectives and published windows;
//! - `pipe` is one channel between two of them: the later of the two to post copies the message;
//! - `mail` keeps messages that receivers need not know of.

mod collective;
mod lock;
mod mail;
mod pipe;
mod transport;
mod world;

pub(crate) use transport::InProcess;
pub(crate) use world::World;
