//! The transport of one rank among the threads of a process.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};

use super::collective::Content;
use super::pipe::{Outcome, Pipe};
use super::world::{Address, World};
use crate::device::MemoryRange;
use crate::transport::{
    Channel, Direction, Idle, Incoming, Reach, Reduction, Transport, TransportError, TransportInfo, Window,
};

#[derive(Debug)]
pub(crate) struct InProcess {
    rank: usize,
    world: Arc<World>,
    channels: RwLock<Channels>,
}

/// Open channels. The lower half of a channel's number is its place, which is used again; the upper half is the number of
/// channels that had the place before.
#[derive(Debug, Default)]
struct Channels {
    places: Vec<(u32, Option<OpenChannel>)>,
    free: Vec<u32>,
}

#[derive(Debug, Clone)]
struct OpenChannel {
    pipe: Arc<Pipe>,
    direction: Direction,
    peer: usize,
    address: Address,
}

impl InProcess {
    pub(crate) fn new(rank: usize, world: Arc<World>) -> InProcess {
        InProcess { rank, world, channels: RwLock::default() }
    }

    fn check(&self, peer: usize) -> Result<(), TransportError> {
        let size = self.size();
        if peer < size { Ok(()) } else { Err(TransportError::NoSuchRank { peer, size }) }
    }

    fn address(&self, direction: Direction, peer: usize, tag: u32) -> Address {
        match direction {
            Direction::Send => (self.rank, peer, tag),
            Direction::Receive => (peer, self.rank, tag),
        }
    }

    /// Joins a collective: brings the part of this rank and returns the parts of all ranks.
    fn join(&self, bring: impl FnOnce(&mut Content), idle: Idle<'_>) -> Result<Arc<Content>, TransportError> {
        let world = &self.world;
        world.collective.join(self.rank, bring, || world.wake_all(), || world.ended(), idle)
    }

    fn with<R>(&self, channel: Channel, call: impl FnOnce(&OpenChannel) -> R) -> Result<R, TransportError> {
        let channels = self.channels.read().unwrap_or_else(PoisonError::into_inner);
        let open = channels
            .get(channel)
            .ok_or_else(|| TransportError::Channel(format!("channel {} is not open", channel.0)))?;
        Ok(call(open))
    }
}

impl Channels {
    fn add(&mut self, open: OpenChannel) -> Channel {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        let (before, channel) = &mut self.places[place as usize];
        *channel = Some(open);
        Channel(u64::from(*before) << 32 | u64::from(place))
    }

    fn get(&self, Channel(number): Channel) -> Option<&OpenChannel> {
        let (before, channel) = self.places.get(number as u32 as usize)?;
        channel.as_ref().filter(|_| u64::from(*before) == number >> 32)
    }

    fn remove(&mut self, channel: Channel) -> Option<OpenChannel> {
        self.get(channel)?;
        let place = channel.0 as u32;
        let (before, channel) = &mut self.places[place as usize];
        *before = before.wrapping_add(1);
        self.free.push(place);
        channel.take()
    }
}

impl OpenChannel {
    fn judge(&self, outcome: Outcome) -> Result<bool, TransportError> {
        let (sender, receiver, tag) = self.address;
        match outcome {
            Outcome::Moved => Ok(true),
            Outcome::Waiting => Ok(false),
            Outcome::Closed => Err(TransportError::PeerGaveUp { peer: self.peer }),
            Outcome::Length { sent, expected } => {
                Err(TransportError::Length { sender, receiver, expected, found: sent })
            }
            Outcome::Misuse(problem) => Err(TransportError::Channel(format!(
                "the channel from rank {sender} to rank {receiver} with tag {tag} {problem}"
            ))),
        }
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.world.end(self.rank);
    }
}

