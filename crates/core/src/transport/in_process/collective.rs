//! Collectives: every rank brings its part, the last one completes the round, and every rank takes the result.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::lock::lock;
use crate::transport::{Idle, Reduction, TransportError};

/// The collectives of all ranks. Rounds are numbered; a rank is at most one round ahead of another.
#[derive(Debug)]
pub(super) struct Collective {
    size: usize,
    round: Mutex<CollectiveRound>,
}

#[derive(Debug, Default)]
struct CollectiveRound {
    number: u64,
    arrived: usize,
    /// The number of the next round of each rank.
    next: Vec<u64>,
    gathering: Content,
    /// The content of the last round, for ranks that have not taken it yet.
    complete: Arc<Content>,
}

/// The parts of all ranks in one round.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) values: Vec<u64>,
    /// The lengths of two lists of values, if they differ.
    pub(super) lengths: Option<(usize, usize)>,
    /// Whether a rank has brought values.
    has_values: bool,
    pub(super) bytes: Vec<u8>,
    /// By receiver, which removes them.
    messages: Mutex<HashMap<usize, Vec<Message>>>,
}

/// A sender and its message.
pub(super) type Message = (usize, Vec<u8>);

impl Collective {
    pub(super) fn new(size: usize) -> Collective {
        Collective {
            size,
            round: Mutex::new(CollectiveRound { next: vec![0; size], ..CollectiveRound::default() }),
        }
    }

    /// One of the ranks `ended` that has not joined round `number`, which therefore never completes.
    fn lost(&self, number: u64, ended: &[usize]) -> Option<usize> {
        if ended.is_empty() {
            return None;
        }
        let round = lock(&self.round);
        ended.iter().copied().find(|&rank| round.next[rank] <= number)
    }

    /// The ranks that have not joined the round in which `rank` waits.
    pub(super) fn missing(&self, rank: usize) -> Vec<usize> {
        let round = lock(&self.round);
        let has_joined = |rank: usize| round.next[rank] > round.number;
        // Once all have joined, the next round begins, which `rank` has not joined either.
        (0..self.size).filter(|&other| has_joined(rank) && !has_joined(other)).collect()
    }

    /// Brings the part of `rank` to the round, waits for the parts of all other ranks, and returns all of them. The
    /// last rank calls `wake`. If a rank of those that `ended` returns has not joined, the wait ends with an error.
    pub(super) fn join(
        &self,
        rank: usize,
        bring: impl FnOnce(&mut Content),
        wake: impl FnOnce(),
        ended: impl Fn() -> Vec<usize>,
        idle: Idle<'_>,
    ) -> Result<Arc<Content>, TransportError> {
        let number = {
            let mut round = lock(&self.round);
            let number = round.number;
            bring(&mut round.gathering);
            round.next[rank] = number + 1;
            round.arrived += 1;
            if round.arrived == self.size {
                round.arrived = 0;
                round.number += 1;
                round.complete = Arc::new(std::mem::take(&mut round.gathering));
                let content = Arc::clone(&round.complete);
                drop(round);
                wake();
                return Ok(content);
            }
            number
        };
        loop {
            {
                let round = lock(&self.round);
                if round.number > number {
                    return Ok(Arc::clone(&round.complete));
                }
            }
            if let Some(rank) = self.lost(number, &ended()) {
                return Err(TransportError::PeerEnded { rank });
            }
            idle()?;
        }
    }
}

impl Content {
    /// Adds the messages of rank `sender`, each paired with its receiver.
    pub(super) fn send(&mut self, sender: usize, messages: Vec<Message>) {
        let buckets = self.messages.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (receiver, bytes) in messages {
            buckets.entry(receiver).or_default().push((sender, bytes));
        }
    }

    /// Takes the messages for rank `receiver`, in the order of their senders.
    pub(super) fn receive(&self, receiver: usize) -> Vec<Message> {
        let mut received = lock(&self.messages).remove(&receiver).unwrap_or_default();
        // Stable: messages of one sender stay in order.
        received.sort_by_key(|(sender, _)| *sender);
        received
    }

    /// Reduces `values` into those of the ranks before.
    pub(super) fn reduce(&mut self, values: &[u64], reduction: Reduction) {
        if !std::mem::replace(&mut self.has_values, true) {
            self.values.extend_from_slice(values);
            return;
        }
        if self.values.len() != values.len() {
            self.lengths = Some((self.values.len(), values.len()));
        }
        for (all, &mine) in self.values.iter_mut().zip(values) {
            *all = match reduction {
                Reduction::Max => (*all).max(mine),
                Reduction::Min => (*all).min(mine),
                Reduction::Sum => all.wrapping_add(mine),
            };
        }
    }
}
