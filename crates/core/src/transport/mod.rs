//! How bytes travel between ranks.
//!
//! A [`Transport`] moves memory ranges through channels that are opened once and posted many times, sends messages
//! of any length to ranks that need not know of them, and offers the few collective operations that setting up a
//! pattern needs. It knows nothing of devices' events, of fields or of patterns. Where ranks share memory, a [`Window`]
//! lets a neighbour copy straight out of a field. Callers do not use a transport: they use a
//! [`Communicator`](crate::Communicator), which owns one.

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
pub(crate) use window::{STATE_BYTES, WindowState};

use crate::device::MemoryRange;

/// A channel of a transport: one direction, one peer, one tag, one memory range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Channel(pub u64);

/// Which way a channel goes, seen from this rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From this rank to the peer.
    Send,
    /// From the peer to this rank.
    Receive,
}

/// How the values of all ranks become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The sum; of integers modulo 2^64.
    Sum,
}

/// What a transport is and can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransportInfo {
    /// The name: `in-process`, `mpi`.
    pub name: &'static str,
    /// The implementation and its version.
    pub implementation: String,
    /// Whose memory this rank can read.
    pub reach: Reach,
    /// Whether channels may name device memory.
    pub device_memory: bool,
    /// Whether calls may come from several threads at once.
    pub any_thread: bool,
}

/// Whose memory a rank can read: cells of those ranks need not travel in messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// That of all ranks: they are threads of one process ([`Transport::publish`]).
    Process,
    /// That of the ranks of its node, processes which map what others share ([`Transport::share`]).
    Node {
        /// How many they are, with this rank.
        ranks: usize,
    },
    /// Its own alone.
    Own {
        /// Why.
        reason: String,
    },
}

/// What a rank finds when it asks for a message ([`Transport::receive_message`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// No message is here.
    Nothing,
    /// A message has been found, and its bytes are still on their way. Ask again.
    Arriving,
    /// A message.
    Message {
        /// The rank that sent it.
        sender: usize,
        /// What it holds.
        bytes: Vec<u8>,
    },
}

/// Called again and again while a collective waits: serves pending exchanges and watches the time limit. Its error
/// ends the collective.
pub type Idle<'a> = &'a mut dyn FnMut() -> Result<(), TransportError>;

/// Moves bytes between ranks.
///
/// Channels of the same peer, direction and tag are matched in the order of their posting. Messages have tags of their
/// own, which never meet those of channels; those of one sender and tag are received in the order of sending.
/// Collectives are called by all ranks in the same order ([`Communicator`](crate::Communicator) sees to that); they block, but call `idle`
/// while they wait.
///
/// # Safety
/// An implementation touches the memory of a channel only between a `post` and the `test` that says that the message
/// is complete, or after a `close`, as long as the keeper lives; and never beyond the channel's range. `attach` returns
/// nothing but what the peer has published under the tag for this rank. What `share` and `map` hand out is one memory,
/// which nobody touches but ranks that were given its token.
///
/// From the time that a [`Communicator`](crate::Communicator) owns the transport, safe code gets no other handle to it with which it could call
/// a method of this trait: messages and windows of exchanges would be taken or replaced. A transport that passes its calls
/// on to another one keeps the promises that it was given by its callers.
pub unsafe trait Transport: Debug + Send + Sync {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// What the transport is and can do.
    fn info(&self) -> TransportInfo;

    /// Opens a channel for messages of exactly `memory.bytes` bytes. Both ends open with the same tag and length,
    /// in any order; opening sends nothing.
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

    /// Opens a channel for messages in parts, which lie apart from each other: the bytes of each part of the sender
    /// arrive in the same part of the receiver. Both ends open with the same tag and with parts of the same lengths in
    /// the same order.
    ///
    /// # Safety
    /// All `parts` stay valid until the channel is closed, or, if it is closed while a message is under way, as long
    /// as the keeper given to [`close`](Transport::close) lives.
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

    /// Starts one message on a channel whose last one is complete. Does not block.
    ///
    /// # Safety
    /// Until [`test`](Transport::test) says that the message is complete, nothing writes the memory of a sending
    /// channel, and nothing reads or writes that of a receiving one.
    ///
    /// # Errors
    /// An unknown channel, one whose message is still under way, and what the underlying layer says.
    unsafe fn post(&self, channel: Channel) -> Result<(), TransportError>;

    /// Whether the last message posted on the channel is complete: received, or its memory free to be written
    /// again. Makes progress; does not block. A channel that was never posted is complete.
    ///
    /// # Errors
    /// An unknown channel, a message of another length than the channel's, and what the underlying layer says.
    fn test(&self, channel: Channel) -> Result<bool, TransportError>;

    /// Closes a channel. If a message is under way it is withdrawn where that is possible; else `keep`, which owns
    /// the memory, is kept until the message is complete. Does not block for longer than a copy of the message.
    ///
    /// # Safety
    /// `keep` owns the memory that the channel was opened for, and the channel is the caller's own.
    unsafe fn close(&self, channel: Channel, keep: Arc<dyn Any + Send + Sync>);

