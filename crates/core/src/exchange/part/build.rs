//! Building the part of a device: its messages, buffers, windows, and all copies of later exchanges.

use std::any::Any;
use std::sync::Arc;

use super::host::HostPart;
use super::stream::{Points, StreamPart, Ways};
use crate::device::{
    Buffer, Device, DeviceError, DeviceId, DeviceInfo, Engine, MemoryKind, StreamGroup, StreamMessagesOffer,
    StreamMessaging, offered,
};
use crate::exchange::cells::packed::MessageSet;
use crate::exchange::options::Traffic;
use crate::exchange::ways::accumulate::lent::Accumulation;
use crate::exchange::ways::memory::bind::{BoundWindows, bind_windows};
use crate::exchange::ways::memory::windows::Windows;
use crate::exchange::ways::messages::MessageSets;
use crate::exchange::ways::messages::bind::{BoundMessages, Channels, bind_messages};
use crate::exchange::ways::messages::run::RemoteWrites;
use crate::exchange::ways::offer::PartWays;
use crate::exchange::ways::stream_messages::run::{StreamExchange, UnboundExchange, bind_stream_messages};
use crate::exchange::ways::stream_messages::{AnyGroup, SharedGroup};
use crate::exchange::ways::words::windows::{StreamWindows, StreamWord};
use crate::exchange::ways::{Binding, BuildError, DeviceMemory, PartDevice, WORD_BYTES};
use crate::exchange::work::copy_list::{CopyList, Purpose, Staging, bytes};
use crate::exchange::work::mark::{Marks, words_of};
use crate::exchange::work::streams::{DeviceUser, OwnStreams};
use crate::exchange::work::trace::{ExchangeTrace, PartTrace};
use crate::exchange::work::{HostWay, Part};
use crate::field::BoundField;
use crate::pattern::Pattern;
use crate::transport::SharedMemory;

/// Maximum size in bytes of a rank's copies to itself that are merged into the unpacking on asynchronous devices. For
/// so few bytes, a launch of their own would take as long as the copies.
const OWN_BYTES_WITH_UNPACKING: usize = 1 << 20;

impl<D: Device> Engine<D> {
    /// The engine of this device. Not for a device that another one wraps: exchanges would not go through the other one.
    pub fn of(device: &D) -> Engine<D> {
        let engine: Arc<dyn PartDevice> = Arc::new(device.clone());
        Engine::new(engine)
    }
}

impl<D: Device> PartDevice for D {
    fn info(&self) -> &DeviceInfo {
        Device::info(self)
    }

    fn combines(&self) -> bool {
        self.combining().is_some()
    }

    fn has_words(&self) -> bool {
        self.stream_words().is_some()
    }

    fn exports_memory(&self) -> bool {
        self.memory_export().is_some()
    }

    fn has_stream_messages(&self) -> bool {
        self.stream_messaging().is_some()
    }

