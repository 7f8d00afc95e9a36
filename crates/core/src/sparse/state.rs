//! The state of a sparse exchange, and the progress of a round.

use std::collections::VecDeque;

use super::SparseError;
use super::complaint::Complaint;
use super::consensus::Consensus;
use super::notices::Notices;
use super::outbox::Outbox;
use crate::comm::Missing;
use crate::transport::{Incoming, Transport, TransportError};

/// A sender and its message.
pub(super) type Message = (usize, Vec<u8>);

/// The state of one sparse exchange on one rank.
pub(super) struct SparseState {
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) tags: Tags,
    pub(super) status: Status,
    /// The number of the current or last round, from 1.
    pub(super) round: u64,
    pub(super) outbox: Outbox,
    /// Whether the insertions have ended.
    pub(super) finished: bool,
    /// The reason for which this rank gives up.
    pub(super) complaint: Option<Complaint>,
    pub(super) ending: Ending,
    /// In the order of coming.
    pub(super) received: VecDeque<Message>,
    /// The message of a panic of the completion callback in a round that has not been ended yet.
    pub(super) panicked: Option<String>,
}

/// The way in which ranks learn that a round is complete.
pub(super) enum Ending {
    Consensus(Consensus),
    Notices(Notices),
}

/// The status of an exchange.
pub(super) enum Status {
    /// Between rounds.
    Idle,
    /// In a round that is not complete.
    Travelling,
    /// In a complete round: `wait` would not wait.
    Arrived,
    /// Failed permanently.
    Poisoned(SparseError),
}

/// The tags of an exchange. A rank is at most one round ahead of another, so two sets of tags, used in turn, separate
/// the rounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tags(pub(super) u32);

impl Tags {
    pub(super) const COUNT: u32 = 4;

    fn messages(self, round: u64) -> u32 {
        self.0 + (round % 2) as u32
    }

    fn ending(self, round: u64) -> u32 {
        self.0 + 2 + (round % 2) as u32
    }
}

impl SparseState {
    /// Whether a message for `peer` may be inserted into a round.
    pub(super) fn check(&self, round: u64, peer: usize) -> Result<(), SparseError> {
        self.check_round(round)?;
        if self.finished {
            return Err(SparseError::Finished);
        }
        self.check_receiver(peer)
    }