    /// Lends `window` to `peer`, which finds it under `tag`. `false` where the two share no memory.
    ///
    /// # Errors
    /// A peer that does not exist.
    fn publish(&self, _peer: usize, _tag: u32, _window: &Arc<Window>) -> Result<bool, TransportError> {
        Ok(false)
    }

    /// Takes the window that `peer` published for this rank under `tag`; `None` where there is none.
    ///
    /// # Errors
    /// A peer that does not exist.
    fn attach(&self, _peer: usize, _tag: u32) -> Result<Option<Arc<Window>>, TransportError> {
        Ok(None)
    }

    /// Whether `peer`, another rank, can map memory that this rank [`share`](Transport::share)s, and the other way round.
    fn is_near(&self, _peer: usize) -> bool {
        false
    }

    /// Makes memory of at least `bytes` bytes, all 0, which near peers can map; `None` where there are none, or no more
    /// of it.
    fn share(&self, bytes: usize) -> Option<Lease> {
        self.share_parts(bytes, slice::from_ref(&(0..bytes)))
    }

    /// As [`share`](Transport::share), but near peers can map only the bytes of `parts`, and of what lies around them as
    /// much as the system cannot tell apart: the pages that they are in. The rest is memory of this process alone, with
    /// large pages where the system has them: a sweep over strided cells touches another page every few rows, and memory
    /// that processes share mostly has small ones.
    fn share_parts(&self, _bytes: usize, _parts: &[Range<usize>]) -> Option<Lease> {
        None
    }

    /// Maps memory that `peer` has shared, by its token, as far as it is shared: what lies between the parts must not be
    /// touched ([`SharedMemory::covers`]). `None` where it cannot be found.
    ///
    /// # Errors
    /// A peer that does not exist.
    fn map(&self, _peer: usize, _token: &[u8]) -> Result<Option<SharedMemory>, TransportError> {
        Ok(None)
    }

    /// Tells `peer`, should it be waiting, that a window's state has changed.
    fn notify(&self, _peer: usize) {}

    /// Begins to send a message of any length, also of none, to any rank, also to oneself. Does not block; the transport
    /// owns the bytes from now on.
    ///
    /// # Errors
    /// A peer that does not exist, a tag beyond the transport's largest, and what the underlying layer says.
    fn send_message(&self, peer: usize, tag: u32, bytes: Vec<u8>) -> Result<(), TransportError>;

    /// Takes the next message with this tag, whoever sent it. Makes progress; does not block.
    ///
    /// # Errors
    /// What the underlying layer says.
    fn receive_message(&self, tag: u32) -> Result<Incoming, TransportError>;

    /// The ranks, each once and in ascending order, that have not yet found every message which this rank has sent
    /// them with this tag. Once a rank is not among them, its own [`receive_message`](Transport::receive_message)
    /// returns [`Incoming::Nothing`] only after it has returned all of these. Makes progress; does not block.
    ///
    /// # Errors
    /// What the underlying layer says.
    fn unreceived(&self, tag: u32) -> Result<Vec<usize>, TransportError>;

    /// Throws away what has come for this rank with this tag, and forgets what it has sent, which still reaches
    /// receivers that ask for it. Called when this rank has done with the tag.
    fn discard_messages(&self, tag: u32);

    /// Waits a little: called with `round` = 0, 1, 2, … by a rank that finds nothing to do. Early rounds spin,
    /// later ones yield the core or sleep for at most about a millisecond.
    ///
    /// # Errors
    /// [`TransportError::PeerFailed`] once it is known that another rank has failed.
    fn relax(&self, round: u32) -> Result<(), TransportError>;

    /// The other ranks that have not come to the collective in which this rank waits, in ascending order, as far as that is
    /// known; none where the transport cannot tell.
    fn missing_ranks(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Collective: replaces each value by its reduction over all ranks. The lists have the same length everywhere.
    ///
    /// # Errors
    /// What `idle` or the underlying layer says.
    fn all_reduce(
        &self,
        values: &mut [u64],
        reduction: Reduction,
        idle: Idle<'_>,
    ) -> Result<(), TransportError>;

    /// Collective: gives every rank the bytes of rank `root`, of any length.
    ///
    /// # Errors
    /// What `idle` or the underlying layer says.
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>, idle: Idle<'_>) -> Result<(), TransportError>;

    /// Collective: sends each message to the rank beside it and returns the messages for this rank with their
    /// senders, in the order of the senders and, for one sender, of sending. Receivers need not know who sends; cost
    /// and memory grow with a rank's own messages only. Messages to oneself and empty messages are legal.
    ///
    /// # Errors
    /// What `idle` or the underlying layer says.
    fn sparse_exchange(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
        idle: Idle<'_>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError>;
}
