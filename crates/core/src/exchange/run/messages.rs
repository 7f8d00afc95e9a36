//! All messages of a part: packed in groups, sent, received and unpacked.
//!
//! Messages are sent in groups. The messages of a group are packed by one list of copies, and sent when its event is
//! reached, while later groups are still being packed. A message that goes whole is in the first group; chunk k of a message
//! that is staged in [chunks](crate::exchange::bind) is in group k. What comes is unpacked by one list when all of it has
//! come, but for chunks: each of these is unpacked when it has come.
//!
//! On a device that is done when a call returns and has one thread, each message has lists of its own. It is packed and sent
//! before the next one is packed, and unpacked when it has come, while others are still under way. The largest is packed
//! first: what takes longest on the wire should be there first, and the time of the whole is least if messages are begun in
//! the order of the time that they take after that (Jackson's rule for jobs with delivery times; J. R. Jackson, Scheduling a
//! production line to minimize maximum tardiness, 1955).

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use super::buffers::Buffers;
use super::copy_list::{CopyList, Lane};
use super::message::{Message, ReceivedMessage, SentMessage};
use crate::device::{Device, DeviceError};
use crate::exchange::options::ExchangeError;
use crate::field::Storage;
use crate::transport::Transport;

/// All messages of a part.
pub(crate) struct Messages<D: Device> {
    /// In the order of their groups.
    pub(crate) sends: Vec<SentMessage<D>>,
    pub(crate) receives: Vec<ReceivedMessage<D>>,
    /// The first one is always there.
    pub(crate) groups: Vec<Group<D>>,
    /// What unpacks all messages without a list of their own.
    pub(crate) unpack: CopyList<D>,
    /// How many groups were sent in this exchange.
    pub(crate) groups_sent: usize,
    pub(crate) chunks: Option<ReceivedChunks<D>>,
    /// Owns the memory of all messages that do not lie in fields.
    pub(crate) buffers: Arc<Buffers<D>>,
    /// The fields that messages lie in.
    pub(crate) in_place: Vec<Arc<Storage>>,
}

/// Messages that are packed together.
pub(crate) struct Group<D: Device> {
    /// One list, or one for the even exchanges and one for the odd ones: messages in shared memory are used in turn.
    pub(crate) pack: Vec<CopyList<D>>,
    pub(crate) packed: D::Event,
    /// Which of the messages that the part sends they are.
    pub(crate) messages: Range<usize>,
}

/// Chunks that come to an asynchronous device.
pub(crate) struct ReceivedChunks<D: Device> {
    /// All of them are unpacked.
    pub(crate) unpacked: D::Event,
    /// Whether the event was recorded in this exchange.
    pub(crate) is_recorded: bool,
}

impl<D: Device> Messages<D> {
    /// Begins an exchange.
    pub(crate) fn begin(&mut self) {
        self.each().for_each(Message::begin);
        self.groups_sent = 0;
        if let Some(chunks) = &mut self.chunks {
            chunks.is_recorded = false;
        }
    }

    /// Posts all receives.
    ///
    /// # Safety
    /// The messages of the last exchange are unpacked. Nobody uses the halo cells that messages lie in until these have come.
    pub(crate) unsafe fn receive(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        for received in &mut self.receives {
            // SAFETY: the caller's promise; nobody touches a buffer before its message has come.
            unsafe { received.message.post(transport)? };
        }
        Ok(())
    }

    /// Packs all messages of exchange `round` (modulo 2), and sends those that have lists of their own.
    ///
    /// # Safety
    /// Nobody writes the fields until they are packed, nor what of them messages lie in until these are complete. The
    /// messages of the last exchange are complete.
    pub(crate) unsafe fn pack(
        &mut self,
        lane: &Lane<'_, D>,
        round: usize,
        transport: &dyn Transport,
    ) -> Result<(), ExchangeError> {
        for sent in &mut self.sends {
            // SAFETY: the caller's promise; only devices that are done when a call returns have such lists.
            unsafe { sent.pack_and_send(lane, transport)? };
        }
        for group in &self.groups {
            // SAFETY: the caller's promise.
            unsafe { group.list(round).run(lane)? };
            lane.device.record(&group.packed, lane.stream)?;
        }
        Ok(())
    }

