//! How bytes travel between ranks.
//!
//! A [`Transport`] moves memory ranges through channels, which are opened once and posted many times; sends messages of
//! any length to ranks that need not expect them; and has a few collective operations, for setting up patterns. It
//! depends on no event of a device, no field and no pattern. If ranks share memory, a neighbour copies straight out of
//! a field through a [`Window`]. Programs do not call a transport: they call a [`Communicator`](crate::Communicator),
//! which owns one.
//!
//! Read in this order: this file; `window` and its states; `shared`, memory of several processes; `in_process`, ranks
//! as threads. Ranks as MPI processes are in the crate `haloport-mpi`.

#[cfg(doctest)]
mod compile_fail;
mod error;
mod in_process;
mod shared;
mod window;

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use serde::Serialize;

pub use error::TransportError;
pub use shared::{Lease, SharedMemory};
pub use window::Window;

pub(crate) use in_process::{InProcess, World};
pub(crate) use window::{Lent, STATE_BYTES, WindowState};

use crate::device::{DeviceId, MemoryRange, Pointer};

/// A channel of a transport: one direction, one peer, one tag, one memory range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Channel(pub u64);

/// The direction of a channel, seen from this rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From this rank to the peer.
    Send,
    /// From the peer to this rank.
    Receive,
}

/// How the values of all ranks are combined, see [`Communicator::all_reduce`](crate::Communicator::all_reduce).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The sum; of integers modulo 2^64.
    Sum,
}

/// The description of a transport, and its abilities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransportInfo {
    /// The name: `in-process`, `mpi`.
    pub name: &'static str,
    /// The implementation and its version.
    pub implementation: String,
    /// The ranks whose memory this rank can read.
    pub reach: Reach,
    /// The backends whose device memory channels may name, such as `cuda`.
    pub device_memory: Vec<&'static str>,
    /// Whether calls may come from several threads at once.
    pub any_thread: bool,
    /// Whether the ranks of this node outnumber the cores that they may use, so that they take turns on them.
    pub crowded: bool,
}

impl TransportInfo {
    /// Whether channels may name memory of this device, even if the host cannot access it.
    pub fn takes_memory_of(&self, device: &DeviceId) -> bool {
        self.device_memory.contains(&device.backend)
    }
}

/// The ranks whose memory a rank can read: cells of those ranks need not travel in messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// All ranks: they are threads of one process ([`Transport::publish`]).
    Process,
    /// Ranks of its node: processes that map each other's shared memory ([`Transport::share`]).
    Node {
        /// Their number, with this rank.
        ranks: usize,
        /// The reason why one or more of the node's ranks are not among them.
        apart: Option<String>,
    },
    /// This rank alone.
    Own {
        /// The reason.
        reason: String,
    },
}

/// The answer of [`Transport::receive_message`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// No message has come.
    Nothing,
    /// A message has been found, but its bytes have not all come: call again.
    Arriving,
    /// A message.
    Message {
        /// The rank that sent it.
        sender: usize,
        /// Its content.
        bytes: Vec<u8>,
    },
}

/// The function that a collective calls repeatedly while it waits: it makes progress with exchanges and checks the time
/// limit. Its error ends the collective.
pub type Idle<'a> = &'a mut dyn FnMut() -> Result<(), TransportError>;

/// Moves bytes between ranks.
///
/// Channels of the same peer, direction and tag are matched in the order of their posting. The tags of messages are
/// apart from those of channels; messages of one sender and tag are received in the order of sending. All ranks call
/// collectives in the same order, which [`Communicator`](crate::Communicator) ensures; collectives block, but call
/// `idle` while they wait.
///
/// # Safety
/// - An implementation touches the memory of a channel only between a `post` and the `test` that finds the message
///   complete, or after a `close` as long as the keeper exists; and never beyond the channel's range.
/// - `attach` returns only a window that the peer has published under the tag for this rank.
/// - `share` and `map` return the same memory, which only ranks with its token touch.
/// - From the time that a [`Communicator`](crate::Communicator) owns the transport, safe code gets no other handle on
///   which it could call a method of this trait: it could take or replace messages and windows of exchanges. A
///   transport that passes its calls on to another one keeps the promises that its callers gave.
pub unsafe trait Transport: Debug + Send + Sync {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// Describes the transport and its abilities.
    fn info(&self) -> TransportInfo;

    /// Whether this thread may call the transport. Cheap.
    ///
    /// # Errors
    /// [`TransportError::WrongThread`] if it may not.
    fn check_thread(&self) -> Result<(), TransportError> {
        Ok(())
    }

