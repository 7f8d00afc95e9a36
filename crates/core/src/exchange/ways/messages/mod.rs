//! Cells that go in messages of the transport.
//!
//! Once: [`MessageSets`] lays all messages of a part out, large ones in chunks, and `bind` binds the copies and opens the
//! channels. Every time: `run`, with the [`Message`], one of them: posting and testing it and, if it has a list of copies of
//! its own, packing or unpacking.

pub(crate) mod bind;
pub(crate) mod run;

use super::PartFields;
use super::offer::{Offer, PartWays, PeerWays};
use crate::device::{Device, DeviceError};
use crate::exchange::cells::Neighbour;
use crate::exchange::cells::packed::{MessageLayout, MessageSet, PackedCells, cells_of, in_place};
use crate::exchange::cells::side::{PackedShape, Side, cut};
use crate::exchange::options::{ExchangeError, Traffic, Way};
use crate::exchange::work::Lane;
use crate::exchange::work::copy_list::CopyList;
use crate::exchange::work::trace::TransferTrace;
use crate::field::{BoundField, End};
use crate::pattern::Pattern;
use crate::transport::{Channel, Transport};

/// Minimum size in bytes of a piece that is sent or received in place, without packing. Packing a smaller one takes
/// less time than sending one more message.
const MIN_PIECE_BYTES: usize = 16 << 10;

/// All messages of a part, laid out.
pub(crate) struct MessageSets {
    /// Sent messages by group: first all unsplit messages and all first chunks, then all second chunks, and so on.
    pub(crate) groups: Vec<MessageSet>,
    /// Received messages that are not split.
    pub(crate) whole: MessageSet,
    /// Received chunks.
    pub(crate) chunks: MessageSet,
    /// Messages that streams send.
    pub(crate) sent_by_streams: MessageSet,
    /// Messages that streams receive.
    pub(crate) received_by_streams: MessageSet,
}

impl MessageSets {
    /// Lays out the messages of all fields that travel in messages by `ways`. `reached`: the transport can reach the
    /// memory of the device.
    pub(crate) fn new(
        fields: &[(usize, BoundField)],
        pattern: &Pattern,
        ways: &PartWays,
        reached: bool,
    ) -> MessageSets {
        let empty = MessageSet::default;
        let mut sets = MessageSets {
            groups: vec![empty()],
            whole: empty(),
            chunks: empty(),
            sent_by_streams: empty(),
            received_by_streams: empty(),
        };
        for (&peer, PeerWays { ways: chosen, .. }) in &ways.sends {
            let cells = || Neighbour { pattern, peer }.sources();
            let order = |position: usize| fields[position].1.memory_order();
            let by = |way: Way| move |position: usize| (chosen[position] == way).then(|| order(position));
            let chunks = in_chunks(cells_of(fields, by(Way::Chunks), cells()), fields, ways.chunk);
            sets.groups.resize_with(sets.groups.len().max(chunks.len()), empty);
            for (number, (group, chunk)) in sets.groups.iter_mut().zip(chunks).enumerate() {
                group.add(peer, Some(number), chunk, fields);
            }
            let first = &mut sets.groups[0];
            first.add(peer, None, cells_of(fields, by(Way::Message), cells()), fields);
            first.add_piece_by_piece(peer, fields, by(Way::PieceByPiece), cells(), reached);
            sets.sent_by_streams.add(peer, None, cells_of(fields, by(Way::StreamMessage), cells()), fields);
        }
        for (&peer, (offer, PeerWays { ways: chosen, .. })) in &ways.receives {
            let cells = || Neighbour { pattern, peer }.targets();
            let order = |position: usize| offer.fields[position].order;
            let by = |way: Way| move |position: usize| (chosen[position] == way).then(|| order(position));
            let chunks = in_chunks(cells_of(fields, by(Way::Chunks), cells()), fields, ways.chunk);
            for (number, chunk) in chunks.into_iter().enumerate() {
                sets.chunks.add(peer, Some(number), chunk, fields);
            }
            sets.whole.add(peer, None, cells_of(fields, by(Way::Message), cells()), fields);
            sets.whole.add_piece_by_piece(peer, fields, by(Way::PieceByPiece), cells(), reached);
            let by_streams = cells_of(fields, by(Way::StreamMessage), cells());
            sets.received_by_streams.add(peer, None, by_streams, fields);
        }
        sets
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let in_fields = |message: &MessageLayout| message.in_fields().map(|(_, bytes)| bytes).sum::<usize>();
        let by_streams = &self.sent_by_streams.messages;
        let sent = || self.groups.iter().flat_map(|group| &group.messages).chain(by_streams);
        Traffic {
            steps: 1,
            messages: sent().map(|message| message.stretches.len()).sum(),
            message_bytes: sent().map(MessageLayout::bytes).sum(),
            chunked_bytes: sent().filter(|message| message.chunk.is_some()).map(MessageLayout::bytes).sum(),
            stream_message_bytes: by_streams.iter().map(MessageLayout::bytes).sum(),
            sent_in_place_bytes: sent().map(in_fields).sum(),
            received_in_place_bytes: self.whole.messages.iter().map(in_fields).sum(),
            ..Traffic::default()
        }
    }

    /// The positions in the part of all fields that stretches of messages lie in.
    pub(crate) fn fields_in_place(&self) -> Vec<usize> {
        let all = self.groups.iter().flat_map(|group| &group.messages).chain(&self.whole.messages);
        let mut fields: Vec<usize> = all.flat_map(MessageLayout::in_fields).map(|(field, _)| field).collect();
        fields.sort_unstable();
        fields.dedup();
        fields
    }
}

