//! The ways of moving cells, each in a folder: what is done once, when a pattern is bound, and what is done every time.
//!
//! - Here: the fields of one device, what binding needs of the device, and copies within a rank;
//! - `memory`: through memory that the two ranks share: straight from fields, or packed; hosts hand it over;
//! - `words`: straight from fields or into halos; streams hand them over, by words that they write and await;
//! - `messages`: messages of the transport;
//! - `stream_messages`: messages that streams send and receive;
//! - `accumulate`: from halos to their owners, where cells are combined: in messages or through shared memory;
//! - `offer`: what neighbours tell each other about a way.

pub(super) mod accumulate;
pub(super) mod memory;
pub(super) mod messages;
pub(super) mod offer;
pub(super) mod stream_messages;
pub(super) mod words;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use super::cells::side::{PieceCells, Side, fill};
use super::cells::{FieldShape, FieldSignature, Neighbour, misfit, shape};
use super::work::Part;
use super::work::copy_list::{CopyList, Purpose};
use super::work::trace::{ExchangeTrace, PartTrace};
use crate::device::{
    CopyItem, Device, DeviceError, DeviceId, DeviceInfo, Pointer, StreamGroup, StreamMessagesOffer,
};
use crate::field::{BlockLayout, BoundField, End, Storage};
use crate::pattern::Pattern;
use crate::transport::{SharedMemory, TransportError};
use offer::PartWays;
use stream_messages::AnyGroup;
use words::windows::StreamWord;

/// The fields of one device, before they are bound.
pub(crate) struct PartFields {
    pub(crate) device: Arc<dyn PartDevice>,
    /// Each with its number in the exchange.
    pub(crate) fields: Vec<(usize, BoundField)>,
}

/// The operations of a device that binding needs, independent of the device's type.
pub(crate) trait PartDevice: Debug + Send + Sync {
    fn info(&self) -> &DeviceInfo;
    /// Whether it combines what arrives with what is there.
    fn combines(&self) -> bool;
    /// Whether its streams write and await words.
    fn has_words(&self) -> bool;
    /// Whether other processes of the node reach its memory.
    fn exports_memory(&self) -> bool;
    /// Whether its streams may send and receive messages.
    fn has_stream_messages(&self) -> bool;
    /// As [`Device::reaches`].
    fn reaches(&self, other: DeviceId) -> Result<bool, DeviceError>;
    /// As [`Device::allocate`], memory of the device.
    fn allocate(&self, bytes: usize) -> Result<DeviceMemory, DeviceError>;
    /// As [`MemoryExport::import`](crate::device::MemoryExport::import).
    ///
    /// # Safety
    /// As there.
    unsafe fn import(&self, token: &[u8]) -> Result<DeviceMemory, DeviceError>;
    /// A word for streams of this device, and of others of its backend in this process; `None` if it has none.
    fn stream_word(&self) -> Result<Option<StreamWord>, DeviceError>;
    /// A word for streams of this device at the start of shared memory of at least [`WORD_BYTES`] bytes.
    fn shared_stream_word(&self, memory: SharedMemory) -> Result<StreamWord, DeviceError>;
    /// As [`StreamMessaging::offer_stream_messages`](crate::device::StreamMessaging::offer_stream_messages).
    fn offer_stream_messages(&self) -> Result<StreamMessagesOffer, DeviceError>;
    /// As [`StreamMessaging::stream_messages_token`](crate::device::StreamMessaging::stream_messages_token).
    fn stream_messages_token(&self) -> Result<Vec<u8>, DeviceError>;
    /// As [`StreamMessaging::join_stream_messages`](crate::device::StreamMessaging::join_stream_messages).
    fn join_stream_messages(&self, group: &StreamGroup<'_>) -> Result<Arc<dyn AnyGroup>, DeviceError>;
    /// Binds all copies of `fields`, and opens their channels.
    fn build(
        &self,
        fields: &[(usize, BoundField)],
        pattern: &Pattern,
        tag: u32,
        ways: PartWays,
        trace: Option<&ExchangeTrace>,
    ) -> Result<Box<dyn Part>, BuildError>;
}

/// The engine of the device as binding uses it.
pub(crate) fn part_device<D: Device>(device: &D) -> Arc<dyn PartDevice> {
    let engine = device.engine();
    let inner = engine.get::<Arc<dyn PartDevice>>();
    Arc::clone(inner.unwrap_or_else(|| unreachable!("`Engine::of` alone makes engines")))
}

/// The bytes of shared memory with a word: a page of its own, as devices register whole pages.
pub(crate) const WORD_BYTES: usize = 4096;

/// Memory that a device can use: its own, or that of another process.
pub(crate) struct DeviceMemory {
    pub(crate) pointer: Pointer,
    pub(crate) bytes: usize,
    pub(crate) owner: Arc<dyn Any + Send + Sync>,
}

/// Why a part could not be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl PartFields {
    /// Adds a field, with its number in the exchange, to the part of its device.
    pub(crate) fn add(
        parts: &mut Vec<PartFields>,
        device: Arc<dyn PartDevice>,
        number: usize,
        field: BoundField,
    ) {
        match parts.iter_mut().find(|part| part.device.info().id == device.info().id) {
            Some(part) => part.fields.push((number, field)),
            None => parts.push(PartFields { device, fields: vec![(number, field)] }),
        }
    }

