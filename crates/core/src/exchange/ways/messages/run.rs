//! All messages of a part: packing them in groups, sending, receiving and unpacking them.
//!
//! The messages of a group are packed by one list of copies, and sent when the mark of the group is reached, while
//! later groups are still being packed. Messages that are not split are in the first group; chunk k of a message that
//! is staged in [chunks](super::in_chunks) is in group k. Received messages are unpacked by one list when all have
//! arrived, except for chunks: each is unpacked when it has arrived.
//!
//! On a synchronous device with one thread, each message has a list of its own. It is packed and sent before the next
//! one is packed, and unpacked when it has arrived, while others are still under way. The largest is packed first: it
//! takes longest on the wire, and the total time is least if jobs are begun in the order of the time that they take
//! afterwards, the longest first (Jackson's rule for jobs with delivery times; J. R. Jackson, Scheduling a production
//! line to minimize maximum tardiness, 1955).

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use super::{Message, MessageState, ReceivedMessage, SentMessage};
use crate::device::{Device, DeviceError};
use crate::exchange::options::ExchangeError;
use crate::exchange::ways::accumulate::Combining;
use crate::exchange::work::copy_list::{Buffers, CopyList};
use crate::exchange::work::mark::Mark;
use crate::exchange::work::streams::MoveStream;
use crate::exchange::work::{HostWay, Lane};
use crate::field::Storage;
use crate::transport::Transport;

/// All messages of a part.
pub(crate) struct Messages<D: Device> {
    /// In the order of their groups.
    pub(crate) sends: Vec<SentMessage<D>>,
    pub(crate) receives: Vec<ReceivedMessage<D>>,
    /// Never empty: the first group always exists.
    pub(crate) groups: Vec<Group<D>>,
    /// The copies that unpack all messages without a list of their own.
    pub(crate) unpack: CopyList<D>,
    /// The copies that combine the cells of all messages with owned ones, if they go from halos to their owners.
    pub(crate) combining: Option<Combining<D>>,
    /// The number of groups that were sent in this exchange.
    pub(crate) groups_sent: usize,
    /// Owns the memory of all messages that do not lie in fields.
    pub(crate) buffers: Arc<Buffers<D>>,
    /// The fields that messages lie in.
    pub(crate) in_place: Vec<Arc<Storage>>,
}

/// Messages that are packed together.
pub(crate) struct Group<D: Device> {
    /// One list; or, if there are messages in shared memory, which are used in turn, one for even exchanges and one for
    /// odd ones.
    pub(crate) pack: Vec<CopyList<D>>,
    /// The point at which they are packed and, if they are moved, in memory of the host.
    pub(crate) packed: Mark<D>,
    /// The range of these messages among the sent messages of the part.
    pub(crate) messages: Range<usize>,
}

impl<D: Device> Messages<D> {
    /// Posts all receives.
    ///
    /// # Safety
    /// The messages of the last exchange are unpacked. Nothing but the transport uses the halo cells that messages are
    /// received into until these have arrived.
    pub(crate) unsafe fn receive(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        for received in &mut self.receives {
            // SAFETY: the caller guarantees it; no copy touches a buffer before its message has arrived.
            unsafe { received.message.post(transport)? };
        }
        Ok(())
    }

    /// Packs all messages, and sends those that have lists of their own. If there are `moves`, messages that are moved to
    /// memory of the host are moved there.
    ///
    /// # Safety
    /// Nothing writes the cells that are packed until that is done, nor the cells that messages are sent from until these
    /// are complete. The messages of the last exchange are complete.
    pub(crate) unsafe fn pack(
        &mut self,
        lane: &Lane<'_, D>,
        moves: Option<&MoveStream<D>>,
    ) -> Result<(), ExchangeError> {
        for sent in &mut self.sends {
            // SAFETY: the caller guarantees it; only synchronous devices have such lists.
            unsafe { sent.pack_and_send(lane)? };
        }
        moves.map_or(Ok(()), |moves| moves.begin(lane.device, lane.stream))?;
        for group in &self.groups {
            // SAFETY: the caller guarantees it.
            let last = unsafe { group.pack[lane.round % group.pack.len()].pack(lane, moves)? };
            group.packed.record(lane.device, last)?;
        }
        Ok(moves.map_or(Ok(()), |moves| moves.end(lane.device))?)
    }

    /// Whether the first group is packed.
    pub(crate) fn is_packed(&self, device: &D) -> Result<bool, DeviceError> {
        self.groups.first().map_or(Ok(true), |group| group.packed.is_reached(device))
    }