    fn reaches(&self, other: DeviceId) -> Result<bool, DeviceError> {
        Device::reaches(self, other)
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceMemory, DeviceError> {
        Ok(memory_of(Device::allocate(self, bytes, MemoryKind::Device)?))
    }

    unsafe fn import(&self, token: &[u8]) -> Result<DeviceMemory, DeviceError> {
        let export = offered(self.memory_export(), "memory of other processes", self.id())?;
        // SAFETY: the caller guarantees it.
        Ok(memory_of(unsafe { export.import(token)? }))
    }

    fn stream_word(&self) -> Result<Option<StreamWord>, DeviceError> {
        if !self.has_words() {
            return Ok(None);
        }
        let word = Marks::new(self).word()?;
        // SAFETY: a new word is 0, and is accessed as an atomic or by streams alone; its memory is its owner's.
        Ok(Some(unsafe { StreamWord::new(word.pointer(), Arc::new(word)) }))
    }

    fn shared_stream_word(&self, memory: SharedMemory) -> Result<StreamWord, DeviceError> {
        let pointer = memory.pointer();
        if !memory.covers(0..WORD_BYTES) || !pointer.as_ptr().addr().is_multiple_of(WORD_BYTES) {
            let found = format!("{memory:?}");
            return Err(DeviceError::invalid("shared memory for a word", "a whole page", found));
        }
        // SAFETY: the mapping lives as long as its owner; only this call registers the page.
        let registered = unsafe { words_of(self)?.register_words(pointer, WORD_BYTES, Arc::new(memory))? };
        // SAFETY: shared memory is 0 at first, and nothing but the word is in this.
        Ok(unsafe { StreamWord::new(pointer, Arc::from(registered)) })
    }

    fn offer_stream_messages(&self) -> Result<StreamMessagesOffer, DeviceError> {
        messaging_of(self)?.offer_stream_messages()
    }

    fn stream_messages_token(&self) -> Result<Vec<u8>, DeviceError> {
        messaging_of(self)?.stream_messages_token()
    }

    fn join_stream_messages(&self, group: &StreamGroup<'_>) -> Result<Arc<dyn AnyGroup>, DeviceError> {
        let joined = messaging_of(self)?.join_stream_messages(group)?;
        Ok(Arc::new(SharedGroup::<D>::new(joined)))
    }

    fn build(
        &self,
        fields: &[(usize, BoundField)],
        pattern: &Pattern,
        tag: u32,
        ways: PartWays,
        trace: Option<&ExchangeTrace>,
    ) -> Result<Box<dyn Part>, BuildError> {
        let (device, comm) = (self, pattern.comm());
        // Dropped last, if anything fails.
        let user = DeviceUser::new(device.id(), comm);
        let transport = &**comm.transport();
        // Also for the transport, which may look at memory of the device when channels are opened.
        let _attached = device.attach()?;
        let info = Device::info(device);
        let transport_uses_device = transport.info().takes_memory_of(&info.id);
        let reached = info.host_accessible || transport_uses_device;
        let sets = MessageSets::new(fields, pattern, &ways, reached);
        let staging = Staging::new(info, reached, ways.moved_from);
        let mut streams = own_streams(device, &sets, &staging)?;
        let trace = PartTrace::new(trace, device, &streams, most_launches(&ways, &sets))?;
        let binding = Binding { device, fields, pattern, trace: &trace };
        let mut marks = Marks::new(device);
        let bound = BoundCopies::bind(&binding, (&ways, sets, &staging), &mut marks)?;
        let (traffic, channels) = (bound.traffic, Channels { transport, tag, chunk_tag: ways.chunk_tag });
        if !info.asynchronous {
            let Ways { mut messages, windows, own_cells, .. } = bound.open(&binding, &channels)?;
            let mut ways: Vec<Box<dyn HostWay<D>>> = Vec::new();
            if let Some(combining) = messages.combining.take() {
                ways.push(Box::new(Accumulation::new(messages, combining, windows.lent)));
            } else {
                // Messages first: shared messages are packed with them, before their windows are opened.
                if !messages.are_none() {
                    ways.push(Box::new(messages));
                }
                if !windows.are_none() {
                    ways.push(Box::new(windows));
                }
            }
            let (device, stream) = (device.clone(), streams.now().clone());
            return Ok(Box::new(HostPart::new(device, stream, (ways, own_cells), traffic, trace)));
        }
        let ranks = if comm.has_threads() { comm.size() } else { 1 };
        streams.drop_immediate_if_slower(device, bound.largest, ranks);
        // Before channels are open: if these fail, there is nothing to close.
        let points = Points::new(device, fields, &mut marks)?;
        let remote_writes = RemoteWrites::of(device, transport, bound.messages.are_received())?;
        let ways = bound.open(&binding, &channels)?;
        let parts = (streams, ways, points, remote_writes);
        Ok(Box::new(StreamPart::new(device.clone(), parts, transport_uses_device, traffic, trace, user)))
    }
}

fn messaging_of<D: Device>(device: &D) -> Result<&dyn StreamMessaging<D::Stream>, DeviceError> {
    offered(device.stream_messaging(), "messages in streams", device.id())
}

fn memory_of<B: Buffer + 'static>(buffer: B) -> DeviceMemory {
    DeviceMemory { pointer: buffer.pointer(), bytes: buffer.bytes(), owner: Arc::new(buffer) }
}

/// The streams of a part: with one for moves, if chunks are packed while others are moved.
fn own_streams<D: Device>(
    device: &D,
    sets: &MessageSets,
    staging: &Staging,
) -> Result<OwnStreams<D>, DeviceError> {
    let mut streams = OwnStreams::new(device)?;
    let is_moved = |group: &MessageSet| staging.batch(group.in_buffer()).is_moved;
    if sets.groups.len() > 1 && staging.overlaps() && sets.groups.iter().any(is_moved) {
        streams.add_moves(device)?;
    }
    Ok(streams)
}