    /// The largest tag of channels and messages, at least 2^15 - 1.
    fn largest_tag(&self) -> u32 {
        u32::MAX
    }

    /// Opens a channel for messages of exactly `memory.bytes` bytes. Both ends open with the same tag and length, in
    /// any order; opening sends nothing.
    ///
    /// # Safety
    /// As for [`open_parts`](Transport::open_parts).
    ///
    /// # Errors
    /// As for [`open_parts`](Transport::open_parts).
    unsafe fn open(
        &self,
        direction: Direction,
        peer: usize,
        tag: u32,
        memory: MemoryRange,
    ) -> Result<Channel, TransportError> {
        // SAFETY: the caller's promise.
        unsafe { self.open_parts(direction, peer, tag, slice::from_ref(&memory)) }
    }

    /// Opens a channel for messages in separate parts: the bytes of each part of the sender arrive in the same part of
    /// the receiver. Both ends open with the same tag and with parts of the same lengths in the same order.
    ///
    /// # Safety
    /// All `parts` stay valid until the channel is closed or, if it is closed while a message is under way, as long as
    /// the keeper given to [`close`](Transport::close) exists. Dropping the transport closes no channel.
    ///
    /// # Errors
    /// A peer that does not exist, memory that the transport cannot reach, a channel that is already open.
    unsafe fn open_parts(
        &self,
        direction: Direction,
        peer: usize,
        tag: u32,
        parts: &[MemoryRange],
    ) -> Result<Channel, TransportError>;

    /// Starts one message on a channel whose last message is complete. Does not block.
    ///
    /// # Safety
    /// Until [`test`](Transport::test) finds the message complete, nothing writes the memory of a sending channel, and
    /// nothing reads or writes that of a receiving one.
    ///
    /// # Errors
    /// An unknown channel, one whose message is still under way, and errors of the layer below.
    unsafe fn post(&self, channel: Channel) -> Result<(), TransportError>;

    /// Whether the last message posted on the channel is complete: received, or its memory free to be written again. A
    /// channel that was never posted is complete. Makes progress; does not block.
    ///
    /// # Errors
    /// An unknown channel, a message of another length than the channel's, and errors of the layer below.
    fn test(&self, channel: Channel) -> Result<bool, TransportError>;

    /// Closes a channel. If a message is under way, the transport withdraws it or, if that is impossible, holds `keep`,
    /// which owns the memory, until the message is complete. Does not block for longer than a copy of the message.
    ///
    /// # Safety
    /// `keep` owns the memory that the channel was opened for, and the channel is the caller's own.
    unsafe fn close(&self, channel: Channel, keep: Arc<dyn Any + Send + Sync>);

    /// Lends `window` to `peer`, which finds it under `tag`. Returns `false` if the two ranks share no memory.
    ///
    /// # Errors
    /// A peer that does not exist.
    fn publish(&self, _peer: usize, _tag: u32, _window: &Arc<Window>) -> Result<bool, TransportError> {
        Ok(false)
    }

    /// Takes the window that `peer` published for this rank under `tag`; `None` if there is none.
    ///
    /// # Errors
    /// A peer that does not exist.
    fn attach(&self, _peer: usize, _tag: u32) -> Result<Option<Arc<Window>>, TransportError> {
        Ok(None)
    }

    /// Tells all other ranks that this one has failed, and why, if they are threads of this process. Otherwise does nothing.
    fn fail(&self, _why: &str) {}

    /// Tells all other ranks that this one has ended, as its drop does, if they are threads of this process. Otherwise does
    /// nothing. Called at most once.
    fn end(&self) {}

    /// Whether this rank and `peer`, another one, can map the memory that the other [`share`](Transport::share)s.
    fn is_near(&self, _peer: usize) -> bool {
        false
    }

    /// Allocates at least `bytes` bytes, all 0, which near peers can map; `None` if there are no near peers, or no
    /// memory is left.
    fn share(&self, bytes: usize) -> Option<Lease> {
        self.share_parts(bytes, slice::from_ref(&(0..bytes)))
    }

    /// As [`share`](Transport::share), but near peers can map only the pages with the bytes of `parts`. The rest is
    /// memory of this process alone, with large pages if the system has them: a sweep over strided cells touches
    /// another page every few rows, and memory that processes share mostly has small pages.
    fn share_parts(&self, _bytes: usize, _parts: &[Range<usize>]) -> Option<Lease> {
        None
    }