    /// Blocks until the group that is sent next is packed.
    pub(crate) fn wait_for_packing(&self, device: &D) -> Result<(), DeviceError> {
        self.groups.get(self.groups_sent).map_or(Ok(()), |group| group.packed.wait(device))
    }

    /// Sends the next group.
    ///
    /// # Safety
    /// It is packed. Until its messages are complete, nothing writes their buffer or the cells that they are sent from.
    pub(crate) unsafe fn send_group(&mut self, transport: &dyn Transport) -> Result<(), ExchangeError> {
        if let Some(group) = self.groups.get(self.groups_sent) {
            for sent in &mut self.sends[group.messages.clone()] {
                // SAFETY: the caller guarantees it.
                unsafe { sent.send(transport)? };
            }
            self.groups_sent += 1;
        }
        Ok(())
    }

    /// Whether nothing is packed, sent or received.
    pub(crate) fn are_none(&self) -> bool {
        let packs = self.groups.iter().flat_map(|group| &group.pack).any(|list| !list.is_empty());
        !packs && !self.are_combined() && self.sends.is_empty() && self.receives.is_empty()
    }

    pub(crate) fn are_received(&self) -> bool {
        !self.receives.is_empty()
    }

    /// Whether cells are combined with owned ones, also without messages, or halos are set to zero.
    pub(crate) fn are_combined(&self) -> bool {
        self.combining.as_ref().is_some_and(|combining| !combining.is_empty())
    }

    /// Begins the spans of all receives in the time line: from now on, they are waited for.
    pub(crate) fn trace_receives(&mut self) {
        self.receives.iter_mut().for_each(|received| received.message.transfer.begin());
    }

    pub(crate) fn are_sent(&self) -> bool {
        self.groups_sent == self.groups.len()
    }

    /// Sends the groups that are packed, and unpacks arrived messages that have lists of their own. Returns whether all
    /// messages are complete.
    ///
    /// # Safety
    /// The first group was sent. As for [`send_group`](Messages::send_group), except that groups need not be packed, and
    /// as for [`ReceivedMessage::advance`].
    pub(crate) unsafe fn advance(
        &mut self,
        lane: &Lane<'_, D>,
        finishing: bool,
    ) -> Result<bool, ExchangeError> {
        while let Some(group) = self.groups.get(self.groups_sent) {
            if !group.packed.is_reached(lane.device)? {
                break;
            }
            // SAFETY: it is packed; the caller guarantees the rest.
            unsafe { self.send_group(lane.transport)? };
        }
        let mut complete = true;
        for received in &mut self.receives {
            // SAFETY: the caller guarantees it.
            complete &= unsafe { received.advance(lane, finishing)? };
        }
        for sent in &mut self.sends {
            complete &= sent.message.test(lane.transport)?;
        }
        Ok(complete)
    }

    /// Unpacks all messages in the stream of `lane`, except for those that are unpacked already.
    ///
    /// # Safety
    /// All messages have arrived. Nothing else uses the halo cells that they fill.
    pub(crate) unsafe fn finish(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        // SAFETY: the caller guarantees it.
        unsafe { self.unpack(lane)? };
        // SAFETY: as above.
        self.receives.iter_mut().try_for_each(|received| unsafe { received.unpack(lane) })
    }

    /// Unpacks all messages in the stream of `lane`: those with lists of their own, too, unless they are unpacked
    /// already. No other stream unpacks them later.
    ///
    /// # Safety
    /// As for [`unpack`](Messages::unpack).
    pub(crate) unsafe fn unpack_in_stream(&mut self, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        // SAFETY: the caller guarantees it.
        unsafe { self.unpack(lane)? };
        // SAFETY: as above.
        self.receives.iter_mut().try_for_each(|received| unsafe { received.unpack_in_stream(lane) })
    }

    /// Unpacks all messages that have no lists of their own, or combines their cells with owned ones.
    ///
    /// # Safety
    /// The messages have arrived when the device runs this. Nothing else uses the halo cells that they fill.
    pub(crate) unsafe fn unpack(&self, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        // SAFETY: the buffers are ours until the next receives, which wait for this; the caller guarantees the rest.
        unsafe { self.unpack.run(lane)? };
        // SAFETY: as above.
        self.combining.as_ref().map_or(Ok(()), |combining| unsafe { combining.run(lane) })
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Message> {
        let sent = self.sends.iter_mut().map(|sent| &mut sent.message);
        sent.chain(self.receives.iter_mut().map(|received| &mut received.message))
    }
}

/// The memory of abandoned messages, which the transport may still be using.
struct AbandonedMemory {
    _buffers: Arc<dyn Any + Send + Sync>,
    /// Marked as in flight until the transport drops this.
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

impl<D: Device> HostWay<D> for Messages<D> {
    fn begin(&mut self) {
        self.each().for_each(Message::begin);
        self.groups_sent = 0;
        self.receives.iter_mut().for_each(|received| received.is_in_stream = false);
    }

