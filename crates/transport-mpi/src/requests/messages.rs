//! Messages of any length to ranks that need not expect them.
//!
//! They are sent in a mode that shows when the receiver has begun to receive each of them, on the communicator for
//! setup, with tags of their own. A receiver probes for messages of any rank, allocates memory for each, and receives
//! it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use haloport_core::TransportError;
use haloport_core::transport::Incoming;

use super::abandoned::AbandonedRequest;
use crate::error::failed;
use crate::raw::{Arrival, Comm, Permit, Progress, Request, SendMode};

/// The first tag of messages; those below are for sparse exchanges.
pub(crate) const FIRST_TAG: u32 = 2;

/// The messages of a transport that are under way, by tag.
pub(crate) struct Messages {
    rank: usize,
    largest_tag: u32,
    /// Messages that their receivers have not begun to receive.
    leaving: HashMap<u32, Vec<(usize, Transfer)>>,
    /// Messages that were found, in the order in which they were found.
    arriving: HashMap<u32, VecDeque<(usize, Transfer)>>,
}

/// The bytes of a message, and its request until that is complete.
struct Transfer {
    request: Option<Request>,
    bytes: Vec<u8>,
}

impl Messages {
    /// The messages of rank `rank`; `tag_bound` is the largest tag of MPI.
    pub(crate) fn new(rank: usize, tag_bound: u32) -> Messages {
        let largest_tag = tag_bound - FIRST_TAG;
        Messages { rank, largest_tag, leaving: HashMap::new(), arriving: HashMap::new() }
    }

    pub(crate) fn send(
        &mut self,
        permit: &Permit,
        comm: Comm,
        (peer, tag): (usize, u32),
        bytes: Vec<u8>,
    ) -> Result<(), TransportError> {
        if tag > self.largest_tag {
            let largest = self.largest_tag;
            return Err(TransportError::Channel(format!("tag {tag} is larger than the largest, {largest}")));
        }
        if peer == self.rank {
            let arrived = (peer, Transfer { request: None, bytes });
            self.arriving.entry(tag).or_default().push_back(arrived);
            return Ok(());
        }
        let memory = (bytes.as_ptr(), bytes.len());
        // SAFETY: the bytes live, in a transfer or in an abandoned request, until the request is complete.
        let request =
            unsafe { Request::send(permit, SendMode::Synchronous, comm, memory, peer, tag + FIRST_TAG)? };
        let leaving = self.leaving.entry(tag).or_default();
        leaving.push((peer, Transfer { request: Some(request), bytes }));
        // Now and then, for senders that never call `unreceived`.
        let many = leaving.len() > 8 && leaving.len().is_power_of_two();
        if many { self.unreceived(permit, tag).map(drop) } else { Ok(()) }
    }

    /// Begins to receive all messages that have arrived, and returns the first that is complete and follows no
    /// incomplete one of the same sender.
    pub(crate) fn receive(
        &mut self,
        permit: &Permit,
        comm: Comm,
        tag: u32,
    ) -> Result<Incoming, TransportError> {
        while let Some(arrival) = Arrival::probe(permit, comm, tag + FIRST_TAG)? {
            let (source, mut bytes) = (arrival.source, Vec::new());
            bytes
                .try_reserve_exact(arrival.bytes)
                .map_err(|_| failed("MPI_Imrecv", format!("no memory for {} bytes", arrival.bytes)))?;
            bytes.resize(arrival.bytes, 0u8);
            // SAFETY: the bytes are as long as the message and live, in a transfer or in an abandoned request, until
            // the request is complete.
            let request = unsafe { Request::receive(permit, arrival, bytes.as_mut_ptr())? };
            let transfer = Transfer { request: Some(request), bytes };
            self.arriving.entry(tag).or_default().push_back((source, transfer));
        }
        let Some(queue) = self.arriving.get_mut(&tag) else { return Ok(Incoming::Nothing) };
        let mut incomplete = BTreeSet::new();
        for index in 0..queue.len() {
            let (sender, transfer) = &mut queue[index];
            if !transfer.poll(permit)? {
                incomplete.insert(*sender);
            } else if !incomplete.contains(sender)
                && let Some((sender, transfer)) = queue.remove(index)
            {
                if queue.is_empty() {
                    self.arriving.remove(&tag);
                }
                return Ok(Incoming::Message { sender, bytes: transfer.bytes });
            }
        }
        Ok(Incoming::Arriving)
    }

    /// The ranks that have not begun to receive a message of this rank.
    pub(crate) fn unreceived(&mut self, permit: &Permit, tag: u32) -> Result<Vec<usize>, TransportError> {
        let Some(leaving) = self.leaving.get_mut(&tag) else { return Ok(Vec::new()) };
        let mut error = None;
        leaving.retain_mut(|(_, transfer)| match transfer.poll(permit) {
            Ok(complete) => !complete,
            Err(found) => {
                error = Some(found);
                true
            }
        });
        if leaving.is_empty() {
            self.leaving.remove(&tag);
            return Ok(Vec::new());
        }
        let receivers: BTreeSet<usize> = leaving.iter().map(|(peer, _)| *peer).collect();
        error.map_or_else(|| Ok(receivers.into_iter().collect()), Err)
    }

    /// Removes the messages with this tag. They need not be cancelled: a receiver may still want them.
    pub(crate) fn remove(&mut self, tag: u32) -> Vec<AbandonedRequest> {
        let leaving = self.leaving.remove(&tag).into_iter().flatten();
        let arriving = self.arriving.remove(&tag).into_iter().flatten();
        leaving.chain(arriving).filter_map(|(_, transfer)| transfer.abandon()).collect()
    }

    /// Removes all messages.
    pub(crate) fn remove_all(&mut self) -> Vec<AbandonedRequest> {
        let tags: BTreeSet<u32> = self.leaving.keys().chain(self.arriving.keys()).copied().collect();
        tags.into_iter().flat_map(|tag| self.remove(tag)).collect()
    }
}

impl Transfer {
    /// Makes progress, and returns whether it is complete.
    fn poll(&mut self, permit: &Permit) -> Result<bool, TransportError> {
        let Some(request) = &mut self.request else { return Ok(true) };
        match request.test(permit)? {
            Progress::Pending => Ok(false),
            Progress::Done(_) => {
                self.request = None;
                Ok(true)
            }
            Progress::Truncated(_, message) => Err(failed("MPI_Test", message)),
        }
    }

    fn abandon(self) -> Option<AbandonedRequest> {
        let owner = Some(Arc::new(self.bytes) as _);
        self.request.map(|request| AbandonedRequest { request, persistent: false, cancel: false, owner })
    }
}
