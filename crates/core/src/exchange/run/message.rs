//! The messages of a part: how each is packed and sent, received and unpacked.
//!
//! On a device that is done when a call returns, each message is packed and sent before the next one is packed, and
//! unpacked when it has come, while others are still under way. The largest is packed first: what takes longest on the
//! wire should be there first, and the time of the whole is least if messages are begun in the order of the time that
//! they take after that (Jackson's rule for jobs with delivery times; J. R. Jackson, Scheduling a production line to
//! minimize maximum tardiness, 1955). On any other device one list of copies serves all messages, but for those that come in
//! [chunks](crate::exchange::bind::chunks): each of these is unpacked when it has come.

use std::any::Any;
use std::sync::Arc;

use super::buffers::Detour;
use super::trace::{PartTrace, Wire};
use crate::device::{CopyItem, Device, DeviceError, NextReader};
use crate::exchange::layout::messages::Placed;
use crate::exchange::options::ExchangeError;
use crate::field::Storage;
use crate::trace::Phase;
use crate::transport::{Channel, Transport};

/// What both ends of a message have.
#[derive(Debug)]
struct Message {
    peer: usize,
    bytes: usize,
    channel: Channel,
    /// Whether some of it lies in a field.
    in_field: bool,
    progress: Progress,
    wire: Wire,
}

/// What packs or unpacks a message on its own, and how many bytes.
pub(crate) struct OwnCopies<D: Device> {
    pub(crate) copies: D::Copies,
    pub(crate) bytes: usize,
    /// What of the buffers is to be copied behind the packing, or before the unpacking.
    pub(crate) detour: Option<Detour>,
}

/// A message, what packs or unpacks it where that is done on its own, and whether it does so to borrowed memory.
pub(crate) type BoundMessage<D> = (Placed, Option<OwnCopies<D>>, bool);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Not begun in this exchange.
    Waiting,
    UnderWay,
    /// Received, or its memory free.
    Complete,
    /// And unpacked.
    Unpacked,
}

/// A message to a neighbour.
pub(crate) struct Outgoing<D: Device> {
    message: Message,
    /// What packs it, where it is packed on its own.
    pack: Option<OwnCopies<D>>,
}

/// A message from a neighbour.
pub(crate) struct Incoming<D: Device> {
    message: Message,
    /// What unpacks it, where it is unpacked on its own.
    unpack: Option<OwnCopies<D>>,
    /// Whether it is unpacked to memory that is merely borrowed, which only `finish` may touch.
    late: bool,
}

impl Message {
    fn new(peer: usize, bytes: usize, channel: Channel, in_field: bool, wire: Wire) -> Message {
        Message { peer, bytes, channel, in_field, progress: Progress::Complete, wire }
    }

    fn begin(&mut self) {
        self.progress = Progress::Waiting;
        self.wire.open();
    }

    /// # Safety
    /// As for [`Transport::post`].
    unsafe fn post(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        if self.progress == Progress::Waiting {
            // SAFETY: the caller's promise.
            unsafe { transport.post(self.channel)? };
            self.progress = Progress::UnderWay;
        }
        Ok(())
    }

    /// Whether it is complete.
    fn test(&mut self, transport: &dyn Transport) -> Result<bool, ExchangeError> {
        if self.progress == Progress::UnderWay && transport.test(self.channel)? {
            self.progress = Progress::Complete;
            self.wire.end();
        }
        Ok(!self.is_missing())
    }

    fn is_missing(&self) -> bool {
        matches!(self.progress, Progress::Waiting | Progress::UnderWay)
    }

    /// Whether the transport may be using memory of fields.
    fn is_in_field(&self) -> bool {
        self.in_field && self.progress == Progress::UnderWay
    }
}

impl<D: Device> Outgoing<D> {
    pub(crate) fn new(
        peer: usize,
        bytes: usize,
        channel: Channel,
        in_field: bool,
        pack: Option<OwnCopies<D>>,
        wire: Wire,
    ) -> Outgoing<D> {
        Outgoing { message: Message::new(peer, bytes, channel, in_field, wire), pack }
    }

    pub(crate) fn begin(&mut self) {
        self.message.begin();
    }

