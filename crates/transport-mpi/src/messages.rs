//! Messages of any length to ranks that need not know of them.
//!
//! They are sent in a mode that tells when each has begun to be received, on the communicator of setup, with tags of
//! their own. A receiver looks for whatever comes, makes room for it and has it received.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use haloport_core::TransportError;
use haloport_core::transport::Incoming;

use crate::endpoint::{Endpoint, layer};
use crate::ghosts::Ghost;
use crate::raw::{Arrival, Comm, Permit, Progress, Request};

/// The tags below are those of sparse exchanges.
const FIRST_TAG: u32 = 2;

/// The messages of a transport that are under way, by tag.
#[derive(Default)]
pub(crate) struct Messages {
    /// Messages that nobody has begun to receive.
    leaving: HashMap<u32, Vec<(usize, Flight)>>,
    /// Messages that were found, in the order of finding.
    arriving: HashMap<u32, VecDeque<(usize, Flight)>>,
}

/// The bytes of a message, and its request until that is complete.
struct Flight {
    request: Option<Request>,
    bytes: Vec<u8>,
}

impl Endpoint {
    pub(crate) fn send_message(&self, peer: usize, tag: u32, bytes: Vec<u8>) -> Result<(), TransportError> {
        if tag > self.tag_bound - FIRST_TAG {
            let bound = self.tag_bound - FIRST_TAG;
            return Err(TransportError::Channel(format!("tag {tag} is larger than the largest, {bound}")));
        }
        let mut entry = self.enter()?;
        if peer == self.rank {
            let arrived = (peer, Flight { request: None, bytes });
            entry.state.messages.arriving.entry(tag).or_default().push_back(arrived);
            return Ok(());
        }
        let memory = (bytes.as_ptr(), bytes.len());
        // SAFETY: the bytes are kept, as a flight and then as a ghost, until the request is complete.
        let request =
            unsafe { Request::synchronous_send(&entry.permit, self.setup, memory, peer, tag + FIRST_TAG)? };
        let flight = Flight { request: Some(request), bytes };
        let (state, permit) = (&mut *entry.state, &entry.permit);
        let leaving = state.messages.leaving.entry(tag).or_default();
        leaving.push((peer, flight));
        // Now and then, for senders who never ask what has become of theirs.
        let many = leaving.len() > 8 && leaving.len().is_power_of_two();
        if many { state.messages.unreceived(permit, tag).map(drop) } else { Ok(()) }
    }

    pub(crate) fn receive_message(&self, tag: u32) -> Result<Incoming, TransportError> {
        let mut entry = self.enter()?;
        let messages = &mut entry.state.messages;
        messages.find(&entry.permit, self.setup, tag)?;
        messages.take(&entry.permit, tag)
    }

    pub(crate) fn unreceived(&self, tag: u32) -> Result<Vec<usize>, TransportError> {
        let mut entry = self.enter()?;
        entry.state.messages.unreceived(&entry.permit, tag)
    }

    /// What is under way goes on without an owner.
    pub(crate) fn discard_messages(&self, tag: u32) {
        self.give_up_messages(|messages| messages.remove(tag));
        self.sweep();
    }
}

impl Messages {
    /// Takes out what is under way with this tag.
    fn remove(&mut self, tag: u32) -> Vec<Ghost> {
        let leaving = self.leaving.remove(&tag).into_iter().flatten();
        let arriving = self.arriving.remove(&tag).into_iter().flatten();
        leaving.chain(arriving).filter_map(|(_, flight)| flight.into_ghost()).collect()
    }

    /// Takes out everything.
    pub(crate) fn remove_all(&mut self) -> Vec<Ghost> {
        let leaving = std::mem::take(&mut self.leaving).into_values().flatten();
        let arriving = std::mem::take(&mut self.arriving).into_values().flatten();
        leaving.chain(arriving).filter_map(|(_, flight)| flight.into_ghost()).collect()
    }

    /// Begins to receive all that has come.
    fn find(&mut self, permit: &Permit, comm: Comm, tag: u32) -> Result<(), TransportError> {
        while let Some(arrival) = Arrival::probe(permit, comm, tag + FIRST_TAG)? {
            let (source, mut bytes) = (arrival.source, Vec::new());
            bytes
                .try_reserve_exact(arrival.bytes)
                .map_err(|_| layer("MPI_Imrecv", &format!("no memory for {} bytes", arrival.bytes)))?;
            bytes.resize(arrival.bytes, 0u8);
            // SAFETY: the bytes are as long as the message and are kept, as a flight and then as a ghost, until the
            // request is complete.
            let request = unsafe { Request::receive(permit, arrival, bytes.as_mut_ptr())? };
            let flight = Flight { request: Some(request), bytes };
            self.arriving.entry(tag).or_default().push_back((source, flight));
        }
        Ok(())
    }

    /// The first message that is complete and follows no incomplete one of the same sender.
    fn take(&mut self, permit: &Permit, tag: u32) -> Result<Incoming, TransportError> {
        let Some(queue) = self.arriving.get_mut(&tag) else { return Ok(Incoming::Nothing) };
        let mut incomplete = BTreeSet::new();
        for place in 0..queue.len() {
            let (sender, flight) = &mut queue[place];
            if !flight.poll(permit)? {
                incomplete.insert(*sender);
            } else if !incomplete.contains(sender)
                && let Some((sender, flight)) = queue.remove(place)
            {
                if queue.is_empty() {
                    self.arriving.remove(&tag);
                }
                return Ok(Incoming::Message { sender, bytes: flight.bytes });
            }
        }
        Ok(Incoming::Arriving)
    }

    fn unreceived(&mut self, permit: &Permit, tag: u32) -> Result<Vec<usize>, TransportError> {
        let Some(leaving) = self.leaving.get_mut(&tag) else { return Ok(Vec::new()) };
        let mut failed = None;
        leaving.retain_mut(|(_, flight)| match flight.poll(permit) {
            Ok(complete) => !complete,
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        if leaving.is_empty() {
            self.leaving.remove(&tag);
            return Ok(Vec::new());
        }
        let receivers: BTreeSet<usize> = leaving.iter().map(|(peer, _)| *peer).collect();
        failed.map_or_else(|| Ok(receivers.into_iter().collect()), Err)
    }
}

impl Flight {
    /// Whether it is complete.
    fn poll(&mut self, permit: &Permit) -> Result<bool, TransportError> {
        let Some(request) = &mut self.request else { return Ok(true) };
        match request.test(permit)? {
            Progress::Pending => Ok(false),
            Progress::Done(_) => {
                self.request = None;
                Ok(true)
            }
            Progress::Truncated(_, message) => Err(TransportError::Layer { call: "MPI_Test", message }),
        }
    }

    fn into_ghost(self) -> Option<Ghost> {
        let keep = Some(Arc::new(self.bytes) as _);
        self.request.map(|request| Ghost { request, persistent: false, cancel: false, keep })
    }
}
