//! The messages of one rank in one round, until they are sent.

use std::collections::{BTreeMap, VecDeque};

/// Messages and reserved positions, in order for each receiver.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queues: BTreeMap<usize, Queue>,
    /// Places that are left in all queues.
    left: usize,
}

#[derive(Debug, Default)]
struct Queue {
    /// The number of messages sent, which is the number of the first position.
    sent: u64,
    /// A position is empty until its message is there.
    positions: VecDeque<Option<Vec<u8>>>,
}

impl Outbox {
    /// Reserves the next position among the messages for `peer`, and returns its number.
    pub(super) fn reserve(&mut self, peer: usize) -> u64 {
        self.push(peer, None)
    }

    /// Adds a message after all others for `peer`.
    pub(super) fn insert(&mut self, peer: usize, bytes: Vec<u8>) {
        self.push(peer, Some(bytes));
    }

    /// Fills a reserved position.
    pub(super) fn fill(&mut self, peer: usize, position: u64, bytes: Vec<u8>) {
        if let Some(queue) = self.queues.get_mut(&peer)
            && let Some(empty) = position
                .checked_sub(queue.sent)
                .and_then(|index| queue.positions.get_mut(usize::try_from(index).ok()?))
        {
            *empty = Some(bytes);
        }
    }

    /// Passes to `send` all messages with no empty position before them.
    pub(super) fn send_ready<E>(
        &mut self,
        mut send: impl FnMut(usize, Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.left == 0 {
            return Ok(());
        }
        for (&peer, queue) in &mut self.queues {
            while let Some(bytes) = queue.positions.front_mut().and_then(Option::take) {
                queue.positions.pop_front();
                queue.sent += 1;
                self.left -= 1;
                send(peer, bytes)?;
            }
        }
        Ok(())
    }

    /// Whether all messages were sent.
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The number of messages sent to `peer`.
    pub(super) fn sent(&self, peer: usize) -> u64 {
        self.queues.get(&peer).map_or(0, |queue| queue.sent)
    }

    /// The receivers of messages that wait behind an empty position.
    pub(super) fn held_up(&self) -> impl Iterator<Item = usize> {
        self.queues.iter().filter(|(_, queue)| !queue.positions.is_empty()).map(|(&peer, _)| peer)
    }

    fn push(&mut self, peer: usize, message: Option<Vec<u8>>) -> u64 {
        let queue = self.queues.entry(peer).or_default();
        queue.positions.push_back(message);
        self.left += 1;
        queue.sent + queue.positions.len() as u64 - 1
    }
}
