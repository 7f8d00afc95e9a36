//! The transport suite: what every transport does. Every rank calls [`suite`].
//!
//! - `collectives`: calls that all ranks make;
//! - `channels`, `parts`: messages of a fixed length, sent again and again, whole or in parts;
//! - `messages`: messages that their receivers need not know of;
//! - `shared_memory`: memory that ranks of one node share;
//! - `bare`: the transport below a communicator, which the tests use.

pub(crate) mod bare;
mod channels;
mod collectives;
pub(crate) mod messages;
mod parts;
mod shared_memory;

use haloport_core::comm::Communicator;

use crate::{Report, judge};

/// Collective: runs all transport tests.
///
/// # Errors
/// The failures of this rank, one on a line.
pub fn suite(comm: &Communicator) -> Result<Report, String> {
    judge(
        comm,
        &[
            ("ranks", collectives::ranks),
            ("barriers", collectives::barriers),
            ("reductions", collectives::reductions),
            ("broadcasts", collectives::broadcasts),
            ("gathers", collectives::gathers),
            ("sparse exchanges", collectives::sparse_exchanges),
            ("agreement", collectives::agreement),
            ("wrong ranks", collectives::wrong_ranks),
            ("channels", channels::channels),
            ("channels of many tags", channels::channels_of_many_tags),
            ("messages of the wrong length", channels::wrong_length),
            ("closing a channel that waits", channels::closing),
            ("misuse of channels", channels::misuse),
            ("shared memory", shared_memory::shared_memory),
            ("memory shared in parts", shared_memory::shared_parts),
            ("messages to whom they may concern", messages::messages),
            ("messages beside channels", messages::messages_beside_channels),
            ("channels in parts", parts::channels_in_parts),
            ("messages that nobody has found", messages::unreceived),
            ("messages that nobody wants", messages::unwanted),
        ],
        &[],
    )
}