    /// Puts what packs the first group into `stream`, for work that is captured.
    ///
    /// # Safety
    /// As for [`pack`](Messages::pack), whenever the captured work is run.
    pub(crate) unsafe fn put_packing(
        &self,
        device: &D,
        stream: &D::Stream,
        round: usize,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        self.groups[..1].iter().try_for_each(|group| unsafe { group.list(round).put(device, stream) })
    }

    /// Whether the first group is packed.
    pub(crate) fn is_packed(&self, device: &D) -> Result<bool, DeviceError> {
        self.groups.first().map_or(Ok(true), |group| device.query(&group.packed))
    }

    /// Blocks until the next group that is to be sent is packed.
    pub(crate) fn wait_for_packing(&self, device: &D) -> Result<(), DeviceError> {
        self.groups.get(self.groups_sent).map_or(Ok(()), |group| device.host_wait(&group.packed))
    }

    /// Sends the next group.
    ///
    /// # Safety
    /// It is packed, and nobody writes its buffer, nor what of the fields its messages lie in, until they are complete.
    pub(crate) unsafe fn send_group(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        if let Some(group) = self.groups.get(self.groups_sent) {
            for sent in &mut self.sends[group.messages.clone()] {
                // SAFETY: the caller's promise.
                unsafe { sent.send(transport)? };
            }
            self.groups_sent += 1;
        }
        Ok(())
    }

    /// Tells the time line that messages are waited for from now on.
    pub(crate) fn await_all(&mut self) {
        self.receives.iter_mut().for_each(|received| received.message.wire.begin());
    }

    /// Whether all groups were sent in this exchange.
    pub(crate) fn are_sent(&self) -> bool {
        self.groups_sent == self.groups.len()
    }

    /// Sends groups as far as they are packed, and unpacks what has come and has a list of its own. Whether all is complete.
    ///
    /// # Safety
    /// The first group was sent. As for [`send_group`](Messages::send_group) but that it is packed, and as for
    /// [`ReceivedMessage::advance`].
    pub(crate) unsafe fn advance(
        &mut self,
        lane: &Lane<'_, D>,
        transport: &dyn Transport,
        finishing: bool,
    ) -> Result<bool, ExchangeError> {
        while let Some(group) = self.groups.get(self.groups_sent) {
            if !lane.device.query(&group.packed)? {
                break;
            }
            // SAFETY: it is packed; the rest is the caller's promise.
            unsafe { self.send_group(transport)? };
        }
        let mut complete = true;
        for received in &mut self.receives {
            // SAFETY: the caller's promise.
            complete &= unsafe { received.advance(lane, transport, finishing)? };
        }
        for sent in &mut self.sends {
            complete &= sent.message.test(transport)?;
        }
        Ok(complete)
    }

    /// Unpacks all messages that have no lists of their own.
    ///
    /// # Safety
    /// They have come when this is run. Nobody else uses the halo cells that they fill.
    pub(crate) unsafe fn unpack(&self, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        // SAFETY: the buffers are ours until the next receives, which wait for this; the rest is the caller's promise.
        unsafe { self.unpack.run(lane) }
    }

    /// As [`unpack`](Messages::unpack), into `stream`, for work that is captured.
    ///
    /// # Safety
    /// As for [`unpack`](Messages::unpack), whenever the captured work is run.
    pub(crate) unsafe fn put_unpacking(&self, device: &D, stream: &D::Stream) -> Result<(), DeviceError> {
        // SAFETY: as above.
        unsafe { self.unpack.put(device, stream) }
    }