    /// Whether messages for `peer` may be inserted into any round.
    pub(super) fn check_receiver(&self, peer: usize) -> Result<(), SparseError> {
        if peer >= self.size {
            return Err(TransportError::NoSuchRank { peer, size: self.size }.into());
        }
        match &self.ending {
            Ending::Notices(notices) if !notices.receivers().contains(&peer) => {
                Err(SparseError::NotADestination { peer, destinations: notices.receivers().to_vec() })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_round(&self, round: u64) -> Result<(), SparseError> {
        match &self.status {
            Status::Poisoned(error) => Err(error.poison()),
            _ if self.round != round => Err(SparseError::Finished),
            _ => Ok(()),
        }
    }

    /// Makes whatever progress can be made now; `true` once the round is complete.
    pub(super) fn advance(&mut self, transport: &dyn Transport) -> Result<bool, SparseError> {
        let tag = self.tags.messages(self.round);
        // Read before messages are received: all messages of these ranks have arrived.
        let ended = transport.ended_ranks();
        // Read before messages are received: messages that arrive between the two may belong to the round.
        let was_over = matches!(&self.ending, Ending::Consensus(consensus) if consensus.is_over());
        // Received before anything is sent: a thread that may not call the transport gets its error here, and no
        // message is lost.
        let nothing_left = self.receive(transport, tag)?;
        self.outbox.send_ready(|peer, bytes| transport.send_message(peer, tag, bytes))?;
        let outcome = self.end(transport, &ended, was_over && nothing_left);
        if matches!(outcome, Err(SparseError::GivenUp { .. })) {
            // The rank may have sent messages between the two.
            self.receive(transport, tag)?;
        }
        outcome
    }

    /// Makes progress with the end of the round; `true` once it is complete. `none_left` says whether all messages are
    /// here, if the ending does not count them.
    fn end(
        &mut self,
        transport: &dyn Transport,
        ended: &[usize],
        none_left: bool,
    ) -> Result<bool, SparseError> {
        let (tag, ending_tag) = (self.tags.messages(self.round), self.tags.ending(self.round));
        let all_sent = self.finished && self.outbox.is_empty();
        match &mut self.ending {
            Ending::Consensus(consensus) => {
                let all_found = all_sent && transport.unreceived(tag)?.is_empty();
                if !consensus.has_entered() && (all_found || self.complaint.is_some()) {
                    consensus.enter(transport, ending_tag, self.complaint.take())?;
                }
                consensus.advance(transport, ending_tag, ended)?;
                match consensus.complaint() {
                    Some(complaint) => Err(complaint.clone().into()),
                    None => Ok(none_left),
                }
            }
            Ending::Notices(notices) => {
                if let Some(complaint) = self.complaint.take() {
                    return Err(complaint.into());
                }
                if all_sent {
                    notices.notify(transport, ending_tag, &self.outbox)?;
                }
                if let Some(complaint) = notices.advance(transport, ending_tag, self.round)? {
                    return Err(complaint.into());
                }
                if !notices.is_over() && ended.is_empty() {
                    return Ok(false);
                }
                let mut unfound = transport.unreceived(tag)?;
                unfound.extend(transport.unreceived(ending_tag)?);
                let lost = |rank: &&usize| notices.waits_for(**rank) || unfound.contains(rank);
                match ended.iter().find(lost) {
                    Some(&rank) => Err(Complaint::ended(rank).into()),
                    None => Ok(notices.is_over() && unfound.is_empty()),
                }
            }
        }
    }

    /// Takes the messages that have come; returns `true` if no other is on its way.
    fn receive(&mut self, transport: &dyn Transport, tag: u32) -> Result<bool, TransportError> {
        loop {
            match transport.receive_message(tag)? {
                Incoming::Nothing => return Ok(true),
                Incoming::Arriving => return Ok(false),
                Incoming::Message { sender, bytes } => {
                    if let Ending::Notices(notices) = &mut self.ending {
                        notices.count(sender);
                    }
                    self.received.push_back((sender, bytes));
                }
            }
        }
    }

    /// The ranks and messages that are missing.
    pub(super) fn missing(&self, transport: &dyn Transport) -> Missing {
        let mut missing: Vec<String> = self
            .outbox
            .held_up()
            .map(|peer| format!("this rank's reserved message to rank {peer}"))
            .collect();
        let unreceived = transport.unreceived(self.tags.messages(self.round)).unwrap_or_default();
        let mut ranks = unreceived.clone();
        missing
            .extend(unreceived.iter().map(|peer| format!("rank {peer}, which has not received a message")));
        match &self.ending {
            Ending::Consensus(consensus) if consensus.has_entered() && !consensus.is_over() => {
                let (rank, text) = consensus.missing();
                ranks.extend(rank);
                missing.push(text);
            }
            Ending::Consensus(_) => {}
            Ending::Notices(notices) => {
                let unheard = transport.unreceived(self.tags.ending(self.round)).unwrap_or_default();
                ranks.extend(&unheard);
                let unheard = unheard.iter().filter(|peer| !unreceived.contains(peer));
                missing.extend(unheard.map(|peer| format!("rank {peer}, which has not begun its round")));
                let (silent, texts): (Vec<usize>, Vec<String>) = notices.missing().unzip();
                ranks.extend(silent);
                missing.extend(texts);
            }
        }
        let what = if missing.is_empty() { "nothing".into() } else { missing.join("; ") };
        Missing::new(what, ranks)
    }

    /// Fails permanently, and notifies the neighbours if they are fixed.
    pub(super) fn poison(&mut self, transport: &dyn Transport, error: SparseError) {
        if let Ending::Notices(notices) = &self.ending {
            let complaint = match &error {
                SparseError::GivenUp { rank, why } => Complaint { rank: *rank, why: why.clone() },
                SparseError::Poisoned(why) => Complaint { rank: self.rank, why: why.clone() },
                other => Complaint { rank: self.rank, why: other.to_string() },
            };
            let tags = [0, 1].map(|round| self.tags.ending(round));
            notices.give_up(transport, tags, self.round, &complaint);
        }
        self.outbox = Outbox::default();
        self.status = Status::Poisoned(error);
    }
}
