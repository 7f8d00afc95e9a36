//! Binding the messages that streams send and receive: their buffers, and the copies that pack and unpack them.

use std::sync::Arc;
use std::time::Instant;

use super::group::SharedGroup;
use super::run::{Stage, StreamExchange};
use super::watch::Watch;
use crate::device::{Buffer as _, CopyItem, Device, DeviceError, MemoryKind, StreamMessage};
use crate::exchange::cells::packed::MessageSet;
use crate::exchange::ways::messages::sets::MessageSets;
use crate::exchange::work::copy_list::{CopyList, Purpose};
use crate::exchange::work::mark::{Mark, Marks};
use crate::exchange::work::trace::{PartTrace, TransferTrace};
use crate::field::BoundField;
use crate::trace::Row;
use crate::transport::{Direction, Transport, TransportError};

/// The messages of a part, which does not watch its neighbours yet.
pub(crate) struct BoundStreamMessages<D: Device> {
    group: Arc<SharedGroup<D>>,
    /// The tag by which neighbours watch each other.
    tag: u32,
    pack: CopyList<D>,
    pub(crate) unpack: Vec<CopyItem>,
    sends: Vec<StreamMessage>,
    receives: Vec<StreamMessage>,
    buffers: [D::Buffer; 2],
    packed: Mark<D>,
    arrived: Mark<D>,
    only_in_finish: bool,
    transfers: Vec<TransferTrace>,
}

/// Binds the messages of `sets` that streams exchange in `group`; `None` if there are none.
pub(crate) fn bind_stream_messages<D: Device>(
    device: &D,
    fields: &[(usize, BoundField)],
    sets: &MessageSets,
    group: Option<(Arc<SharedGroup<D>>, u32)>,
    marks: &mut Marks<D>,
    trace: &PartTrace<D>,
) -> Result<Option<BoundStreamMessages<D>>, DeviceError> {
    let (sent, received) = (&sets.sent_by_streams, &sets.received_by_streams);
    let Some((group, tag)) = group.filter(|_| !sent.messages.is_empty() || !received.messages.is_empty())
    else {
        return Ok(None);
    };
    let buffers = [
        device.allocate(sent.bytes, MemoryKind::Device)?,
        device.allocate(received.bytes, MemoryKind::Device)?,
    ];
    let [to, from] = buffers.each_ref().map(|buffer| buffer.pointer());
    let pack = CopyList::bind(device, Purpose::Packing, sent.copies(fields, to, Direction::Send)?, None)?;
    let in_buffer = |set: &MessageSet, begin: crate::device::Pointer| -> Vec<StreamMessage> {
        let messages = set.messages.iter().map(|message| StreamMessage {
            pointer: begin.offset(message.in_buffer().start as isize),
            bytes: message.bytes(),
            peer: message.peer,
        });
        messages.collect()
    };
    let (sends, receives) = (in_buffer(sent, to), in_buffer(received, from));
    let to_peers = sends.iter().map(|it| trace.transfer(Row::To(it.peer), "send in stream", it.bytes));
    let from_peers =
        receives.iter().map(|it| trace.transfer(Row::From(it.peer), "receive in stream", it.bytes));
    Ok(Some(BoundStreamMessages {
        group,
        tag,
        pack,
        unpack: received.copies(fields, from, Direction::Receive)?,
        transfers: to_peers.chain(from_peers).collect(),
        sends,
        receives,
        buffers,
        packed: marks.mark()?,
        arrived: marks.mark()?,
        only_in_finish: received.messages.iter().any(|message| received.is_borrowed(message, fields)),
    }))
}

impl<D: Device> BoundStreamMessages<D> {
    /// Binds the unpacking.
    pub(crate) fn bind_unpacking(&mut self, device: &D) -> Result<CopyList<D>, DeviceError> {
        CopyList::bind(device, Purpose::Unpacking, std::mem::take(&mut self.unpack), None)
    }

    /// Opens the channels by which neighbours watch each other.
    pub(crate) fn open(
        self,
        device: &D,
        unpack: CopyList<D>,
        transport: &dyn Transport,
    ) -> Result<StreamExchange<D>, TransportError> {
        let BoundStreamMessages {
            group,
            tag,
            pack,
            sends,
            receives,
            buffers,
            packed,
            arrived,
            only_in_finish,
            transfers,
            ..
        } = self;
        let mut peers: Vec<usize> = sends.iter().chain(&receives).map(|message| message.peer).collect();
        peers.sort_unstable();
        peers.dedup();
        let watch = Watch::open(transport, device.id(), &peers, tag)?;
        Ok(StreamExchange {
            group,
            pack,
            unpack,
            sends,
            receives,
            _buffers: buffers,
            packed,
            arrived,
            only_in_finish,
            transfers,
            watch,
            stage: Stage::Over,
            last_check: Instant::now(),
        })
    }
}
