//! Building the part of a device: its messages, buffers, windows, and all copies of later exchanges.

use std::sync::Arc;

use super::fields::{BuildError, DeviceMemory, PartDevice, WORD_BYTES};
use super::message_sets::MessageSets;
use super::messages::{Channels, bind_messages};
use super::offer::PartWays;
use super::own_cells::own_cell_copies;
use super::stream_messages::bind_stream_messages;
use super::windows::{BoundWindows, bind_windows};
use crate::device::{
    Buffer, Device, DeviceError, DeviceId, DeviceInfo, MemoryKind, StreamGroup, StreamMessagesOffer,
};
use crate::exchange::options::Traffic;
use crate::exchange::run::buffers::Staging;
use crate::exchange::run::copy_list::{CopyList, Purpose, bytes};
use crate::exchange::run::device_user::DeviceUser;
use crate::exchange::run::mark::Marks;
use crate::exchange::run::part::{DevicePart, Part, PartState};
use crate::exchange::run::remote_writes::RemoteWrites;
use crate::exchange::run::stream_group::{AnyGroup, SharedGroup};
use crate::exchange::run::stream_windows::{ReachedWords, StreamWindows, StreamWord};
use crate::exchange::run::streams::OwnStreams;
use crate::exchange::run::trace::{ExchangeTrace, PartTrace};
use crate::exchange::run::unpacked::Unpacked;
use crate::field::BoundField;
use crate::pattern::Pattern;
use crate::transport::SharedMemory;

/// Maximum size in bytes of a rank's copies to itself that are merged into the unpacking on asynchronous devices. For
/// so few bytes, a launch of their own would take as long as the copies.
const OWN_BYTES_WITH_UNPACKING: usize = 1 << 20;

impl<D: Device> PartDevice for D {
    fn info(&self) -> &DeviceInfo {
        Device::info(self)
    }