// Splitting staged messages into chunks.
//
// An asynchronous device whose memory the transport cannot read stages messages: it packs them into memory of the
// host. If the neighbour stages as well, a message larger than a chunk is packed, sent and unpacked chunk by chunk.
// While one chunk is on the wire, the sender packs the next and the receiver unpacks the one before.

impl PartFields {
    /// Whether messages of this device are staged, and so may be split.
    pub(crate) fn is_staged(&self, pattern: &Pattern) -> bool {
        let info = self.device.info();
        info.asynchronous && !info.host_accessible && !pattern.comm().info().takes_memory_of(&info.id)
    }

    /// Splits the message of a neighbour into chunks if both ends stage it and it is larger than `chunk` bytes. Returns
    /// the number of chunks; 0 if the message is not split.
    pub(crate) fn set_chunks(
        &self,
        from: Neighbour<'_>,
        chunk: usize,
        offer: &Offer,
        ways: &mut [Way],
    ) -> usize {
        // Cells are combined when all have arrived.
        if !(offer.is_staged && self.is_staged(from.pattern)) || from.pattern.reversal().is_some() {
            return 0;
        }
        let order = |position: usize| (ways[position] == Way::Message).then(|| offer.fields[position].order);
        let cells = cells_of(&self.fields, order, from.targets());
        let mut whole = MessageSet::default();
        whole.add(from.peer, None, cells.clone(), &self.fields);
        if whole.bytes <= chunk {
            return 0;
        }
        let chunks = in_chunks(cells, &self.fields, chunk).len();
        if chunks < 2 {
            return 0;
        }
        ways.iter_mut().filter(|way| **way == Way::Message).for_each(|way| *way = Way::Chunks);
        chunks
    }

    /// Chooses [`Way::PieceByPiece`] for fields in messages whose pieces lie without gaps at one end, if the pieces are
    /// large or the message has only one.
    pub(crate) fn choose_pieces(&self, from: Neighbour<'_>, offer: &Offer, ways: &mut [Way]) {
        // What arrives in the field itself cannot be combined with it.
        if from.pattern.reversal().is_some() {
            return;
        }
        let reached = self.reached(from.pattern);
        let in_message = self.fields.iter().zip(&*ways).filter(|(_, way)| **way == Way::Message);
        let with_cells = in_message.filter(|((_, field), _)| from.shares_cells_of(field, End::Target));
        let single = from.received().len() == 1 && with_cells.count() == 1;
        let fields = self.fields.iter().zip(&offer.fields).zip(ways);
        for (((_, field), offered), way) in fields.filter(|(_, way)| **way == Way::Message) {
            let mut targets = from.targets();
            let one_end_in_place = offered.in_place
                || reached && targets.clone().all(|piece| in_place(field, piece, &offered.order).is_some());
            let bytes = |piece| Side::of_piece(field, piece).elements() * field.element.bytes();
            // Pieces of other patterns of a set have none.
            let large = targets.all(|piece| matches!(bytes(piece), 0 | MIN_PIECE_BYTES..));
            if one_end_in_place && (single || large) {
                *way = Way::PieceByPiece;
            }
        }
    }

    /// Whether the transport can reach fields of this device, so that messages can lie in them.
    pub(crate) fn reached(&self, pattern: &Pattern) -> bool {
        let device = self.device.info();
        device.host_accessible || pattern.comm().info().takes_memory_of(&device.id)
    }
}

/// Splits the cells of a message into chunks of at most `bytes`.
pub(crate) fn in_chunks(
    mut whole: Vec<PackedCells>,
    fields: &[(usize, BoundField)],
    bytes: usize,
) -> Vec<Vec<PackedCells>> {
    whole.retain(|packed| packed.cells.elements() > 0);
    let extents = whole.iter().map(|packed| PackedShape {
        along: packed.cells.extents(&packed.orientation),
        order: packed.order,
        element_bytes: fields[packed.field].1.element.bytes(),
    });
    let chunks = cut(&extents.collect::<Vec<_>>(), bytes).into_iter().map(|chunk| {
        let parts = chunk.into_iter().map(|(number, slab)| {
            let packed = whole[number].clone();
            PackedCells { cells: packed.cells.within(&slab, &packed.orientation), ..packed }
        });
        parts.collect()
    });
    chunks.collect()
}

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
}

impl<D: Device> SentMessage<D> {
    /// Packs and sends it, if it has a list of its own.
    ///
    /// # Safety
    /// The device is synchronous. Nothing writes the cells that are packed until that is done; until the message is
    /// complete, nothing writes the cells that it is sent from, and nothing else uses its buffer.
    pub(crate) unsafe fn pack_and_send(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        if let Some(pack) = &self.pack {
            // SAFETY: the caller guarantees it.
            unsafe { pack.run(lane)? };
            // SAFETY: it is packed; the caller guarantees the rest.
            unsafe { self.send(lane.transport)? };
        }
        Ok(())
    }

    /// Sends it, unless it is sent already.
    ///
    /// # Safety
    /// It is packed. Until it is complete, nothing writes its buffer or the cells of fields that it is sent from.
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
    /// Nothing else uses the halo cells that it fills.
    pub(crate) unsafe fn advance(
        &mut self,
        lane: &Lane<'_, D>,
        finishing: bool,
    ) -> Result<bool, ExchangeError> {
        let complete = self.message.test(lane.transport)?;
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
    /// It has arrived when the device runs this. Nothing else uses the halo cells that it fills.
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
