//! The sparse exchange: messages to receivers that do not know their senders.
//!
//! Each rank sends its messages in a mode that shows when the receiver has begun to receive each of them, and receives
//! messages of any rank. When all its messages are received, it enters a barrier, and goes on receiving until the
//! barrier is complete: then the messages of every rank are received. (Hoefler, Siebert, Lumsdaine: "Scalable
//! communication protocols for dynamic sparse data exchange", 2010.) A rank can be in the next round while another
//! still waits at the barrier of this one, but not further ahead, so two alternating tags keep the rounds apart.

use haloport_core::TransportError;
use haloport_core::transport::Idle;

use crate::endpoint::{Endpoint, OwnedRequest};
use crate::raw::{Arrival, Request, SendMode};

/// A message with its sender or receiver.
type Message = (usize, Vec<u8>);

impl Endpoint {
    pub(crate) fn sparse_exchange(
        &self,
        messages: Vec<Message>,
        idle: Idle<'_>,
    ) -> Result<Vec<Message>, TransportError> {
        let tag = {
            let mut locked = self.lock_for_collective()?;
            locked.state.odd_round = !locked.state.odd_round;
            u32::from(locked.state.odd_round)
        };
        let (own, others): (Vec<_>, Vec<_>) = messages.into_iter().partition(|(peer, _)| *peer == self.rank);
        let mut round = Round { endpoint: self, tag, sends: Vec::new(), receives: Vec::new(), received: own };
        for (peer, bytes) in others {
            round.send(peer, bytes)?;
        }
        let mut barrier: Option<OwnedRequest<'_, ()>> = None;
        let mut all_received = false;
        loop {
            round.advance()?;
            match &mut barrier {
                Some(barrier) => all_received = all_received || barrier.poll()?.is_some(),
                None if round.sends.is_empty() => barrier = Some(self.begin_barrier()?),
                None => {}
            }
            if all_received && round.is_complete() {
                break;
            }
            idle()?;
        }
        let mut received = round.received;
        // A stable sort: messages of one sender stay in order.
        received.sort_by_key(|(sender, _)| *sender);
        Ok(received)
    }

    fn begin_barrier(&self) -> Result<OwnedRequest<'_, ()>, TransportError> {
        let locked = self.lock()?;
        let request = Request::barrier(&locked.permit, self.setup)?;
        drop(locked);
        Ok(OwnedRequest::new(self, request, ()))
    }
}

/// One sparse exchange of this rank.
struct Round<'e> {
    endpoint: &'e Endpoint,
    tag: u32,
    /// Messages that their receivers have not begun to receive.
    sends: Vec<OwnedRequest<'e, Vec<u8>>>,
    /// Messages that are arriving, each with its index in `received`.
    receives: Vec<(usize, OwnedRequest<'e, Vec<u8>>)>,
    /// Messages in the order in which they were found.
    received: Vec<Message>,
}

impl Round<'_> {
    fn send(&mut self, peer: usize, bytes: Vec<u8>) -> Result<(), TransportError> {
        let locked = self.endpoint.lock()?;
        let memory = (bytes.as_ptr(), bytes.len());
        // SAFETY: the request owns the bytes until it is complete.
        let request = unsafe {
            Request::send(&locked.permit, SendMode::Synchronous, self.endpoint.setup, memory, peer, self.tag)?
        };
        drop(locked);
        self.sends.push(OwnedRequest::new(self.endpoint, request, bytes));
        Ok(())
    }

    /// Makes progress without blocking.
    fn advance(&mut self) -> Result<(), TransportError> {
        while self.receive()? {}
        for send in &mut self.sends {
            send.poll()?;
        }
        self.sends.retain(OwnedRequest::is_pending);
        for (index, receive) in &mut self.receives {
            if let Some(bytes) = receive.poll()? {
                self.received[*index].1 = bytes;
            }
        }
        self.receives.retain(|(_, receive)| receive.is_pending());
        Ok(())
    }

    /// Begins to receive the next message, if there is one.
    fn receive(&mut self) -> Result<bool, TransportError> {
        let locked = self.endpoint.lock()?;
        let Some(arrival) = Arrival::probe(&locked.permit, self.endpoint.setup, self.tag)? else {
            return Ok(false);
        };
        let (source, mut bytes) = (arrival.source, vec![0u8; arrival.bytes]);
        // SAFETY: the bytes are as long as the message, and the request owns them until it is complete.
        let request = unsafe { Request::receive(&locked.permit, arrival, bytes.as_mut_ptr())? };
        drop(locked);
        self.receives.push((self.received.len(), OwnedRequest::new(self.endpoint, request, bytes)));
        self.received.push((source, Vec::new()));
        Ok(true)
    }

    fn is_complete(&self) -> bool {
        self.sends.is_empty() && self.receives.is_empty()
    }
}