    fn reaches(&self, other: DeviceId) -> Result<bool, DeviceError> {
        Device::reaches(self, other)
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceMemory, DeviceError> {
        Ok(memory_of(Device::allocate(self, bytes, MemoryKind::Device)?))
    }

    unsafe fn import(&self, token: &[u8]) -> Result<DeviceMemory, DeviceError> {
        // SAFETY: the caller guarantees it.
        Ok(memory_of(unsafe { Device::import(self, token)? }))
    }

    fn stream_word(&self) -> Result<Option<StreamWord>, DeviceError> {
        if !Device::info(self).capabilities.stream_words {
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
        let registered = unsafe { self.register_words(pointer, WORD_BYTES, Arc::new(memory))? };
        // SAFETY: shared memory is 0 at first, and nothing but the word is in this.
        Ok(unsafe { StreamWord::new(pointer, Arc::from(registered)) })
    }

    fn offer_stream_messages(&self) -> Result<StreamMessagesOffer, DeviceError> {
        Device::offer_stream_messages(self)
    }

    fn stream_messages_token(&self) -> Result<Vec<u8>, DeviceError> {
        Device::stream_messages_token(self)
    }

    fn join_stream_messages(&self, group: &StreamGroup<'_>) -> Result<Arc<dyn AnyGroup>, DeviceError> {
        let joined = Device::join_stream_messages(self, group)?;
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
        Ok(Box::new(build(self, fields, pattern, tag, &ways, trace)?))
    }
}

fn memory_of<B: Buffer + 'static>(buffer: B) -> DeviceMemory {
    DeviceMemory { pointer: buffer.pointer(), bytes: buffer.bytes(), owner: Arc::new(buffer) }
}

fn build<D: Device>(
    device: &D,
    fields: &[(usize, BoundField)],
    pattern: &Pattern,
    tag: u32,
    ways: &PartWays,
    trace: Option<&ExchangeTrace>,
) -> Result<DevicePart<D>, BuildError> {
    let comm = pattern.comm();
    // Dropped last, if anything fails.
    let user = DeviceUser::new(device.id(), comm);
    let transport = &**comm.transport();
    // Also for the transport, which may look at memory of the device when channels are opened.
    let _attached = device.attach()?;
    let transport_uses_device = transport.info().takes_memory_of(&device.info().id);
    let reached = device.info().host_accessible || transport_uses_device;
    let sets = MessageSets::new(fields, pattern, ways, reached);
    let staging = Staging::new(device.info(), reached, ways.moved_from);
    let mut streams = OwnStreams::new(device)?;
    if sets.groups.len() > 1
        && staging.overlaps()
        && sets.groups.iter().any(|group| staging.batch(group.in_buffer()).is_moved())
    {
        streams.add_moves(device)?;
    }
    // The copies of own cells, two lists of unpacking, packing for streams, up to two windows from each neighbour, packing
    // and moving, and received chunks.
    let launches = 4 + ways.receives.len() * 2 + sets.groups.len() * 2 + sets.chunks.messages.len();
    let trace = PartTrace::new(trace, device, &streams, launches)?;
    let BoundWindows { windows, lent, borrowed, mut direct, packed, shared_bytes, direct_bytes } =
        bind_windows(device, fields, pattern, ways, &trace)?;
    let mut own_cells = own_cell_copies(fields, pattern)?;
    let local_bytes = bytes(&own_cells);
    let traffic = Traffic { shared_bytes, direct_bytes, local_bytes, ..sets.traffic() };
    let in_place = sets.fields_in_place();
    let mut marks = Marks::new(device);
    let streams_of = ways.streams.as_ref().and_then(|(group, tag)| {
        // The group was joined with this device.
        let group = Arc::clone(group).into_any().downcast::<SharedGroup<D>>().ok()?;
        Some((group, *tag))
    });
    let mut stream_messages = bind_stream_messages(device, fields, &sets, streams_of, &mut marks, &trace)?;
    let mut messages = bind_messages(device, fields, sets, packed, &staging, &mut marks)?;
    let with_unpacking = device.info().asynchronous && local_bytes <= OWN_BYTES_WITH_UNPACKING;
    if with_unpacking && !messages.unpack.is_empty() {
        messages.unpack.append(&mut own_cells);
    } else if with_unpacking && !direct.is_empty() {
        direct.append(&mut own_cells);
    } else if with_unpacking && let Some(messages) = &mut stream_messages {
        messages.unpack.append(&mut own_cells);
    }
    let first_pack = messages.groups[0].pack.first().map_or(0, CopyList::bytes);
    let largest = first_pack.max(bytes(&own_cells)).max(bytes(&messages.unpack)).max(direct_bytes);
    streams.drop_immediate_if_slower(device, largest, if comm.has_threads() { comm.size() } else { 1 });
    let stream_windows = if lent.is_empty() && borrowed.is_empty() {
        None
    } else {
        let copies = CopyList::bind(device, Purpose::Unpacking, direct, None)?;
        let progress = [ReachedWords::new(&mut marks)?, ReachedWords::new(&mut marks)?];
        let (stop, never) = (marks.word()?, device.create_event(false)?);
        Some(StreamWindows::new(lent, borrowed, copies, progress, stop, never))
    };
    let unpack_streams =
        stream_messages.as_mut().map(|messages| messages.bind_unpacking(device)).transpose()?;
    let own_cells = CopyList::bind(device, Purpose::OwnCells, own_cells, None)?;
    let (before, moved) = (device.create_event(false)?, device.create_event(false)?);
    let unpacked = Unpacked::new(device, fields)?;
    let begun = if device.info().capabilities.stream_words { Some(marks.mark()?) } else { None };
    let remote_writes = RemoteWrites::of(device, transport, messages.are_received())?;
    let channels = Channels { transport, tag, chunk_tag: ways.chunk_tag };
    let mut messages = match messages.open(device, fields, in_place, &channels, &trace) {
        Ok(messages) => messages,
        Err(error) => {
            windows.close(transport);
            return Err(error);
        }
    };
    let opened =
        stream_messages.zip(unpack_streams).map(|(bound, unpack)| bound.open(device, unpack, transport));
    let stream_exchange = match opened.transpose() {
        Ok(opened) => opened,
        Err(error) => {
            messages.close(transport);
            windows.close(transport);
            return Err(error.into());
        }
    };
    Ok(DevicePart {
        device: device.clone(),
        captured: None,
        streams,
        messages,
        windows,
        stream_windows,
        stream_exchange,
        ends_in_stream: false,
        own_cells,
        bases: Vec::new(),
        traffic,
        round: 0,
        before,
        begun,
        finished_on: None,
        moved,
        unpacked,
        state: PartState::Idle,
        transport_uses_device,
        remote_writes,
        gate: None,
        trace,
        user,
        late_copies: None,
        deferred_frees: None,
    })
}
