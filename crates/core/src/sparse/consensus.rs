//! The end of a round in which nobody knows who sends to it.
//!
//! A rank enters when all its messages have been found by their receivers. When every rank has entered, none can find
//! a further message. (Hoefler, Siebert, Lumsdaine: "Scalable communication protocols for dynamic sparse data
//! exchange", 2010.) That all have entered is known by dissemination: in step `k` a rank tells the one 2^k behind it
//! in the circle of ranks, once it was told by the one 2^k before it in all steps before; so each sends log2(ranks)
//! messages, rounded up. (Hensgen, Finkel, Manber: "Two algorithms for barrier synchronization", 1988.) A complaint of
//! any rank is passed on with them, so at the end all know the one of the lowest rank.

use super::complaint::Complaint;
use crate::comm::{decode, encode};
use crate::transport::{Incoming, Transport, TransportError};

/// How far this rank is in one round.
#[derive(Debug)]
pub(super) struct Consensus {
    rank: usize,
    size: usize,
    entered: bool,
    /// A bit for each step whose message has come.
    heard: u64,
    /// The step whose message is waited for.
    step: u32,
    complaint: Option<Complaint>,
}

impl Consensus {
    pub(super) fn new(rank: usize, size: usize) -> Consensus {
        Consensus { rank, size, entered: false, heard: 0, step: 0, complaint: None }
    }

    pub(super) fn has_entered(&self) -> bool {
        self.entered
    }

    /// Whether every rank has entered.
    pub(super) fn is_over(&self) -> bool {
        self.entered && self.step == self.steps()
    }

    /// The complaint of the lowest rank that has one, once the consensus is over.
    pub(super) fn complaint(&self) -> Option<&Complaint> {
        self.complaint.as_ref().filter(|_| self.is_over())
    }

    /// This rank has nothing more to be received, or a complaint.
    pub(super) fn enter(
        &mut self,
        transport: &dyn Transport,
        tag: u32,
        complaint: Option<Complaint>,
    ) -> Result<(), TransportError> {
        self.entered = true;
        self.hear(complaint);
        if self.steps() > 0 { self.tell(transport, tag) } else { Ok(()) }
    }

    /// Takes what others tell, and tells others.
    pub(super) fn advance(&mut self, transport: &dyn Transport, tag: u32) -> Result<(), TransportError> {
        while let Incoming::Message { sender, bytes } = transport.receive_message(tag)? {
            let distance = (self.rank + self.size - sender) % self.size;
            self.hear(decode::<Option<Complaint>>(sender, &bytes)?);
            // The sender of step `k` is 2^k before this rank, which is just the bit.
            self.heard |= distance as u64;
        }
        while self.entered && !self.is_over() && self.heard >> self.step & 1 == 1 {
            self.step += 1;
            if !self.is_over() {
                self.tell(transport, tag)?;
            }
        }
        Ok(())
    }

    /// Which ranks this one waits for, in words: when it hears of step `k`, 2^k ranks have entered.
    pub(super) fn missing(&self) -> String {
        let before = |distance: usize| (self.rank + self.size - distance % self.size) % self.size;
        let nearest = 1usize << self.step;
        let farthest = (2 * nearest - 1).min(self.size - 1);
        match before(nearest) {
            rank if nearest == farthest => format!("rank {rank}, which has not ended its round"),
            rank => format!(
                "one of the ranks {}, which has not ended its round",
                list(self.size, before(farthest), rank)
            ),
        }
    }

    /// Tells the rank of this step.
    fn tell(&self, transport: &dyn Transport, tag: u32) -> Result<(), TransportError> {
        let peer = (self.rank + (1 << self.step)) % self.size;
        transport.send_message(peer, tag, encode(&self.complaint, self.rank)?)
    }

    fn hear(&mut self, complaint: Option<Complaint>) {
        let first = [self.complaint.take(), complaint].into_iter().flatten().min_by_key(|known| known.rank);
        self.complaint = first;
    }

    /// The number of steps: the powers of two that are smaller than the number of ranks.
    fn steps(&self) -> u32 {
        self.size.next_power_of_two().trailing_zeros()
    }
}

/// The ranks of a part of the circle.
fn list(size: usize, first: usize, last: usize) -> String {
    if first <= last {
        format!("{first} to {last}")
    } else {
        format!("{first} to {} and 0 to {last}", size - 1)
    }
}
