//! The open channels of a transport: persistent requests in a table.

use std::collections::HashMap;

use haloport_core::TransportError;
use haloport_core::device::MemoryRange;
use haloport_core::transport::{Channel, Direction};

use crate::ghosts::{Ghost, Keep};
use crate::raw::{Comm, Permit, Progress, Request};

/// Which way, with whom, under which tag.
pub(crate) type Address = (Direction, usize, u32);

/// The table. A channel's number is its place and, in the upper half, how often the place was used before.
pub(crate) struct Channels {
    rank: usize,
    places: Vec<Place>,
    free: Vec<usize>,
    /// The lengths of all open channels.
    lengths: HashMap<Address, usize>,
}

#[derive(Default)]
struct Place {
    uses: u32,
    line: Option<Line>,
}

/// One open channel.
struct Line {
    request: Request,
    /// A message is under way.
    active: bool,
    address: Address,
    bytes: usize,
    /// What befell an earlier message, for ever.
    failed: Option<TransportError>,
}

impl Channels {
    /// An empty table of rank `rank`.
    pub(crate) fn new(rank: usize) -> Channels {
        Channels { rank, places: Vec::new(), free: Vec::new(), lengths: HashMap::new() }
    }

    /// Makes the request of a channel.
    ///
    /// # Safety
    /// As for [`open`](haloport_core::transport::Transport::open).
    pub(crate) unsafe fn open(
        &mut self,
        permit: &Permit,
        comm: Comm,
        address: Address,
        memory: MemoryRange,
    ) -> Result<Channel, TransportError> {
        let (direction, peer, tag) = address;
        if self.lengths.contains_key(&address) {
            return Err(misuse(address, "is open already"));
        }
        let (pointer, bytes) = (memory.pointer.as_ptr(), memory.bytes);
        // SAFETY: the memory is valid until the channel is closed, when the request becomes a ghost with its keeper;
        // that nobody else touches it meanwhile is promised anew at each `post`.
        let request = unsafe {
            match direction {
                Direction::Send => Request::send_init(permit, comm, (pointer, bytes), peer, tag)?,
                Direction::Receive => Request::receive_init(permit, comm, (pointer, bytes), peer, tag)?,
            }
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() - 1
        });
        let place = &mut self.places[index];
        place.line = Some(Line { request, active: false, address, bytes, failed: None });
        self.lengths.insert(address, bytes);
        Ok(Channel(u64::from(place.uses) << 32 | index as u64))
    }

    /// Starts a message.
    ///
    /// # Safety
    /// As for [`post`](haloport_core::transport::Transport::post).
    pub(crate) unsafe fn post(&mut self, permit: &Permit, channel: Channel) -> Result<(), TransportError> {
        let rank = self.rank;
        let line = self.line(channel)?;
        if !line.test(permit, rank)? {
            return Err(misuse(line.address, "has a message under way"));
        }
        // SAFETY: the request is not under way; the memory is as the caller promises.
        unsafe { line.request.start(permit)? };
        line.active = true;
        Ok(())
    }

    /// Whether the last message is complete.
    pub(crate) fn test(&mut self, permit: &Permit, channel: Channel) -> Result<bool, TransportError> {
        let rank = self.rank;
        let line = self.line(channel)?;
        let complete = line.test(permit, rank)?;
        if line.address.0 == Direction::Receive && line.address.1 == rank {
            // Open MPI 4.1 cuts short messages to oneself down to the receiver's length, and calls it a success.
            let (tag, expected) = (line.address.2, line.bytes);
            match self.lengths.get(&(Direction::Send, rank, tag)) {
                Some(&found) if complete && found != expected => {
                    return Err(TransportError::Length { sender: rank, receiver: rank, expected, found });
                }
                _ => {}
            }
        }
        Ok(complete)
    }

    /// Takes a channel out of the table, and whether a message was under way; `None` if it is not open.
    pub(crate) fn close(&mut self, channel: Channel, keep: Keep) -> Option<(Ghost, bool)> {
        let (index, uses) = split(channel);
        let place = self.places.get_mut(index).filter(|place| place.uses == uses)?;
        let line = place.line.take()?;
        place.uses = place.uses.wrapping_add(1);
        self.free.push(index);
        self.lengths.remove(&line.address);
        Some(line.into_ghost(Some(keep)))
    }

    /// Takes all channels out of the table, as if each had been closed.
    pub(crate) fn close_all(&mut self) -> impl Iterator<Item = (Ghost, bool)> {
        self.lengths.clear();
        let places = std::mem::take(&mut self.places);
        places.into_iter().filter_map(|place| place.line).map(|line| line.into_ghost(None))
    }

    fn line(&mut self, channel: Channel) -> Result<&mut Line, TransportError> {
        let (index, uses) = split(channel);
        let place = self.places.get_mut(index).filter(|place| place.uses == uses);
        let line = place.and_then(|place| place.line.as_mut());
        line.ok_or_else(|| TransportError::Channel(format!("channel {} is not open", channel.0)))
    }
}

impl Line {
    fn test(&mut self, permit: &Permit, rank: usize) -> Result<bool, TransportError> {
        if !self.active {
            return self.failed.clone().map_or(Ok(true), Err);
        }
        let judged = match self.request.test(permit) {
            Ok(Progress::Pending) => return Ok(false),
            Ok(Progress::Done(_)) if self.address.0 == Direction::Send => Ok(()),
            Ok(Progress::Done(status)) => match status.bytes(permit) {
                Ok(found) if found == self.bytes => Ok(()),
                Ok(found) => Err(self.wrong_length(rank, found)),
                Err(error) => Err(error),
            },
            Ok(Progress::Truncated(status, message)) => match status.bytes(permit) {
                Ok(found) if found > self.bytes => Err(self.wrong_length(rank, found)),
                _ => Err(self.too_long(rank, &message)),
            },
            Err(error) => Err(error),
        };
        self.active = false;
        self.failed = judged.as_ref().err().cloned();
        judged.map(|()| true)
    }

    fn wrong_length(&self, rank: usize, found: usize) -> TransportError {
        TransportError::Length { sender: self.address.1, receiver: rank, expected: self.bytes, found }
    }

    /// Some libraries say only that a message was longer, not how long.
    fn too_long(&self, rank: usize, message: &str) -> TransportError {
        let (peer, bytes) = (self.address.1, self.bytes);
        TransportError::Layer {
            call: "MPI_Test",
            message: format!(
                "a message from rank {peer} to rank {rank} is longer than the {bytes} bytes that the receiver \
                 expects: {message}"
            ),
        }
    }

    fn into_ghost(self, keep: Option<Keep>) -> (Ghost, bool) {
        let cancel = self.active && self.address.0 == Direction::Receive;
        (Ghost { request: self.request, persistent: true, cancel, keep }, self.active)
    }
}

/// The place of a channel, and how often the place had been used.
fn split(channel: Channel) -> (usize, u32) {
    (channel.0 as u32 as usize, (channel.0 >> 32) as u32)
}

fn misuse((direction, peer, tag): Address, problem: &str) -> TransportError {
    let way = match direction {
        Direction::Send => "to",
        Direction::Receive => "from",
    };
    TransportError::Channel(format!("the channel {way} rank {peer} with tag {tag} {problem}"))
}
