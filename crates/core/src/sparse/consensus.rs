//! The end of a round in which no rank knows its senders.
//!
//! A rank enters when the receivers have found all its messages. When every rank has entered, no rank can find another
//! message. (Hoefler, Siebert, Lumsdaine: "Scalable communication protocols for dynamic sparse data exchange", 2010.)
//! Ranks learn by dissemination that all have entered: a rank sends the notice of step `k` to the rank 2^k after it in
//! the circle of ranks, once it has received the notices of all steps before, each from the rank 2^step before it; so
//! each rank sends log2(ranks) notices, rounded up. (Hensgen, Finkel, Manber: "Two algorithms for
//! barrier synchronization", 1988.) Notices also carry a complaint of any rank, so at the end all ranks know that of the
//! lowest rank.

use super::complaint::Complaint;
use crate::comm::{decode, encode};
use crate::transport::{Incoming, Transport, TransportError};

/// The state of this rank in one round.
#[derive(Debug)]
pub(super) struct Consensus {
    rank: usize,
    size: usize,
    entered: bool,
    /// A bit for each step whose notice has come.
    received: u64,
    /// The step whose notice this rank waits for.
    step: u32,
    complaint: Option<Complaint>,
}

impl Consensus {
    pub(super) fn new(rank: usize, size: usize) -> Consensus {
        Consensus { rank, size, entered: false, received: 0, step: 0, complaint: None }
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

    /// Enters: the receivers have found all messages of this rank, or it has a complaint.
    pub(super) fn enter(
        &mut self,
        transport: &dyn Transport,
        tag: u32,
        complaint: Option<Complaint>,
    ) -> Result<(), TransportError> {
        self.entered = true;
        self.add_complaint(complaint);
        if self.steps() > 0 { self.send_notice(transport, tag) } else { Ok(()) }
    }

    /// Receives notices, and sends those whose turn has come. Gives up if this rank waits for one of the ranks `ended`.
    /// Before it has entered, it gives up for any of them, since no rank completes a round that this one has not
    /// entered.
    pub(super) fn advance(
        &mut self,
        transport: &dyn Transport,
        tag: u32,
        ended: &[usize],
    ) -> Result<(), TransportError> {
        while let Incoming::Message { sender, bytes } = transport.receive_message(tag)? {
            let distance = (self.rank + self.size - sender) % self.size;
            self.add_complaint(decode::<Option<Complaint>>(sender, &bytes)?);
            // The sender of step `k` is 2^k before this rank: its distance is the bit of the step.
            self.received |= distance as u64;
        }
        while self.entered && !self.is_over() && self.received >> self.step & 1 == 1 {
            self.step += 1;
            if !self.is_over() {
                self.send_notice(transport, tag)?;
            }
        }
        let waits_for = |rank: &&usize| !self.entered || **rank == self.before(1 << self.step);
        match ended.iter().find(waits_for) {
            Some(&rank) if !self.is_over() => self.give_up(transport, tag, Complaint::ended(rank)),
            _ => Ok(()),
        }
    }

    /// Ends the consensus of this rank with a complaint, and sends it to all ranks that wait for this one.
    fn give_up(
        &mut self,
        transport: &dyn Transport,
        tag: u32,
        complaint: Complaint,
    ) -> Result<(), TransportError> {
        self.add_complaint(Some(complaint));
        let next = if std::mem::replace(&mut self.entered, true) { self.step + 1 } else { 0 };
        for step in next..self.steps() {
            self.step = step;
            self.send_notice(transport, tag)?;
        }
        self.step = self.steps();
        Ok(())
    }

    /// The ranks that this one waits for: the number of the rank if it is only one, and a description. The notice of step `k` stands
    /// for 2^k ranks.
    pub(super) fn missing(&self) -> (Option<usize>, String) {
        let nearest = 1usize << self.step;
        let farthest = (2 * nearest - 1).min(self.size - 1);
        match self.before(nearest) {
            rank if nearest == farthest => {
                (Some(rank), format!("rank {rank}, which has not ended its round"))
            }
            rank => {
                let ranks = list(self.size, self.before(farthest), rank);
                (None, format!("one of the ranks {ranks}, which has not ended its round"))
            }
        }
    }

    /// The rank at a distance before this one in the circle of ranks.
    fn before(&self, distance: usize) -> usize {
        (self.rank + self.size - distance % self.size) % self.size
    }

    /// Sends the notice of this step.
    fn send_notice(&self, transport: &dyn Transport, tag: u32) -> Result<(), TransportError> {
        let peer = (self.rank + (1 << self.step)) % self.size;
        transport.send_message(peer, tag, encode(&self.complaint, self.rank)?)
    }

    /// Keeps the complaint of the lower rank.
    fn add_complaint(&mut self, complaint: Option<Complaint>) {
        let first = [self.complaint.take(), complaint].into_iter().flatten().min_by_key(|known| known.rank);
        self.complaint = first;
    }

    /// The number of steps: the powers of two that are smaller than the number of ranks.
    fn steps(&self) -> u32 {
        self.size.next_power_of_two().trailing_zeros()
    }
}

/// The ranks `first` to `last` of the circle, in words.
fn list(size: usize, first: usize, last: usize) -> String {
    if first <= last {
        format!("{first} to {last}")
    } else {
        format!("{first} to {} and 0 to {last}", size - 1)
    }
}
