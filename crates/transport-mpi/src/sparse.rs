//! The sparse exchange: messages to receivers that do not know who sends.
//!
//! Each rank sends its messages in a mode that tells when each has begun to be received, and receives whatever comes.
//! A rank whose messages are all received enters a barrier, and goes on receiving until the barrier is complete: then
//! every rank's messages are. (Hoefler, Siebert, Lumsdaine: "Scalable communication protocols for dynamic sparse data
//! exchange", 2010.) A rank can be in the next round while another still waits at this one's barrier, never further,
//! so two tags in turn keep the rounds apart.

use haloport_core::TransportError;
use haloport_core::transport::Idle;

use crate::collectives::Flying;
use crate::endpoint::Endpoint;
use crate::raw::{Arrival, Request};

/// A message with its sender or receiver.
type Message = (usize, Vec<u8>);

impl Endpoint {
    pub(crate) fn sparse_exchange(
        &self,
        messages: Vec<Message>,
        idle: Idle<'_>,
    ) -> Result<Vec<Message>, TransportError> {
        let tag = {
            let mut entry = self.enter_setup()?;
            entry.state.odd_round = !entry.state.odd_round;
            u32::from(entry.state.odd_round)
        };
        let (own, others): (Vec<_>, Vec<_>) = messages.into_iter().partition(|(peer, _)| *peer == self.rank);
        let mut round = Round { endpoint: self, tag, sends: Vec::new(), receives: Vec::new(), received: own };
        for (peer, bytes) in others {
            round.send(peer, bytes)?;
        }
        let mut barrier: Option<Flying<'_, ()>> = None;
        let mut all_received = false;
        loop {
            round.advance()?;
            match &mut barrier {
                Some(barrier) => all_received = all_received || barrier.poll()?.is_some(),
                None if round.sends.is_empty() => barrier = Some(self.begin_barrier()?),
                None => {}
            }
            if all_received && round.is_landed() {
                break;
            }
            idle()?;
        }
        let mut received = round.received;
        // Stable: those of one sender stay in their order.
        received.sort_by_key(|(sender, _)| *sender);
        Ok(received)
    }

    fn begin_barrier(&self) -> Result<Flying<'_, ()>, TransportError> {
        let entry = self.enter()?;
        let request = Request::barrier(&entry.permit, self.setup)?;
        drop(entry);
        Ok(Flying::new(self, request, ()))
    }
}

/// One sparse exchange of this rank.
struct Round<'e> {
    endpoint: &'e Endpoint,
    tag: u32,
    /// Messages that nobody has begun to receive.
    sends: Vec<Flying<'e, Vec<u8>>>,
    /// Messages that are arriving, each for its place among those received.
    receives: Vec<(usize, Flying<'e, Vec<u8>>)>,
    /// Messages in the order in which they were found.
    received: Vec<Message>,
}

impl Round<'_> {
    fn send(&mut self, peer: usize, bytes: Vec<u8>) -> Result<(), TransportError> {
        let entry = self.endpoint.enter()?;
        let memory = (bytes.as_ptr(), bytes.len());
        // SAFETY: the bytes are kept until the request is complete.
        let request =
            unsafe { Request::synchronous_send(&entry.permit, self.endpoint.setup, memory, peer, self.tag)? };
        drop(entry);
        self.sends.push(Flying::new(self.endpoint, request, bytes));
        Ok(())
    }

    /// Makes what progress can be made now.
    fn advance(&mut self) -> Result<(), TransportError> {
        while self.receive()? {}
        for send in &mut self.sends {
            send.poll()?;
        }
        self.sends.retain(Flying::is_flying);
        for (place, receive) in &mut self.receives {
            if let Some(bytes) = receive.poll()? {
                self.received[*place].1 = bytes;
            }
        }
        self.receives.retain(|(_, receive)| receive.is_flying());
        Ok(())
    }

    /// Begins to receive the next message, if there is one.
    fn receive(&mut self) -> Result<bool, TransportError> {
        let entry = self.endpoint.enter()?;
        let Some(arrival) = Arrival::probe(&entry.permit, self.endpoint.setup, self.tag)? else {
            return Ok(false);
        };
        let (source, mut bytes) = (arrival.source, vec![0u8; arrival.bytes]);
        // SAFETY: the bytes are as long as the message and are kept until the request is complete.
        let request = unsafe { Request::receive(&entry.permit, arrival, bytes.as_mut_ptr())? };
        drop(entry);
        self.receives.push((self.received.len(), Flying::new(self.endpoint, request, bytes)));
        self.received.push((source, Vec::new()));
        Ok(true)
    }

    fn is_landed(&self) -> bool {
        self.sends.is_empty() && self.receives.is_empty()
    }
}
