//! One message to or from a neighbour: posting and testing it and, if it has a list of copies of its own, packing or
//! unpacking.

use crate::device::{Device, DeviceError};
use crate::exchange::options::ExchangeError;
use crate::exchange::work::copy_list::{CopyList, Lane};
use crate::exchange::work::trace::TransferTrace;
use crate::transport::{Channel, Transport};

/// A message in either direction.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) peer: usize,
    pub(crate) bytes: usize,
    pub(crate) channel: Channel,
    /// Whether some of it lies in a field.
    pub(crate) in_field: bool,
    pub(crate) state: MessageState,
    pub(crate) transfer: TransferTrace,
}

/// The state of a message in the current exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageState {
    /// Not posted yet.
    Waiting,
    UnderWay,
    /// Received; or sent, and its memory is free.
    Complete,
    /// Received and unpacked.
    Unpacked,
}

/// A message to a neighbour.
pub(crate) struct SentMessage<D: Device> {
    pub(crate) message: Message,
    /// The copies that pack it; `None` if the list of its group packs it.
    pub(crate) pack: Option<CopyList<D>>,
}

/// A message from a neighbour.
pub(crate) struct ReceivedMessage<D: Device> {
    pub(crate) message: Message,
    /// The copies that unpack it; `None` if the list for all messages unpacks it.
    pub(crate) unpack: Option<CopyList<D>>,
    /// Whether these are in the caller's stream already, behind the gate of the exchange.
    pub(crate) is_in_stream: bool,
    /// Whether only `finish` may unpack it, since it goes to borrowed memory.
    pub(crate) only_in_finish: bool,
}

impl Message {
    pub(crate) fn begin(&mut self) {
        self.state = MessageState::Waiting;
        self.transfer.open();
    }

    /// Posts it, unless it is posted already.
    ///
    /// # Safety
    /// As for [`Transport::post`].
    pub(crate) unsafe fn post(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        if self.state == MessageState::Waiting {
            // SAFETY: the caller guarantees it.
            unsafe { transport.post(self.channel)? };
            self.state = MessageState::UnderWay;
        }
        Ok(())
    }

    /// Tests it, and returns whether it is complete.
    pub(crate) fn test(&mut self, transport: &dyn Transport) -> Result<bool, ExchangeError> {
        if self.state == MessageState::UnderWay && transport.test(self.channel)? {
            self.state = MessageState::Complete;
            self.transfer.end();
        }
        Ok(!self.is_missing())
    }

    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.state, MessageState::Waiting | MessageState::UnderWay)
    }

    /// Whether the transport may be using memory of fields for it.
    pub(crate) fn is_in_field(&self) -> bool {
        self.in_field && self.state == MessageState::UnderWay
    }
}

impl<D: Device> SentMessage<D> {
    /// Packs and sends it, if it has a list of its own.
    ///
    /// # Safety
    /// The device is synchronous. Nobody writes the fields until the message is packed; until it is complete, nobody
    /// writes the cells that it is sent from, and nobody else uses its buffer.
    pub(crate) unsafe fn pack_and_send(
        &mut self,
        lane: &Lane<'_, D>,
        transport: &dyn Transport,
    ) -> Result<(), ExchangeError> {
        if let Some(pack) = &self.pack {
            // SAFETY: the caller guarantees it.
            unsafe { pack.run(lane)? };
            // SAFETY: it is packed; the caller guarantees the rest.
            unsafe { self.send(transport)? };
        }
        Ok(())
    }

    /// Sends it, unless it is sent already.
    ///
    /// # Safety
    /// It is packed. Until it is complete, nobody writes its buffer or the cells of fields that it is sent from.
    pub(crate) unsafe fn send(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        self.message.transfer.begin();
        // SAFETY: the caller guarantees it.
        unsafe { self.message.post(transport) }
    }

    pub(crate) fn missing(&self) -> Option<(usize, String)> {
        let Message { peer, bytes, .. } = self.message;
        self.message
            .is_missing()
            .then(|| (peer, format!("the receipt of the message of {bytes} bytes by rank {peer}")))
    }
}

impl<D: Device> ReceivedMessage<D> {
    /// Returns whether it has arrived. If so, unpacks it, unless only `finish` may do that and `finishing` is not set.
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
        if complete && (finishing || !self.only_in_finish) {
            // SAFETY: the caller guarantees it.
            unsafe { self.unpack(lane)? };
        }
        Ok(complete)
    }

    /// Unpacks it, if it has a list of its own and is not unpacked yet.
    ///
    /// # Safety
    /// As for [`advance`](ReceivedMessage::advance), and it has arrived.
    pub(crate) unsafe fn unpack(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        if let (Some(unpack), MessageState::Complete) = (&self.unpack, self.message.state) {
            if !self.is_in_stream {
                // SAFETY: the buffer is ours until the next start; the caller guarantees the rest.
                unsafe { unpack.run(lane)? };
            }
            self.message.state = MessageState::Unpacked;
        }
        Ok(())
    }

    /// Unpacks it in the stream of `lane`, if it has a list of its own and is not unpacked yet.
    ///
    /// # Safety
    /// It has arrived when the device runs this. Nobody else uses the halo cells that it fills.
    pub(crate) unsafe fn unpack_in_stream(&mut self, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        if let Some(unpack) = self.unpack.as_ref().filter(|_| self.message.state != MessageState::Unpacked) {
            // SAFETY: as for `unpack`.
            unsafe { unpack.run(lane)? };
            self.is_in_stream = true;
        }
        Ok(())
    }

    pub(crate) fn missing(&self) -> Option<(usize, String)> {
        let Message { peer, bytes, .. } = self.message;
        self.message.is_missing().then(|| (peer, format!("the message of {bytes} bytes from rank {peer}")))
    }
}