    /// Packs and sends it, if it is packed on its own.
    ///
    /// # Safety
    /// Nobody writes the fields until the message is packed, nor what of them it lies in until it is complete; its
    /// buffer is free until then.
    pub(crate) unsafe fn pack_and_send(
        &mut self,
        device: &D,
        stream: &D::Stream,
        transport: &dyn Transport,
        trace: &PartTrace<D>,
    ) -> Result<(), ExchangeError> {
        if let Some(pack) = &self.pack {
            // SAFETY: the caller's promise.
            unsafe { pack.run(Phase::Packing, device, stream, trace)? };
            self.message.wire.begin();
            // SAFETY: the device was done when the call returned; the rest is the caller's promise.
            unsafe { self.message.post(transport)? };
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

    /// What packs it, where it is packed on its own.
    pub(crate) fn copies(&mut self) -> Option<&mut OwnCopies<D>> {
        self.pack.as_mut()
    }

    /// Whether its memory is free again.
    pub(crate) fn is_complete(&mut self, transport: &dyn Transport) -> Result<bool, ExchangeError> {
        self.message.test(transport)
    }

    pub(crate) fn missing(&self) -> Option<String> {
        let Message { peer, bytes, .. } = self.message;
        self.message
            .is_missing()
            .then(|| format!("the receipt of the message of {bytes} bytes by rank {peer}"))
    }

    pub(crate) fn channel(&self) -> Channel {
        self.message.channel
    }

    /// What the time line is told of its way.
    pub(crate) fn wire(&mut self) -> &mut Wire {
        &mut self.message.wire
    }

    /// Whether the transport may be reading fields.
    pub(crate) fn is_in_field(&self) -> bool {
        self.message.is_in_field()
    }
}

impl<D: Device> Incoming<D> {
    pub(crate) fn new(
        peer: usize,
        bytes: usize,
        channel: Channel,
        in_field: bool,
        unpack: Option<OwnCopies<D>>,
        late: bool,
        wire: Wire,
    ) -> Incoming<D> {
        Incoming { message: Message::new(peer, bytes, channel, in_field, wire), unpack, late }
    }

    pub(crate) fn begin(&mut self) {
        self.message.begin();
    }

    /// Waits for it.
    ///
    /// # Safety
    /// Nobody uses its buffer, or the halo cells that it lies in, until it is complete.
    pub(crate) unsafe fn receive(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        // SAFETY: the caller's promise.
        unsafe { self.message.post(transport) }
    }

    /// What unpacks it, where it is unpacked on its own.
    pub(crate) fn copies(&mut self) -> Option<&mut OwnCopies<D>> {
        self.unpack.as_mut()
    }

    /// Whether it has come. It is unpacked then if `finishing` says that borrowed memory may be touched, or there is none.
    ///
    /// # Safety
    /// Nobody else uses the halo cells that it fills.
    pub(crate) unsafe fn advance(
        &mut self,
        device: &D,
        stream: &D::Stream,
        transport: &dyn Transport,
        finishing: bool,
        trace: &PartTrace<D>,
    ) -> Result<bool, ExchangeError> {
        let complete = self.message.test(transport)?;
        if complete && (finishing || !self.late) {
            // SAFETY: the caller's promise.
            unsafe { self.unpack(device, stream, trace)? };
        }
        Ok(complete)
    }

    /// Unpacks it, if it is unpacked on its own and this has not been done.
    ///
    /// # Safety
    /// As for [`advance`](Incoming::advance), and it has come.
    pub(crate) unsafe fn unpack(
        &mut self,
        device: &D,
        stream: &D::Stream,
        trace: &PartTrace<D>,
    ) -> Result<(), ExchangeError> {
        if let (Some(unpack), Progress::Complete) = (&self.unpack, self.message.progress) {
            // SAFETY: the buffer is ours until the next start; the rest is the caller's promise.
            unsafe { unpack.run(Phase::Unpacking, device, stream, trace)? };
            self.message.progress = Progress::Unpacked;
        }
        Ok(())
    }

    pub(crate) fn missing(&self) -> Option<String> {
        let Message { peer, bytes, .. } = self.message;
        self.message.is_missing().then(|| format!("the message of {bytes} bytes from rank {peer}"))
    }

    pub(crate) fn channel(&self) -> Channel {
        self.message.channel
    }

    /// What the time line is told of its way.
    pub(crate) fn wire(&mut self) -> &mut Wire {
        &mut self.message.wire
    }

    /// Whether the transport may be writing halo cells.
    pub(crate) fn is_in_field(&self) -> bool {
        self.message.is_in_field()
    }
}

impl<D: Device> OwnCopies<D> {
    /// # Safety
    /// As for [`Device::run_copies`], and nobody else uses the messages in the buffers until it is done.
    pub(crate) unsafe fn run(
        &self,
        phase: Phase,
        device: &D,
        stream: &D::Stream,
        trace: &PartTrace<D>,
    ) -> Result<(), DeviceError> {
        let is_packing = phase == Phase::Packing;
        let name = if is_packing { "pack" } else { "unpack" };
        // SAFETY: the caller's promise, here and below.
        let detour = || self.detour.map_or(Ok(()), |detour| unsafe { detour.run(device, stream) });
        trace.time((phase, name, self.bytes), device, stream, || {
            if !is_packing {
                detour()?;
            }
            // SAFETY: as above.
            unsafe { device.run_copies(&self.copies, stream)? };
            if is_packing { detour() } else { Ok(()) }
        })
    }
}

/// Copies that are run on their own.
pub(crate) fn own_copies<D: Device>(
    device: &D,
    items: Vec<CopyItem>,
    reader: NextReader,
) -> Result<OwnCopies<D>, DeviceError> {
    let bytes = bytes(&items);
    Ok(OwnCopies { copies: device.bind_copies(items, reader)?, bytes, detour: None })
}

pub(crate) fn bytes(items: &[CopyItem]) -> usize {
    items.iter().map(CopyItem::bytes).sum()
}

/// What the transport may still use of messages that were given up.
pub(crate) struct Kept {
    _buffers: Arc<dyn Any + Send + Sync>,
    /// They are in flight until the transport lets go of this.
    fields: Vec<Arc<Storage>>,
}

impl Kept {
    pub(crate) fn new(buffers: Arc<dyn Any + Send + Sync>, fields: Vec<Arc<Storage>>) -> Kept {
        fields.iter().for_each(|storage| storage.hold());
        Kept { _buffers: buffers, fields }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.fields.iter().for_each(|storage| storage.release());
    }
}
