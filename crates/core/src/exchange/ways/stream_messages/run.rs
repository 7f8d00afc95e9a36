//! The messages of a part that streams send and receive, without the host: binding and running them.
//!
//! `start` puts all of an exchange into the part's own stream: packing, all sends and receives at once, and unpacking.
//! `finish` makes the caller's stream wait for the end of that. No call blocks the host, and streams wait for nothing but
//! the messages. Borrowed memory is written by `finish` alone, which puts the unpacking into the caller's stream.
//!
//! Meanwhile the engine only watches. If a neighbour is missing or the library reports an error, the exchange fails, and
//! the [group](SharedGroup) is aborted before any memory is freed: then the stream goes on. An abort ends all exchanges of
//! the group that are in flight, and its later ones; the fields are bound again.
//!
//! A rank that fails [tells](Watch) its neighbours through the transport, since a library need not notice that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{AnyGroup as _, SharedGroup, Watch};
use crate::device::{Buffer as _, CopyItem, Device, DeviceError, MemoryKind, Pointer, StreamMessage};
use crate::exchange::cells::packed::MessageSet;
use crate::exchange::options::ExchangeError;
use crate::exchange::ways::Binding;
use crate::exchange::ways::messages::MessageSets;
use crate::exchange::work::Lane;
use crate::exchange::work::copy_list::{CopyList, Purpose};
use crate::exchange::work::mark::{Mark, Marks};
use crate::exchange::work::trace::TransferTrace;
use crate::trace::Row;
use crate::transport::{Direction, Transport, TransportError};

/// All such messages of a part. `U` is the list that unpacks them, or its copies before they are bound.
pub(crate) struct StreamExchange<D: Device, U = CopyList<D>> {
    group: Arc<SharedGroup<D>>,
    pack: CopyList<D>,
    unpack: U,
    /// At most one for each neighbour, ascending.
    sends: Vec<StreamMessage>,
    receives: Vec<StreamMessage>,
    /// The memory of the messages, sent and received.
    _buffers: [D::Buffer; 2],
    /// The point at which the messages are packed: from then on, neighbours are waited for.
    packed: Mark<D>,
    /// The point at which they have arrived, and are unpacked unless `finish` does that.
    arrived: Mark<D>,
    /// Whether only `finish` may unpack, since messages go to borrowed memory.
    pub(crate) only_in_finish: bool,
    transfers: Vec<TransferTrace>,
    /// The tag by which neighbours watch each other.
    tag: u32,
    watch: Watch,
    stage: Stage,
    /// When the library was last asked for errors.
    last_check: Instant,
}

/// What the host has put into the stream of the current exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing, or the exchange is over.
    Over,
    /// Nothing that waits for neighbours.
    Begun,
    /// The messages, perhaps only in part.
    Partly,
    /// All of it.
    Put,
}

/// The time between two questions to the library whether an exchange has failed.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// An exchange whose unpacking is still to be [bound](UnboundExchange::bind_unpacking).
pub(crate) type UnboundExchange<D> = StreamExchange<D, Vec<CopyItem>>;