/// The most launches of an exchange that are timed: the copies of own cells, two lists of unpacking, packing for streams, up
/// to two windows from each neighbour, packing and moving, and received chunks.
fn most_launches(ways: &PartWays, sets: &MessageSets) -> usize {
    4 + ways.receives.len() * 2 + sets.groups.len() * 2 + sets.chunks.messages.len()
}

/// All copies of a part, bound. Its channels are not open yet.
struct BoundCopies<D: Device> {
    windows: Windows<D>,
    words: Option<StreamWindows<D>>,
    messages: BoundMessages<D>,
    stream_messages: Option<StreamExchange<D>>,
    own_cells: CopyList<D>,
    /// The positions of the fields that messages lie in.
    in_place: Vec<usize>,
    traffic: Traffic,
    /// The bytes of the largest list.
    largest: usize,
}

impl<D: Device> BoundCopies<D> {
    fn bind(
        binding: &Binding<'_, D>,
        (ways, sets, staging): (&PartWays, MessageSets, &Staging),
        marks: &mut Marks<D>,
    ) -> Result<BoundCopies<D>, BuildError> {
        let device = binding.device;
        let BoundWindows { windows, lent, borrowed, mut direct, packed, shared_bytes, direct_bytes } =
            bind_windows(binding, ways)?;
        let reversed = binding.pattern.reversal().is_some();
        let mut own_cells = if reversed { Vec::new() } else { binding.own_cell_copies()? };
        let traffic = sets.traffic();
        let in_place = sets.fields_in_place();
        let streams_of = ways.streams.as_ref().map(|(group, tag)| {
            let group: Arc<dyn Any + Send + Sync> = Arc::clone(group) as _;
            let group = group.downcast::<SharedGroup<D>>().map_err(|_| {
                // A communicator keeps one group for each device.
                let expected = "the type of device with which the communicator joined its group";
                DeviceError::invalid("fields whose streams exchange messages", expected, "another type")
            });
            Ok::<_, DeviceError>((group?, *tag))
        });
        let streams_of = streams_of.transpose()?;
        let mut stream_messages = bind_stream_messages(binding, &sets, streams_of, marks)?;
        let mut messages = bind_messages(binding, (ways, sets), packed, staging, marks)?;
        let combining = messages.combining.as_ref();
        let local_bytes = combining.map_or(bytes(&own_cells), |it| it.local_bytes);
        let direct_bytes = combining.map_or(direct_bytes, |it| it.direct_bytes);
        let traffic = Traffic { shared_bytes, direct_bytes, local_bytes, ..traffic };
        if device.info().asynchronous && local_bytes <= OWN_BYTES_WITH_UNPACKING {
            let by_streams = stream_messages.as_mut().map(UnboundExchange::unpacking);
            let unpacking = [Some(&mut messages.unpack), Some(&mut direct), by_streams];
            if let Some(list) = unpacking.into_iter().flatten().find(|list| !list.is_empty()) {
                list.append(&mut own_cells);
            }
        }
        let first_pack = messages.groups[0].pack.first().map_or(0, |list| list.bytes);
        let largest = first_pack.max(bytes(&own_cells)).max(bytes(&messages.unpack)).max(direct_bytes);
        let words = match lent.is_empty() && borrowed.is_empty() {
            true => None,
            false => Some(StreamWindows::bind(device, lent, borrowed, direct, marks)?),
        };
        let stream_messages = stream_messages.map(|it| it.bind_unpacking(device)).transpose()?;
        let own_cells = binding.list(Purpose::OwnCells, own_cells)?;
        Ok(BoundCopies { windows, words, messages, stream_messages, own_cells, in_place, traffic, largest })
    }

    /// Opens the channels. If one cannot be opened, closes those that are open.
    fn open(self, binding: &Binding<'_, D>, channels: &Channels<'_>) -> Result<Ways<D>, BuildError> {
        let BoundCopies { mut windows, words, messages, mut stream_messages, own_cells, in_place, .. } = self;
        let transport = channels.transport;
        let opened = messages.open(binding, in_place, channels).and_then(|mut messages| {
            let watched = stream_messages.as_mut().map_or(Ok(()), |it| it.open(binding.device, transport));
            if watched.is_err() {
                messages.close(transport);
            }
            Ok(watched.map(|()| messages)?)
        });
        if opened.is_err() {
            windows.close(transport);
        }
        Ok(Ways { messages: opened?, windows, words, stream_messages, own_cells })
    }
}
