//! Messages between ranks that streams send and receive, without the host.

use std::collections::HashMap;
use std::fmt::Debug;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{DeviceError, Pointer, Stream};

/// The processor and the library of a rank, for the ranks that are to form a group; see
/// [`offer_stream_messages`](super::StreamMessaging::offer_stream_messages).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StreamMessagesOffer {
    /// The name of the processor, unique among all machines. Each rank of a group has a processor of its own.
    pub processor: String,
    /// The library that moves the messages, with its version. All ranks of a group have the same.
    pub library: String,
}

impl StreamMessagesOffer {
    /// The reason for which ranks with these offers, in the order of their numbers, cannot form a group; `None` if they
    /// can. The result depends on the offers alone, so it is the same on all ranks.
    pub fn reason_against_group(offers: &[StreamMessagesOffer]) -> Option<String> {
        let mut ranks = HashMap::new();
        for (rank, offer) in offers.iter().enumerate() {
            if offer.library != offers[0].library {
                let [first, other] = [&offers[0].library, &offer.library];
                return Some(format!("rank 0 has {first}, and rank {rank} has {other}"));
            }
            if let Some(other) = ranks.insert(&offer.processor, rank) {
                let library = &offer.library;
                return Some(format!("ranks {other} and {rank} share a processor, which {library} refuses"));
            }
        }
        None
    }
}

/// A group of ranks, as one of them joins it.
#[derive(Debug, Clone, Copy)]
pub struct StreamGroup<'a> {
    /// The token that one rank has [made](super::StreamMessaging::stream_messages_token) for this group.
    pub token: &'a [u8],
    /// This rank in the group, from 0.
    pub rank: usize,
    /// The number of ranks in the group.
    pub ranks: usize,
    /// The ranks that this one sends to or receives from, without itself. If a rank names another one, the other one
    /// names it, too.
    pub peers: &'a [usize],
    /// How long this rank waits for the others.
    pub time_limit: Duration,
}

/// A message to or from another rank of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamMessage {
    /// The first address, in memory of the device.
    pub pointer: Pointer,
    /// The length in bytes, the same for sender and receiver. A message of 0 bytes is not sent.
    pub bytes: usize,
    /// The other rank.
    pub peer: usize,
}

/// A group of ranks that this one has [joined](super::StreamMessaging::join_stream_messages): their streams send each other
/// messages.
///
/// The exchanges of a group run one after the other, in all streams together, in the order in which they were put into
/// streams. The messages from one rank to another match in that order, and in the order of the list of an exchange. All
/// ranks therefore put their exchanges into streams in the same order. An exchange that has begun occupies the device
/// until all its neighbours have begun theirs. So a device that is in several groups puts their exchanges into streams
/// in one order, too, the same on all ranks.
///
/// A group is dropped when its exchanges have finished, or after it was [aborted](StreamMessages::abort). Dropping it may
/// block until the other ranks drop it, too, for a few seconds at most.
pub trait StreamMessages<S: Stream>: Debug + Send + Sync + 'static {
    /// Puts one exchange into `stream`: it begins after all earlier work there, sends and receives all its messages at
    /// once, and ends before all later work. Waits neither for earlier work nor for other ranks. `stream` is not being
    /// captured. Does nothing if there is no message with bytes.
    ///
    /// # Safety
    /// As for the unsafe calls of [`Device`](super::Device), for the memory of all messages: `sends` is read, and
    /// `receives` is written. No two of `receives` overlap, nor does one of `receives` with one of `sends`. The group
    /// lives until the exchange has finished or the group was aborted.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] for a peer that is not one of [`StreamGroup::peers`], and for a group that was
    /// aborted; errors of the library. After an error of the library, part of the exchange may be in the stream;
    /// only `abort` ends it.
    unsafe fn exchange(
        &self,
        sends: &[StreamMessage],
        receives: &[StreamMessage],
        stream: &S,
    ) -> Result<(), DeviceError>;

    /// Returns the first error of the exchanges in streams, such as a lost neighbour. Does not block. After an error the
    /// exchanges may never end by themselves: the caller aborts the group.
    ///
    /// # Errors
    /// Errors of the library; [`DeviceError::InvalidArgument`] for a group that was aborted.
    fn check(&self) -> Result<(), DeviceError>;

    /// Leaves the group and ends its exchanges, also those that wait for a neighbour: soon after, the streams go on, and
    /// the memory for received messages has unspecified content. Other ranks may get an error, or wait until they abort, too.
    /// May be called while another thread is in [`exchange`](StreamMessages::exchange), and again. Does not block.
    fn abort(&self);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_form_a_group_if_each_has_a_processor_and_all_have_one_library() {
        let offer = |processor: &str, library: &str| StreamMessagesOffer {
            processor: processor.into(),
            library: library.into(),
        };
        let reason = |offers: &[StreamMessagesOffer]| StreamMessagesOffer::reason_against_group(offers);
        assert_eq!(reason(&[]), None);
        assert_eq!(reason(&[offer("a", "L 1"), offer("b", "L 1")]), None);
        let versions = reason(&[offer("a", "L 1"), offer("b", "L 1"), offer("c", "L 2")]);
        assert_eq!(versions.unwrap(), "rank 0 has L 1, and rank 2 has L 2");
        let shared = reason(&[offer("a", "L 1"), offer("b", "L 1"), offer("a", "L 1")]);
        assert_eq!(shared.unwrap(), "ranks 0 and 2 share a processor, which L 1 refuses");
    }
}
