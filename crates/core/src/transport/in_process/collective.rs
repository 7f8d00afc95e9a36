//! Collectives: every rank brings its part, the last one to come closes the round, every rank takes the result.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::lock::lock;
use crate::transport::{Idle, Reduction, TransportError};

/// The place where ranks meet. Rounds are numbered; a rank can be at most one round ahead of another.
#[derive(Debug)]
pub(super) struct Collective {
    size: usize,
    round: Mutex<CollectiveRound>,
}

#[derive(Debug, Default)]
struct CollectiveRound {
    number: u64,
    arrived: usize,
    /// The number of the round that comes next for each rank.
    next: Vec<u64>,
    gathering: Content,
    /// The content of the round before, which slower ranks still have to take.
    complete: Arc<Content>,
}

/// What the ranks bring in one round.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) values: Vec<u64>,
    /// Two lengths of lists of values that differ.
    pub(super) lengths: Option<(usize, usize)>,
    brought: bool,
    pub(super) bytes: Vec<u8>,
    /// By receiver, who takes them away.
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

    /// The ranks that have not come to the round in which `rank` waits.
    pub(super) fn missing(&self, rank: usize) -> Vec<usize> {
        let round = lock(&self.round);
        let has_come = |rank: usize| round.next[rank] > round.number;
        // Once all have come, the next round begins, to which `rank` has not come either.
        (0..self.size).filter(|&other| has_come(rank) && !has_come(other)).collect()
    }

    /// Brings the part of `rank`, waits for those of all others and returns them all. `wake` is called by the last
    /// rank to come.
    pub(super) fn join(
        &self,
        rank: usize,
        bring: impl FnOnce(&mut Content),
        wake: impl FnOnce(),
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
            idle()?;
        }
    }
}

impl Content {
    /// Brings the messages of rank `sender`, each with its receiver.
    pub(super) fn send(&mut self, sender: usize, messages: Vec<Message>) {
        let buckets = self.messages.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (receiver, bytes) in messages {
            buckets.entry(receiver).or_default().push((sender, bytes));
        }
    }

    /// Takes the messages for rank `receiver`, in the order of their senders.
    pub(super) fn receive(&self, receiver: usize) -> Vec<Message> {
        let mut received = lock(&self.messages).remove(&receiver).unwrap_or_default();
        // Stable: those of one sender stay in their order.
        received.sort_by_key(|(sender, _)| *sender);
        received
    }

    /// Takes `values` into those brought so far.
    pub(super) fn reduce(&mut self, values: &[u64], reduction: Reduction) {
        if !std::mem::replace(&mut self.brought, true) {
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