/// Binds the messages of `sets` that streams exchange in a group whose ranks watch each other by the tag of `group`, all but
/// their unpacking; `None` if there are none.
pub(crate) fn bind_stream_messages<D: Device>(
    &Binding { device, fields, trace, .. }: &Binding<'_, D>,
    sets: &MessageSets,
    group: Option<(Arc<SharedGroup<D>>, u32)>,
    marks: &mut Marks<D>,
) -> Result<Option<UnboundExchange<D>>, DeviceError> {
    let (sent, received) = (&sets.sent_by_streams, &sets.received_by_streams);
    let Some((group, tag)) = group.filter(|_| !sent.messages.is_empty() || !received.messages.is_empty())
    else {
        return Ok(None);
    };
    let allocate = |set: &MessageSet| device.allocate(set.bytes, MemoryKind::Device);
    let buffers = [allocate(sent)?, allocate(received)?];
    let [to, from] = buffers.each_ref().map(|buffer| buffer.pointer());
    let pack = CopyList::bind(device, Purpose::Packing, sent.copies(fields, to, Direction::Send)?, None)?;
    let in_buffer = |set: &MessageSet, begin: Pointer| -> Vec<StreamMessage> {
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
    let transfers = to_peers.chain(from_peers).collect();
    Ok(Some(StreamExchange {
        group,
        pack,
        unpack: received.copies(fields, from, Direction::Receive)?,
        sends,
        receives,
        _buffers: buffers,
        packed: marks.mark()?,
        arrived: marks.mark()?,
        only_in_finish: received.messages.iter().any(|message| received.is_borrowed(message, fields)),
        transfers,
        tag,
        watch: Watch::default(),
        stage: Stage::Over,
        last_check: Instant::now(),
    }))
}

impl<D: Device> UnboundExchange<D> {
    /// The copies that unpack the messages; others may be added.
    pub(crate) fn unpacking(&mut self) -> &mut Vec<CopyItem> {
        &mut self.unpack
    }

    pub(crate) fn bind_unpacking(self, device: &D) -> Result<StreamExchange<D>, DeviceError> {
        let StreamExchange { group, pack, unpack, sends, receives, _buffers, packed, arrived, .. } = self;
        let StreamExchange { only_in_finish, transfers, tag, watch, stage, last_check, .. } = self;
        Ok(StreamExchange {
            group,
            pack,
            unpack: CopyList::bind(device, Purpose::Unpacking, unpack, None)?,
            sends,
            receives,
            _buffers,
            packed,
            arrived,
            only_in_finish,
            transfers,
            tag,
            watch,
            stage,
            last_check,
        })
    }
}

impl<D: Device> StreamExchange<D> {
    pub(crate) fn open(&mut self, device: &D, transport: &dyn Transport) -> Result<(), TransportError> {
        let messages = self.sends.iter().chain(&self.receives);
        let mut peers: Vec<usize> = messages.map(|message| message.peer).collect();
        peers.sort_unstable();
        peers.dedup();
        self.watch = Watch::open(transport, device.id(), &peers, self.tag)?;
        Ok(())
    }

    /// Puts an exchange into the stream of `lane`. Waits for no rank.
    ///
    /// # Safety
    /// Until the exchange is over, no other work writes the fields or uses the halo cells that are filled.
    pub(crate) unsafe fn start(&mut self, lane: &Lane<'_, D>) -> Result<(), ExchangeError> {
        self.stage = Stage::Begun;
        self.transfers.iter_mut().for_each(TransferTrace::open);
        self.check_group()?;
        self.watch.begin(lane.transport)?;
        self.last_check = Instant::now();
        // SAFETY: the caller guarantees it; messages that were packed before are sent, since that is in this stream, too.
        unsafe { self.pack.run(lane)? };
        self.packed.record(lane.device, lane.stream)?;
        self.transfers.iter_mut().for_each(TransferTrace::begin);
        self.stage = Stage::Partly;
        // SAFETY: the buffers hold all messages apart. They live until the part is dropped, which has waited for the
        // stream, or aborted the group and then waited. Nothing else uses them.
        let put = unsafe { self.group.messages.exchange(&self.sends, &self.receives, lane.stream) };
        put.map_err(|error| self.reason(error, lane.transport))?;
        if !self.only_in_finish {
            // SAFETY: as above; the messages have arrived when the stream gets there, and this comes before the next exchange,
            // which overwrites them: that is in this stream, too.
            unsafe { self.unpack.run(lane)? };
        }
        self.arrived.record(lane.device, lane.stream)?;
        self.stage = Stage::Put;
        Ok(())
    }

    /// Unpacks in the stream of `lane`, unless `start` has put that into the part's own stream.
    ///
    /// # Safety
    /// The messages have arrived when the stream of `lane` gets there. Nothing else uses the halo cells that they fill. The
    /// next exchange comes after this.
    pub(crate) unsafe fn finish(&self, lane: &Lane<'_, D>) -> Result<(), DeviceError> {
        // SAFETY: the caller guarantees it.
        if self.only_in_finish { unsafe { self.unpack.run(lane) } } else { Ok(()) }
    }

    /// Whether the exchange is over, but for what `finish` does. Does not block.
    pub(crate) fn advance(&mut self, device: &D, transport: &dyn Transport) -> Result<bool, ExchangeError> {
        if self.stage == Stage::Over {
            return Ok(true);
        }
        let is_over = self.arrived.is_reached(device)?;
        // Afterwards: the stream also goes on if the group is aborted.
        self.check_group()?;
        if is_over {
            self.stage = Stage::Over;
            self.transfers.iter_mut().for_each(TransferTrace::end);
            return Ok(true);
        }
        if self.last_check.elapsed() >= CHECK_INTERVAL {
            self.last_check = Instant::now();
            self.group.messages.check().map_err(|error| self.reason(error, transport))?;
            if self.packed.is_reached(device)? {
                self.watch.check(transport)?;
            }
        }
        Ok(false)
    }

    /// Whether the host knows that the exchange is over, or there is none.
    pub(crate) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether the device is still busy with the work before, or packs.
    pub(crate) fn is_on_device(&self, device: &D) -> bool {
        // An error is found by `advance`.
        self.stage == Stage::Put && !self.packed.is_reached(device).unwrap_or(true)
    }

    /// The neighbours that may be missing, each also in words: the library does not tell which of them are.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (usize, String)> {
        let put = self.stage == Stage::Put;
        let receives = self.receives.iter().map(|message| message.peer);
        let is_sender = |peer: &usize| self.receives.iter().any(|message| message.peer == *peer);
        let receivers = self.sends.iter().map(|message| message.peer).filter(move |peer| !is_sender(peer));
        let from = receives.map(|peer| (peer, format!("the message in a stream from rank {peer}")));
        let to = receivers
            .map(|peer| (peer, format!("rank {peer}, which has not taken our message in a stream yet")));
        from.chain(to).filter(move |_| put)
    }

    pub(crate) fn fail(&mut self) {
        self.transfers.iter_mut().for_each(TransferTrace::fail);
    }

    /// Ends the exchange in flight, and tells the neighbours. The stream goes on soon. Does not block.
    pub(crate) fn stop(&mut self, device: &D, transport: &dyn Transport) {
        let waits = match self.stage {
            Stage::Over | Stage::Begun => false,
            Stage::Partly => true,
            Stage::Put => !self.arrived.is_reached(device).unwrap_or(false),
        };
        if waits {
            self.group.abort();
        }
        self.watch.close(transport, self.stage != Stage::Over);
        self.stage = Stage::Over;
    }

    /// The reason for an error of the library, which does not tell the neighbour that was lost.
    fn reason(&self, error: DeviceError, transport: &dyn Transport) -> ExchangeError {
        match self.watch.find_left(transport) {
            Ok(Some(left)) => left.into(),
            Ok(None) | Err(_) => error.into(),
        }
    }

    fn check_group(&self) -> Result<(), ExchangeError> {
        if !self.group.is_aborted() {
            return Ok(());
        }
        let why = "messages in streams were ended after another exchange of the same communicator and device had failed";
        Err(ExchangeError::Poisoned(why.into()))
    }
}
