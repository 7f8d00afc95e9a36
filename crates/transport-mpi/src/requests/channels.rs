//! The open channels of a transport: a table of persistent requests.
//!
//! Each part of a channel's message is a message of its own to MPI. All have the same tag: MPI matches them in the
//! order in which they are started, which is the order of the parts.

use std::collections::HashMap;

use haloport_core::TransportError;
use haloport_core::device::MemoryRange;
use haloport_core::transport::{Channel, Direction};

use super::abandoned::{AbandonedRequest, MemoryOwner};
use crate::error::failed;
use crate::raw::{Comm, Permit, Progress, Request, SendMode};

/// The direction, the other rank and the tag of a channel.
pub(crate) type Address = (Direction, usize, u32);

/// The open channels. A channel's number is its index in the table, and in its upper half the number of earlier
/// channels with that index.
pub(crate) struct Channels {
    rank: usize,
    table: Vec<TableEntry>,
    /// The indices that are not in use.
    free: Vec<usize>,
    /// The lengths of the parts of all open channels.
    lengths: HashMap<Address, Vec<usize>>,
}

#[derive(Default)]
struct TableEntry {
    /// The number of channels that had this index before.
    uses: u32,
    channel: Option<OpenChannel>,
}

struct OpenChannel {
    parts: Vec<Part>,
    address: Address,
    /// The first error, which stays.
    error: Option<TransportError>,
}

/// One part of a channel's messages.
struct Part {
    request: Request,
    /// Whether it is under way.
    active: bool,
    bytes: usize,
}

impl Channels {
    /// An empty table of rank `rank`.
    pub(crate) fn new(rank: usize) -> Channels {
        Channels { rank, table: Vec::new(), free: Vec::new(), lengths: HashMap::new() }
    }

    /// Makes the requests of a channel.
    ///
    /// # Safety
    /// As for [`open_parts`](haloport_core::transport::Transport::open_parts).
    pub(crate) unsafe fn open(
        &mut self,
        permit: &Permit,
        comm: Comm,
        address: Address,
        parts: &[MemoryRange],
    ) -> Result<Channel, TransportError> {
        if self.lengths.contains_key(&address) {
            return Err(misuse(address, "is open already"));
        }
        let lengths = parts.iter().map(|memory| memory.bytes).collect();
        let mut made = Vec::with_capacity(parts.len());
        for memory in parts {
            // SAFETY: the caller's promise.
            match unsafe { Part::new(permit, comm, address, memory) } {
                Ok(part) => made.push(part),
                Err(error) => {
                    made.iter_mut().try_for_each(|part| part.request.free(permit))?;
                    return Err(error);
                }
            }
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.table.push(TableEntry::default());
            self.table.len() - 1
        });
        let entry = &mut self.table[index];
        entry.channel = Some(OpenChannel { parts: made, address, error: None });
        self.lengths.insert(address, lengths);
        Ok(Channel(u64::from(entry.uses) << 32 | index as u64))
    }

    /// Starts a message, and returns the other rank.
    ///
    /// # Safety
    /// As for [`post`](haloport_core::transport::Transport::post).
    pub(crate) unsafe fn post(&mut self, permit: &Permit, channel: Channel) -> Result<usize, TransportError> {
        let rank = self.rank;
        let channel = self.channel(channel)?;
        if !channel.test(permit, rank)? {
            return Err(misuse(channel.address, "has a message under way"));
        }
        for part in &mut channel.parts {
            // SAFETY: the request is not under way; the caller's promise for the memory.
            unsafe { part.request.start(permit)? };
            part.active = true;
        }
        Ok(channel.address.1)
    }

    /// The other rank, if the last message is complete.
    pub(crate) fn test(
        &mut self,
        permit: &Permit,
        channel: Channel,
    ) -> Result<Option<usize>, TransportError> {
        let rank = self.rank;
        let channel = self.channel(channel)?;
        let complete = channel.test(permit, rank)?;
        let address = channel.address;
        if (address.0, address.1) == (Direction::Receive, rank) {
            // Open MPI 4.1 truncates short messages of a rank to itself to the receiver's length, and reports success.
            let lengths = |direction| self.lengths.get(&(direction, rank, address.2)).into_iter().flatten();
            let mut pairs = lengths(Direction::Send).zip(lengths(Direction::Receive));
            if complete && let Some((&found, &expected)) = pairs.find(|(found, expected)| found != expected) {
                return Err(TransportError::Length { sender: rank, receiver: rank, expected, found });
            }
        }
        Ok(complete.then_some(address.1))
    }

    /// Removes a channel, and returns its requests and whether any was under way; `None` if the channel is not open.
    pub(crate) fn close(
        &mut self,
        channel: Channel,
        owner: MemoryOwner,
    ) -> Option<(Vec<AbandonedRequest>, bool)> {
        let entry = self.entry(channel)?;
        let closed = entry.channel.take()?;
        entry.uses = entry.uses.wrapping_add(1);
        self.free.push(index_and_uses(channel).0);
        self.lengths.remove(&closed.address);
        Some(closed.abandon(Some(owner)))
    }

    /// Removes all channels, and returns for each the same as [`close`](Channels::close).
    pub(crate) fn close_all(&mut self) -> Vec<(Vec<AbandonedRequest>, bool)> {
        self.lengths.clear();
        let channels = std::mem::take(&mut self.table).into_iter().filter_map(|entry| entry.channel);
        channels.map(|channel| channel.abandon(None)).collect()
    }

    fn channel(&mut self, channel: Channel) -> Result<&mut OpenChannel, TransportError> {
        let open = self.entry(channel).and_then(|entry| entry.channel.as_mut());
        open.ok_or_else(|| TransportError::Channel(format!("channel {} is not open", channel.0)))
    }

    fn entry(&mut self, channel: Channel) -> Option<&mut TableEntry> {
        let (index, uses) = index_and_uses(channel);
        self.table.get_mut(index).filter(|entry| entry.uses == uses)
    }
}