    /// The properties of each field that must be the same on all ranks.
    pub(crate) fn signature(&self) -> Vec<FieldSignature> {
        let signatures = self.fields.iter().map(|(number, field)| FieldSignature {
            number: *number,
            element: field.element,
            vector: field.vector.clone(),
            pattern: field.pattern,
        });
        signatures.collect()
    }

    /// The number of each field, that of its pattern, and its shape, which is `None` on a rank without blocks.
    pub(crate) fn shapes(&self, pattern: &Pattern) -> Vec<(usize, usize, Option<FieldShape>)> {
        let first = |field: &BoundField| {
            let of = |pattern: &Pattern, end: &[(Pointer, BlockLayout)]| {
                let pattern = pattern.in_set(field.pattern)?;
                end.first().map(|(_, layout)| shape(pattern, layout))
            };
            of(pattern, &field.blocks).or_else(|| of(pattern.at_source(), field.at(End::Source).0))
        };
        self.fields.iter().map(|(number, field)| (*number, field.pattern, first(field))).collect()
    }

    /// The memory of the fields that own theirs, each once.
    pub(crate) fn storages(&self) -> Vec<Arc<Storage>> {
        let mut all: Vec<Arc<Storage>> = Vec::new();
        for storage in self.fields.iter().flat_map(|(_, field)| field.storages()) {
            if !all.iter().any(|other| Arc::ptr_eq(other, storage)) {
                all.push(Arc::clone(storage));
            }
        }
        all
    }

    /// Whether an exchange can go on to the next axis whenever it is polled, so that halos may be filled axis by axis.
    pub(crate) fn advances_when_polled(&self) -> bool {
        // What arrives in one field cannot go on from another one.
        let goes_on = |field: &BoundField| field.storage.is_some() && field.source.is_none();
        self.device.info().runs_on_host() && self.fields.iter().all(|(_, field)| goes_on(field))
    }

    /// Describes in words the first field that does not fit the pattern.
    pub(crate) fn misfit(&self, pattern: &Pattern) -> Option<String> {
        self.bound_twice()
            .or_else(|| self.fields.iter().find_map(|(number, field)| misfit(pattern, *number, field)))
    }

    /// Describes in words the first field in the memory of another one that is written. Several may have one source.
    fn bound_twice(&self) -> Option<String> {
        let mut all: Vec<(usize, End, &Arc<Storage>)> = Vec::new();
        for (number, field) in &self.fields {
            let source = field.source.as_ref().and_then(|source| source.storage.as_ref());
            all.extend(field.storage.as_ref().map(|storage| (*number, End::Target, storage)));
            all.extend(source.map(|storage| (*number, End::Source, storage)));
        }
        let name = |number: &usize, end: &End| match end {
            End::Target => format!("field {number}"),
            End::Source => format!("the source of field {number}"),
        };
        all.iter().enumerate().find_map(|(index, (number, end, storage))| {
            let is_taken = |(_, other_end, other): &&(usize, End, &Arc<Storage>)| {
                Arc::ptr_eq(other, storage) && (*end == End::Target || *other_end == End::Target)
            };
            let (first, first_end, _) = all[..index].iter().find(is_taken)?;
            let (found, first) = (name(number, end), name(first, first_end));
            Some(format!("{found} is in the same memory as {first}: bind each memory once"))
        })
    }
}

/// The part of a device that is bound.
pub(crate) struct Binding<'b, D: Device> {
    pub(crate) device: &'b D,
    /// Each with its number in the exchange.
    pub(crate) fields: &'b [(usize, BoundField)],
    pub(crate) pattern: &'b Pattern,
    pub(crate) trace: &'b PartTrace<D>,
}

impl<'b, D: Device> Binding<'b, D> {
    pub(crate) fn neighbour(&self, peer: usize) -> Neighbour<'b> {
        Neighbour { pattern: self.pattern, peer }
    }

    /// Binds a list without copies between device and host.
    pub(crate) fn list(&self, purpose: Purpose, items: Vec<CopyItem>) -> Result<CopyList<D>, DeviceError> {
        CopyList::bind(self.device, purpose, items, None)
    }

    /// Returns the copies of the cells that a rank sends to itself.
    pub(crate) fn own_cell_copies(&self) -> Result<Vec<CopyItem>, DeviceError> {
        let mut items = Vec::new();
        for (_, field) in self.fields {
            let received = self.neighbour(self.pattern.comm().rank()).received();
            for piece in
                received.iter().filter(|piece| field.block(End::Target, piece.target_domain).is_some())
            {
                let side = |end: End| Side::of_piece(field, PieceCells::at(end, piece));
                let (source, target) = (side(End::Source).turned(&piece.orientation), side(End::Target));
                fill(&mut items, &source, &target, field, &piece.orientation)?;
            }
        }
        Ok(items)
    }
}