    /// Unpacks the messages that have lists of their own and are not unpacked.
    ///
    /// # Safety
    /// All have come. Nobody else uses the halo cells that they fill.
    pub(crate) unsafe fn unpack_rest(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        // SAFETY: the caller's promise.
        self.receives.iter_mut().try_for_each(|received| unsafe { received.unpack(lane) })
    }

    /// Whether the device has unpacked all chunks: what unpacks them has been put into the stream of `lane`.
    pub(crate) fn are_chunks_unpacked(&mut self, lane: &Lane<'_, D>) -> Result<bool, DeviceError> {
        let Some(chunks) = &mut self.chunks else { return Ok(true) };
        if !chunks.is_recorded {
            lane.device.record(&chunks.unpacked, lane.stream)?;
            chunks.is_recorded = true;
        }
        lane.device.query(&chunks.unpacked)
    }

    /// Whether the device is what is waited for: it packs, or unpacks the last chunks.
    pub(crate) fn are_on_device(&self) -> bool {
        !self.are_sent() || self.chunks.as_ref().is_some_and(|chunks| chunks.is_recorded)
    }

    /// Whether anything is sent or comes in chunks.
    pub(crate) fn are_chunked(&self) -> bool {
        self.groups.len() > 1 || self.chunks.is_some()
    }

    /// All lists of copies.
    pub(crate) fn lists_mut(&mut self) -> impl Iterator<Item = &mut CopyList<D>> {
        let of_groups = self.groups.iter_mut().flat_map(|group| &mut group.pack);
        let sent = self.sends.iter_mut().filter_map(|sent| sent.pack.as_mut());
        let received = self.receives.iter_mut().filter_map(|received| received.unpack.as_mut());
        of_groups.chain([&mut self.unpack]).chain(sent).chain(received)
    }

    /// The neighbours that are still waited for, in words.
    pub(crate) fn missing(&self) -> impl Iterator<Item = String> {
        let received = self.receives.iter().filter_map(ReceivedMessage::missing);
        received.chain(self.sends.iter().filter_map(SentMessage::missing))
    }

    /// Tells the time line that what is under way has failed.
    pub(crate) fn fail(&mut self) {
        self.each().for_each(|message| message.wire.fail());
    }

    /// Closes all channels. The transport keeps what it may still be using.
    pub(crate) fn close(&mut self, transport: &dyn Transport) {
        let fields = if self.each().any(|message| message.is_in_field()) {
            std::mem::take(&mut self.in_place)
        } else {
            Vec::new()
        };
        let memory = Arc::new(AbandonedMemory::new(Arc::clone(&self.buffers) as _, fields));
        for message in self.each() {
            // SAFETY: the channel is ours; `buffers` owns the memory of all messages that do not lie in fields, and the
            // fields that a message under way lies in are kept as well.
            unsafe { transport.close(message.channel, Arc::clone(&memory) as _) };
        }
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Message> {
        let sent = self.sends.iter_mut().map(|sent| &mut sent.message);
        sent.chain(self.receives.iter_mut().map(|received| &mut received.message))
    }
}

impl<D: Device> Group<D> {
    /// What packs the group in exchange `round` (modulo 2).
    fn list(&self, round: usize) -> &CopyList<D> {
        &self.pack[round % self.pack.len()]
    }
}

/// What the transport may still use of messages that were given up.
struct AbandonedMemory {
    _buffers: Arc<dyn Any + Send + Sync>,
    /// They are in flight until the transport lets go of this.
    fields: Vec<Arc<Storage>>,
}

impl AbandonedMemory {
    fn new(buffers: Arc<dyn Any + Send + Sync>, fields: Vec<Arc<Storage>>) -> AbandonedMemory {
        fields.iter().for_each(|storage| storage.hold());
        AbandonedMemory { _buffers: buffers, fields }
    }
}

impl Drop for AbandonedMemory {
    fn drop(&mut self) {
        self.fields.iter().for_each(|storage| storage.release());
    }
}
