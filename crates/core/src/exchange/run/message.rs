//! One message to a neighbour, or from one: posted, tested and, where it has copies of its own, packed or unpacked.

use super::copy_list::{CopyList, Lane};
use super::trace::Wire;
use crate::device::Device;
use crate::exchange::options::ExchangeError;
use crate::transport::{Channel, Transport};

/// What both ends of a message have.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) peer: usize,
    pub(crate) bytes: usize,
    pub(crate) channel: Channel,
    /// Whether some of it lies in a field.
    pub(crate) in_field: bool,
    pub(crate) state: MessageState,
    pub(crate) wire: Wire,
}

/// How far a message has come in this exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageState {
    /// Not posted.
    Waiting,
    UnderWay,
    /// Received, or its memory free.
    Complete,
    /// And unpacked.
    Unpacked,
}

/// A message to a neighbour.
pub(crate) struct SentMessage<D: Device> {
    pub(crate) message: Message,
    /// What packs it; `None` if the list of its group does.
    pub(crate) pack: Option<CopyList<D>>,
}

/// A message from a neighbour.
pub(crate) struct ReceivedMessage<D: Device> {
    pub(crate) message: Message,
    /// What unpacks it; `None` if the list for all messages does.
    pub(crate) unpack: Option<CopyList<D>>,
    /// Whether it is unpacked to memory that is merely borrowed, which only `finish` may touch.
    pub(crate) late: bool,
}

impl Message {
    pub(crate) fn begin(&mut self) {
        self.state = MessageState::Waiting;
        self.wire.open();
    }

    /// Posts it, unless that has been done.
    ///
    /// # Safety
    /// As for [`Transport::post`].
    pub(crate) unsafe fn post(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        if self.state == MessageState::Waiting {
            // SAFETY: the caller's promise.
            unsafe { transport.post(self.channel)? };
            self.state = MessageState::UnderWay;
        }
        Ok(())
    }

    /// Whether it is complete.
    pub(crate) fn test(&mut self, transport: &dyn Transport) -> Result<bool, ExchangeError> {
        if self.state == MessageState::UnderWay && transport.test(self.channel)? {
            self.state = MessageState::Complete;
            self.wire.end();
        }
        Ok(!self.is_missing())
    }

    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.state, MessageState::Waiting | MessageState::UnderWay)
    }

    /// Whether the transport may be using memory of fields.
    pub(crate) fn is_in_field(&self) -> bool {
        self.in_field && self.state == MessageState::UnderWay
    }
}

impl<D: Device> SentMessage<D> {
    /// Packs and sends it, if it is packed on its own.
    ///
    /// # Safety
    /// The device is done when a call returns. Nobody writes the fields until the message is packed, nor what of them it
    /// lies in until it is complete; its buffer is free until then.
    pub(crate) unsafe fn pack_and_send(
        &mut self,
        lane: &Lane<'_, D>,
        transport: &dyn Transport,
    ) -> Result<(), ExchangeError> {
        if let Some(pack) = &self.pack {
            // SAFETY: the caller's promise.
            unsafe { pack.run(lane)? };
            // SAFETY: it is packed; the rest is the caller's promise.
            unsafe { self.send(transport)? };
        }
        Ok(())
    }

    /// Sends it, unless that has been done.
    ///
    /// # Safety
    /// It is packed, and nobody writes its buffer, or what of the fields it lies in, until it is complete.
    pub(crate) unsafe fn send(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        self.message.wire.begin();
        // SAFETY: the caller's promise.
        unsafe { self.message.post(transport) }
    }

    pub(crate) fn missing(&self) -> Option<String> {
        let Message { peer, bytes, .. } = self.message;
        self.message
            .is_missing()
            .then(|| format!("the receipt of the message of {bytes} bytes by rank {peer}"))
    }
}

impl<D: Device> ReceivedMessage<D> {
    /// Whether it has come. If so, and `finishing` says that borrowed memory may be touched or it has none, unpacks it.
    ///
    /// # Safety
    /// Nobody else uses the halo cells that it fills.
    pub(crate) unsafe fn advance(
        &mut self,
        lane: &Lane<'_, D>,
        transport: &dyn Transport,
        finishing: bool,
    ) -> Result<bool, ExchangeError> {
        let complete = self.message.test(transport)?;
        if complete && (finishing || !self.late) {
            // SAFETY: the caller's promise.
            unsafe { self.unpack(lane)? };
        }
        Ok(complete)
    }

    /// Unpacks it, if it is unpacked on its own and this has not been done.
    ///
    /// # Safety
    /// As for [`advance`](ReceivedMessage::advance), and it has come.
    pub(crate) unsafe fn unpack(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        if let (Some(unpack), MessageState::Complete) = (&self.unpack, self.message.state) {
            // SAFETY: the buffer is ours until the next start; the rest is the caller's promise.
            unsafe { unpack.run(lane)? };
            self.message.state = MessageState::Unpacked;
        }
        Ok(())
    }

    pub(crate) fn missing(&self) -> Option<String> {
        let Message { peer, bytes, .. } = self.message;
        self.message.is_missing().then(|| format!("the message of {bytes} bytes from rank {peer}"))
    }
}
