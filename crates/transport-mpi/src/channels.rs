//! The open channels of a transport: persistent requests in a table.
//!
//! Each part of a channel's message is a message of its own to MPI. All have the same tag: MPI matches them in the order
//! in which they are started, which is that of the parts.

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
    /// The lengths of the parts of all open channels.
    lengths: HashMap<Address, Vec<usize>>,
}

#[derive(Default)]
struct Place {
    uses: u32,
    line: Option<Line>,
}

/// One open channel.
struct Line {
    parts: Vec<LinePart>,
    address: Address,
    /// What befell an earlier message, for ever.
    failed: Option<TransportError>,
}

/// One part of its messages.
struct LinePart {
    request: Request,
    /// It is under way.
    active: bool,
    bytes: usize,
}

impl Channels {
    /// An empty table of rank `rank`.
    pub(crate) fn new(rank: usize) -> Channels {
        Channels { rank, places: Vec::new(), free: Vec::new(), lengths: HashMap::new() }
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
            match unsafe { LinePart::new(permit, comm, address, memory) } {
                Ok(part) => made.push(part),
                Err(error) => {
                    made.iter_mut().try_for_each(|part| part.request.free(permit))?;
                    return Err(error);
                }
            }
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() - 1
        });
        let place = &mut self.places[index];
        place.line = Some(Line { parts: made, address, failed: None });
        self.lengths.insert(address, lengths);
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
        for part in &mut line.parts {
            // SAFETY: the request is not under way; the memory is as the caller promises.
            unsafe { part.request.start(permit)? };
            part.active = true;
        }
        Ok(())
    }

    /// Whether the last message is complete.
    pub(crate) fn test(&mut self, permit: &Permit, channel: Channel) -> Result<bool, TransportError> {
        let rank = self.rank;
        let line = self.line(channel)?;
        let complete = line.test(permit, rank)?;
        let address = line.address;
        if (address.0, address.1) == (Direction::Receive, rank) {
            // Open MPI 4.1 cuts short messages to oneself down to the receiver's length, and calls it a success.
            let lengths = |direction| self.lengths.get(&(direction, rank, address.2)).into_iter().flatten();
            let mut pairs = lengths(Direction::Send).zip(lengths(Direction::Receive));
            if complete && let Some((&found, &expected)) = pairs.find(|(found, expected)| found != expected) {
                return Err(TransportError::Length { sender: rank, receiver: rank, expected, found });
            }
        }
        Ok(complete)
    }

    /// Takes a channel out of the table: its parts, and whether each was under way; `None` if it is not open.
    pub(crate) fn close(
        &mut self,
        channel: Channel,
        keep: Keep,
    ) -> Option<impl Iterator<Item = (Ghost, bool)> + use<>> {
        let (index, uses) = split(channel);
        let place = self.places.get_mut(index).filter(|place| place.uses == uses)?;
        let line = place.line.take()?;
        place.uses = place.uses.wrapping_add(1);
        self.free.push(index);
        self.lengths.remove(&line.address);
        Some(line.into_ghosts(Some(keep)))
    }

    /// Takes all channels out of the table, as if each had been closed.
    pub(crate) fn close_all(&mut self) -> impl Iterator<Item = (Ghost, bool)> {
        self.lengths.clear();
        let places = std::mem::take(&mut self.places);
        places.into_iter().filter_map(|place| place.line).flat_map(|line| line.into_ghosts(None))
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
        let mut complete = true;
        for part in self.parts.iter_mut().filter(|part| part.active) {
            match part.test(permit, self.address, rank) {
                Ok(done) => complete &= done,
                Err(error) => self.failed = self.failed.take().or(Some(error)),
            }
        }
        self.failed.clone().map_or(Ok(complete), Err)
    }

    fn into_ghosts(self, keep: Option<Keep>) -> impl Iterator<Item = (Ghost, bool)> {
        let receives = self.address.0 == Direction::Receive;
        self.parts.into_iter().map(move |LinePart { request, active, .. }| {
            let ghost = Ghost { request, persistent: true, cancel: active && receives, keep: keep.clone() };
            (ghost, active)
        })
    }
}

impl LinePart {
    /// Makes the request of a part.
    ///
    /// # Safety
    /// As for [`Channels::open`].
    unsafe fn new(
        permit: &Permit,
        comm: Comm,
        (direction, peer, tag): Address,
        memory: &MemoryRange,
    ) -> Result<LinePart, TransportError> {
        let (pointer, bytes) = (memory.pointer.as_ptr(), memory.bytes);
        // SAFETY: the memory is valid until the channel is closed, when the request becomes a ghost with its keeper;
        // that nobody else touches it meanwhile is promised anew at each `post`.
        let request = unsafe {
            match direction {
                Direction::Send => Request::send_init(permit, comm, (pointer, bytes), peer, tag)?,
                Direction::Receive => Request::receive_init(permit, comm, (pointer, bytes), peer, tag)?,
            }
        };
        Ok(LinePart { request, active: false, bytes })
    }

    /// Whether it is complete. It is under way.
    fn test(&mut self, permit: &Permit, address: Address, rank: usize) -> Result<bool, TransportError> {
        let judged = match self.request.test(permit) {
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
        judged
    }

    fn wrong_length(&self, (_, sender, _): Address, rank: usize, found: usize) -> TransportError {
        TransportError::Length { sender, receiver: rank, expected: self.bytes, found }
    }

    /// Some libraries say only that a message was longer, not how long.
    fn too_long(&self, (_, peer, _): Address, rank: usize, message: &str) -> TransportError {
        let bytes = self.bytes;
        TransportError::Layer {
            call: "MPI_Test",
            message: format!(
                "a message from rank {peer} to rank {rank} is longer than the {bytes} bytes that the receiver \
                 expects: {message}"
            ),
        }
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