// SAFETY: a pipe copies between two posted ends only, under a lock that closing takes too.
unsafe impl Transport for InProcess {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.world.size()
    }

    fn info(&self) -> TransportInfo {
        TransportInfo {
            name: "in-process",
            implementation: "threads of one process".into(),
            reach: Reach::Process,
            device_memory: Vec::new(),
            any_thread: true,
            crowded: self.world.crowded,
        }
    }

    unsafe fn open_parts(
        &self,
        direction: Direction,
        peer: usize,
        tag: u32,
        parts: &[MemoryRange],
    ) -> Result<Channel, TransportError> {
        self.check(peer)?;
        let address = self.address(direction, peer, tag);
        let (pipe, outcome) = self.world.open_pipe(address, direction, parts);
        let open = OpenChannel { pipe, direction, peer, address };
        open.judge(outcome)?;
        let mut channels = self.channels.write().unwrap_or_else(PoisonError::into_inner);
        Ok(channels.add(open))
    }

    unsafe fn post(&self, channel: Channel) -> Result<(), TransportError> {
        self.with(channel, |open| {
            // SAFETY: the caller's promise for this end; the poster of the other end made the same promise.
            let moved = open.judge(unsafe { open.pipe.post(open.direction) })?;
            if moved {
                self.world.wake(open.peer);
            }
            Ok(())
        })?
    }

    fn test(&self, channel: Channel) -> Result<bool, TransportError> {
        self.with(channel, |open| {
            // Read before the test: between the two, the peer may post its end of the channel and then end as a rank.
            let ended = self.world.has_ended(open.peer);
            match open.pipe.test(open.direction) {
                Outcome::Waiting | Outcome::Closed if ended => {
                    Err(TransportError::PeerEnded { rank: open.peer })
                }
                outcome => open.judge(outcome),
            }
        })?
    }

    unsafe fn close(&self, channel: Channel, _keep: Arc<dyn Any + Send + Sync>) {
        let mut channels = self.channels.write().unwrap_or_else(PoisonError::into_inner);
        let removed = channels.remove(channel);
        drop(channels);
        if let Some(open) = removed {
            self.world.close_pipe(open.address, open.direction, &open.pipe);
            self.world.wake(open.peer);
        }
    }

    fn publish(&self, peer: usize, tag: u32, window: &Arc<Window>) -> Result<bool, TransportError> {
        self.check(peer)?;
        self.world.publish(self.address(Direction::Send, peer, tag), Arc::clone(window));
        Ok(true)
    }

    fn attach(&self, peer: usize, tag: u32) -> Result<Option<Arc<Window>>, TransportError> {
        self.check(peer)?;
        Ok(self.world.attach(self.address(Direction::Receive, peer, tag)))
    }

    fn fail(&self, why: &str) {
        self.world.fail(self.rank, why.to_string());
    }

    fn end(&self) {
        self.world.end(self.rank);
    }

    fn notify(&self, peer: usize) {
        self.world.wake(peer);
    }

    fn send_message(&self, peer: usize, tag: u32, bytes: Vec<u8>) -> Result<(), TransportError> {
        self.check(peer)?;
        self.world.mail.send(self.rank, peer, tag, bytes);
        self.world.wake(peer);
        Ok(())
    }

    fn receive_message(&self, tag: u32) -> Result<Incoming, TransportError> {
        Ok(match self.world.mail.receive(self.rank, tag) {
            None => Incoming::Nothing,
            Some((sender, bytes)) => {
                // The sender may wait for this.
                self.world.wake(sender);
                Incoming::Message { sender, bytes }
            }
        })
    }

    fn unreceived(&self, tag: u32) -> Result<Vec<usize>, TransportError> {
        Ok(self.world.mail.unreceived(self.rank, tag))
    }

    fn discard_messages(&self, tag: u32) {
        self.world.mail.discard(self.rank, tag);
    }

    fn relax(&self, round: u32) -> Result<(), TransportError> {
        self.world.relax(self.rank, round)
    }

    fn ended_ranks(&self) -> Vec<usize> {
        self.world.ended()
    }

    fn missing_ranks(&self) -> Vec<usize> {
        self.world.collective.missing(self.rank)
    }

    fn all_reduce(
        &self,
        values: &mut [u64],
        reduction: Reduction,
        idle: Idle<'_>,
    ) -> Result<(), TransportError> {
        let content = self.join(|content| content.reduce(values, reduction), idle)?;
        if let Some((one, other)) = content.lengths {
            return Err(TransportError::Lengths { one, other });
        }
        values.copy_from_slice(&content.values);
        Ok(())
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>, idle: Idle<'_>) -> Result<(), TransportError> {
        self.check(root)?;
        let bring = |content: &mut Content| {
            if self.rank == root {
                content.bytes = std::mem::take(bytes);
            }
        };
        let content = self.join(bring, idle)?;
        bytes.clone_from(&content.bytes);
        Ok(())
    }

    fn sparse_exchange(
        &self,
        messages: Vec<(usize, Vec<u8>)>,
        idle: Idle<'_>,
    ) -> Result<Vec<(usize, Vec<u8>)>, TransportError> {
        messages.iter().try_for_each(|(peer, _)| self.check(*peer))?;
        let content = self.join(|content| content.send(self.rank, messages), idle)?;
        Ok(content.receive(self.rank))
    }
}
