//! Messages that receivers need not expect: one mailbox for each rank.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Mutex;

use crossbeam_utils::CachePadded;

use super::collective::Message;
use crate::lock::lock;

/// The mailboxes of all ranks.
#[derive(Debug)]
pub(super) struct Mail(Vec<CachePadded<Mailbox>>);

#[derive(Debug, Default)]
struct Mailbox {
    /// The messages that have come, by tag, in the order of coming.
    incoming: Mutex<HashMap<u32, VecDeque<Message>>>,
    /// The number of messages that this rank has sent and that are not taken yet, by tag and receiver.
    unreceived: Mutex<BTreeMap<(u32, usize), usize>>,
}

impl Mail {
    pub(super) fn new(size: usize) -> Mail {
        Mail((0..size).map(|_| CachePadded::default()).collect())
    }

    pub(super) fn send(&self, sender: usize, receiver: usize, tag: u32, bytes: Vec<u8>) {
        // Counted first: once it is in the queue, it can be taken.
        *lock(&self.0[sender].unreceived).entry((tag, receiver)).or_default() += 1;
        lock(&self.0[receiver].incoming).entry(tag).or_default().push_back((sender, bytes));
    }

    pub(super) fn receive(&self, receiver: usize, tag: u32) -> Option<Message> {
        let message = {
            let mut incoming = lock(&self.0[receiver].incoming);
            let queue = incoming.get_mut(&tag)?;
            let message = queue.pop_front();
            if queue.is_empty() {
                incoming.remove(&tag);
            }
            message?
        };
        self.taken(message.0, receiver, tag);
        Some(message)
    }

    /// The receivers of messages with this tag that are not taken yet.
    pub(super) fn unreceived(&self, sender: usize, tag: u32) -> Vec<usize> {
        let unreceived = lock(&self.0[sender].unreceived);
        unreceived.range((tag, 0)..=(tag, usize::MAX)).map(|(&(_, receiver), _)| receiver).collect()
    }

    /// Discards the messages that have come for `rank` with this tag, and the counts of those that it has sent.
    pub(super) fn discard(&self, rank: usize, tag: u32) {
        lock(&self.0[rank].incoming).remove(&tag);
        lock(&self.0[rank].unreceived).retain(|&(other, _), _| other != tag);
    }

    fn taken(&self, sender: usize, receiver: usize, tag: u32) {
        let mut unreceived = lock(&self.0[sender].unreceived);
        if let Some(count) = unreceived.get_mut(&(tag, receiver)) {
            *count -= 1;
            if *count == 0 {
                unreceived.remove(&(tag, receiver));
            }
        }
    }
}