    /// Lets near peers map memory of the program where it is: the whole pages that lie within these ranges, each an address
    /// and a length in bytes. The content stays. When the memory of the lease is dropped, the process has the pages alone
    /// again, with their content. `Ok(None)` if there are no near peers or no whole pages, if processes share the memory already, and if
    /// the system has no memory for that.
    ///
    /// # Errors
    /// The reason in words, for memory of another kind, such as that of a file; nothing has changed.
    ///
    /// # Safety
    /// The ranges are valid memory of the host, and do not overlap. During this call, and while the memory of the lease is
    /// dropped, nothing else writes them, and no device or network works on them. In between they are neither freed nor
    /// mapped otherwise.
    unsafe fn share_in_place(&self, _ranges: &[(Pointer, usize)]) -> Result<Option<Lease>, String> {
        Ok(None)
    }

    /// Maps the shared parts of memory of `peer`, by its token; the bytes between them must not be touched
    /// ([`SharedMemory::covers`]). `None` if it cannot be found.
    ///
    /// # Errors
    /// A peer that does not exist.
    fn map(&self, _peer: usize, _token: &[u8]) -> Result<Option<SharedMemory>, TransportError> {
        Ok(None)
    }

    /// Wakes `peer`, if it sleeps in [`relax`](Transport::relax), because a window's state has changed.
    fn notify(&self, _peer: usize) {}

    /// Begins to send a message of any length, even 0, to any rank, including this one. Does not block; the transport
    /// owns the bytes from now on.
    ///
    /// # Errors
    /// A peer that does not exist, a tag beyond the transport's largest, and errors of the layer below.
    fn send_message(&self, peer: usize, tag: u32, bytes: Vec<u8>) -> Result<(), TransportError>;

    /// Takes the next message with this tag, from any sender. Makes progress; does not block.
    ///
    /// # Errors
    /// Those of the layer below.
    fn receive_message(&self, tag: u32) -> Result<Incoming, TransportError>;

    /// The ranks, each once and in ascending order, that have not yet found all messages which this rank has sent them
    /// with this tag. Once a rank is not among them, its [`receive_message`](Transport::receive_message) returns
    /// [`Incoming::Nothing`] only after it has returned all of these messages. Makes progress; does not block.
    ///
    /// # Errors
    /// Those of the layer below.
    fn unreceived(&self, tag: u32) -> Result<Vec<usize>, TransportError>;

    /// Discards the messages that have come for this rank with this tag, and stops counting those that it has sent,
    /// which still reach receivers that ask for them. Called when this rank no longer uses the tag.
    fn discard_messages(&self, tag: u32);

    /// Waits a little: a rank without work calls it with `round` = 0, 1, 2, … Early rounds spin, later ones yield the
    /// core or sleep. A sleep ends when another rank does something that may end the wait, and after some milliseconds
    /// at most, because devices wake no rank.
    ///
    /// # Errors
    /// [`TransportError::PeerFailed`] once it is known that another rank has failed.
    fn relax(&self, round: u32) -> Result<(), TransportError>;

    /// The other ranks that have not called the collective in which this rank waits, in ascending order; none if the
    /// transport does not know.
    fn missing_ranks(&self) -> Vec<usize> {
        Vec::new()
    }

    /// The other ranks whose transport was dropped, in ascending order: they send and receive nothing more. Their
    /// earlier messages can still be received, so a caller that waits calls this before it looks for messages. None
    /// if the transport does not know.
    fn ended_ranks(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Collective: replaces each value by its reduction over all ranks. The lists have the same length everywhere.
    ///
    /// # Errors
    /// That of `idle`, and those of the layer below.
    fn all_reduce(
        &self,
        values: &mut [u64],
        reduction: Reduction,
        idle: Idle<'_>,
    ) -> Result<(), TransportError>;

    /// Collective: replaces the bytes by those of rank `root`, of any length.
    ///
    /// # Errors
    /// That of `idle`, and those of the layer below.
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>, idle: Idle<'_>) -> Result<(), TransportError>;

    /// Collective: sends each message to the rank paired with it and returns the messages for this rank, paired with
    /// their senders, in the order of the senders and, for one sender, of sending. Receivers need not know the senders;
    /// cost and memory grow with a rank's own messages alone. Messages to this rank and empty messages are allowed.
    ///
    /// # Errors
    /// That of `idle`, and those of the layer below.
    fn sparse_exchange(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
        idle: Idle<'_>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError>;
}
