//! The end of a round with fixed senders and receivers: each sender sends the number of its messages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::complaint::Complaint;
use super::outbox::Outbox;
use crate::comm::{decode, encode};
use crate::transport::{Incoming, Transport, TransportError};

/// A notice to a neighbour, apart from the messages.
#[derive(Debug, Serialize, Deserialize)]
enum Notice {
    /// The number of messages that were sent in this round.
    End(u64),
    /// The sender gives up in this round, and takes part in no later one.
    GivenUp(u64, Complaint),
}

/// The neighbours of a rank, and the state of their round.
#[derive(Debug)]
pub(super) struct Notices {
    rank: usize,
    receivers: Vec<usize>,
    senders: BTreeMap<usize, Count>,
    /// Whether the receivers have their notices.
    notified: bool,
}

/// The messages of one sender.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    found: u64,
    sent: Option<u64>,
}

impl Notices {
    pub(super) fn new(rank: usize, senders: &[usize], receivers: &[usize]) -> Notices {
        let senders = senders.iter().map(|&sender| (sender, Count::default())).collect();
        Notices { rank, receivers: receivers.to_vec(), senders, notified: false }
    }

    pub(super) fn receivers(&self) -> &[usize] {
        &self.receivers
    }

    /// Begins a round.
    pub(super) fn reset(&mut self) {
        self.notified = false;
        self.senders.values_mut().for_each(|count| *count = Count::default());
    }

    /// Counts a message from `sender`.
    pub(super) fn count(&mut self, sender: usize) {
        self.senders.entry(sender).or_default().found += 1;
    }

    /// Sends each receiver, once, the number of its messages.
    pub(super) fn notify(
        &mut self,
        transport: &dyn Transport,
        tag: u32,
        outbox: &Outbox,
    ) -> Result<(), TransportError> {
        if std::mem::replace(&mut self.notified, true) {
            return Ok(());
        }
        self.receivers.iter().try_for_each(|&receiver| {
            let notice = Notice::End(outbox.sent(receiver));
            transport.send_message(receiver, tag, encode(&notice, self.rank)?)
        })
    }

    /// Receives notices; returns a complaint if there is one. A neighbour that gives up in the next round has completed
    /// this one, and its complaint has also come with the tag of the next round.
    pub(super) fn advance(
        &mut self,
        transport: &dyn Transport,
        tag: u32,
        round: u64,
    ) -> Result<Option<Complaint>, TransportError> {
        while let Incoming::Message { sender, bytes } = transport.receive_message(tag)? {
            match decode(sender, &bytes)? {
                Notice::End(sent) => self.senders.entry(sender).or_default().sent = Some(sent),
                Notice::GivenUp(given_up, _) if given_up > round => {}
                Notice::GivenUp(_, complaint) => return Ok(Some(complaint)),
            }
        }
        Ok(None)
    }

    /// Whether messages or the notice of `sender` are missing.
    pub(super) fn waits_for(&self, sender: usize) -> bool {
        self.senders.get(&sender).is_some_and(|count| !count.is_complete())
    }

    /// Whether the receivers have their notices and all messages of all senders are here.
    pub(super) fn is_over(&self) -> bool {
        self.notified && self.senders.values().all(Count::is_complete)
    }

    /// Sends all neighbours the notice that this rank gives up in `round`, with the tags of either round. A neighbour
    /// that does not get it fails at its time limit.
    pub(super) fn give_up(
        &self,
        transport: &dyn Transport,
        tags: [u32; 2],
        round: u64,
        complaint: &Complaint,
    ) {
        let Ok(notice) = encode(&Notice::GivenUp(round, complaint.clone()), self.rank) else { return };
        let others = self.receivers.iter().filter(|rank| !self.senders.contains_key(rank));
        for &peer in self.senders.keys().chain(others).filter(|&&peer| peer != self.rank) {
            for tag in tags {
                if let Err(error) = transport.send_message(peer, tag, notice.clone()) {
                    tracing::debug!(%error, peer, "a neighbour could not be notified that this rank gives up a round");
                }
            }
        }
    }

    /// The senders whose messages are missing, each also in words.
    pub(super) fn missing(&self) -> impl Iterator<Item = (usize, String)> {
        self.senders.iter().filter(|(_, count)| !count.is_complete()).map(|(sender, count)| {
            let text = match count.sent {
                None => format!("rank {sender}, which has not ended its round"),
                Some(sent) => format!("rank {sender}, with {} of its {sent} messages here", count.found),
            };
            (*sender, text)
        })
    }
}

impl Count {
    fn is_complete(&self) -> bool {
        self.sent == Some(self.found)
    }
}