impl OpenChannel {
    fn test(&mut self, permit: &Permit, rank: usize) -> Result<bool, TransportError> {
        let mut complete = true;
        for part in self.parts.iter_mut().filter(|part| part.active) {
            match part.test(permit, self.address, rank) {
                Ok(done) => complete &= done,
                Err(error) => self.error = self.error.take().or(Some(error)),
            }
        }
        self.error.clone().map_or(Ok(complete), Err)
    }

    fn abandon(self, owner: Option<MemoryOwner>) -> (Vec<AbandonedRequest>, bool) {
        let receives = self.address.0 == Direction::Receive;
        let any_active = self.parts.iter().any(|part| part.active);
        let requests = self.parts.into_iter().map(|Part { request, active, .. }| {
            let (cancel, owner) = (active && receives, owner.clone());
            AbandonedRequest { request, persistent: true, cancel, owner }
        });
        (requests.collect(), any_active)
    }
}

impl Part {
    /// Makes the request of a part.
    ///
    /// # Safety
    /// As for [`Channels::open`].
    unsafe fn new(
        permit: &Permit,
        comm: Comm,
        (direction, peer, tag): Address,
        memory: &MemoryRange,
    ) -> Result<Part, TransportError> {
        let (pointer, bytes) = (memory.pointer.as_ptr(), memory.bytes);
        // SAFETY: the memory is valid until the channel is closed, when the request is abandoned together with the
        // owner of the memory; each `post` promises that nothing else touches the memory meanwhile.
        let request = unsafe {
            match direction {
                Direction::Send => {
                    Request::send(permit, SendMode::Persistent, comm, (pointer, bytes), peer, tag)?
                }
                Direction::Receive => Request::receive_init(permit, comm, (pointer, bytes), peer, tag)?,
            }
        };
        Ok(Part { request, active: false, bytes })
    }

    /// Whether it is complete. The part is under way.
    fn test(&mut self, permit: &Permit, address: Address, rank: usize) -> Result<bool, TransportError> {
        let result = match self.request.test(permit) {
            Ok(Progress::Pending) => return Ok(false),
            Ok(Progress::Done(_)) if address.0 == Direction::Send => Ok(true),
            Ok(Progress::Done(status)) => match status.bytes(permit) {
                Ok(found) if found == self.bytes => Ok(true),
                Ok(found) => Err(self.wrong_length(address, rank, found)),
                Err(error) => Err(error),
            },
            Ok(Progress::Truncated(status, message)) => match status.bytes(permit) {
                Ok(found) if found > self.bytes => Err(self.wrong_length(address, rank, found)),
                _ => Err(self.too_long(address, rank, &message)),
            },
            Err(error) => Err(error),
        };
        self.active = false;
        result
    }

    fn wrong_length(&self, (_, sender, _): Address, rank: usize, found: usize) -> TransportError {
        TransportError::Length { sender, receiver: rank, expected: self.bytes, found }
    }

    /// The error for libraries that report only that a message was longer, not its length.
    fn too_long(&self, (_, peer, _): Address, rank: usize, message: &str) -> TransportError {
        let bytes = self.bytes;
        let text = format!(
            "a message from rank {peer} to rank {rank} is longer than the expected {bytes} bytes: {message}"
        );
        failed("MPI_Test", text)
    }
}

/// The index of a channel, and the number of earlier channels with that index.
fn index_and_uses(channel: Channel) -> (usize, u32) {
    (channel.0 as u32 as usize, (channel.0 >> 32) as u32)
}

fn misuse((direction, peer, tag): Address, problem: &str) -> TransportError {
    let way = match direction {
        Direction::Send => "to",
        Direction::Receive => "from",
    };
    TransportError::Channel(format!("the channel {way} rank {peer} with tag {tag} {problem}"))
}
