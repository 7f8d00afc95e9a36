//! Ranks as threads of one process.
//!
//! - [`run_ranks`] starts them and gathers what they return;
//! - `world` is what they share: who has failed, the bells that wake them, collectives and published windows;
//! - `pipe` is one channel between two of them: the later of the two to post copies the message;
//! - `mail` keeps messages that receivers need not know of.

mod collective;
mod lock;
mod mail;
mod pipe;
mod ranks;
mod transport;
mod world;

pub use ranks::{MOST_RANKS, RanksError, run_ranks};