    unsafe fn start(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        // SAFETY: the last exchange was unpacked; the exchange fills each halo cell once. The caller guarantees the rest.
        unsafe { self.receive(lane.transport)? };
        // SAFETY: the send buffers are free since the last exchange has completed. The caller guarantees the rest.
        unsafe { self.pack(lane, None)? };
        // SAFETY: packing is done, since the device is synchronous; no thread writes the buffer before the next start.
        unsafe { self.send_group(lane.transport)? };
        self.trace_receives();
        Ok(())
    }

    unsafe fn advance(&mut self, lane: &Lane<'_, D>, finishing: bool) -> Result<bool, ExchangeError> {
        // SAFETY: `start` has sent the first group; nothing writes the buffers before the next start; the caller guarantees
        // the rest.
        unsafe { Messages::advance(self, lane, finishing) }
    }

    unsafe fn finish(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        // SAFETY: all messages have arrived, since `advance` has returned `true`; the caller guarantees the rest.
        unsafe { Messages::finish(self, lane) }
    }

    fn missing(&self) -> Vec<(usize, String)> {
        let received = self.receives.iter().filter_map(ReceivedMessage::missing);
        received.chain(self.sends.iter().filter_map(SentMessage::missing)).collect()
    }

    fn fail(&mut self) {
        self.each().for_each(|message| message.transfer.fail());
    }

    /// Closes all channels. The transport keeps the memory that it may still be using.
    fn close(&mut self, transport: &dyn Transport) {
        // Whether the transport may be using memory of fields for it.
        let is_in_field = |it: &mut Message| it.in_field && it.state == MessageState::UnderWay;
        let fields =
            if self.each().any(is_in_field) { std::mem::take(&mut self.in_place) } else { Vec::new() };
        let memory = Arc::new(AbandonedMemory::new(Arc::clone(&self.buffers) as _, fields));
        for message in self.each() {
            // SAFETY: the channel is ours. `memory` keeps the buffers and, if a message under way lies in fields, these
            // fields.
            unsafe { transport.close(message.channel, Arc::clone(&memory) as _) };
        }
    }
}

// What a part does about messages that the transport writes straight to memory of its device.
//
// A network adapter writes there beside the device. Such writes are ordered before work that the host puts into streams
// after it has learnt of their arrival, but not before work that is in streams by then ("GPUDirect RDMA", the section
// on the order of memory): `finish` without a gate needs nothing more; the unpacking behind a gate does.

/// How received messages become visible to work behind a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteWrites {
    /// By opening the gate: they lie in memory of the host, or there are none.
    Ordered,
    /// By [`Gates::flush_remote_writes`](crate::device::Gates::flush_remote_writes) before the gate is opened.
    Flushed,
    /// Not at all: no work that reads them may be behind a gate.
    Unordered,
}

impl RemoteWrites {
    /// Chooses for a part of `device`; `receives`: it receives messages of the transport. The thread must be attached
    /// to the device.
    pub(crate) fn of<D: Device>(
        device: &D,
        transport: &dyn Transport,
        receives: bool,
    ) -> Result<RemoteWrites, DeviceError> {
        let info = device.info();
        let written = || transport.info().takes_memory_of(&info.id);
        if !receives || !info.asynchronous || info.host_accessible || !written() {
            return Ok(RemoteWrites::Ordered);
        }
        let Some(gates) = device.gates() else { return Ok(RemoteWrites::Unordered) };
        match gates.flush_remote_writes() {
            Ok(()) => Ok(RemoteWrites::Flushed),
            Err(DeviceError::Unsupported { .. }) => Ok(RemoteWrites::Unordered),
            Err(error) => Err(error),
        }
    }

    /// Whether work that reads messages may be behind a gate.
    pub(crate) fn allow_gates(self) -> bool {
        self != RemoteWrites::Unordered
    }

    /// Makes all messages that have arrived visible to work behind a gate. To be called before it is opened.
    pub(crate) fn flush<D: Device>(self, device: &D) -> Result<(), DeviceError> {
        match device.gates().filter(|_| self == RemoteWrites::Flushed) {
            Some(gates) => gates.flush_remote_writes(),
            None => Ok(()),
        }
    }
}
