//! Fields in memory that neighbours reach: lending our own, with handles by which other processes can map them, and mapping
//! those of neighbours.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{KeptMessage, ReleaseFlag, Segment};
use crate::device::{DeviceError, Pointer};
use crate::element::ElementType;
use crate::exchange::cells::Neighbour;
use crate::exchange::cells::packed::MessageSet;
use crate::exchange::options::Way;
use crate::exchange::ways::offer::{FieldHandle, LentBlock, LentFields, MemoryToken, lent_blocks};
use crate::exchange::ways::{DeviceMemory, PartFields};
use crate::field::{BlockLayout, BoundField, End, extents_of, program_ranges, ranges_of};
use crate::log;
use crate::pattern::{Pattern, Piece};
use crate::transport::{Lease, SharedMemory, TransportError, Window};

/// A neighbour's field, mapped by this process.
pub(crate) struct MappedField {
    pub(crate) blocks: Vec<LentBlock>,
    /// Owns the mapping.
    pub(crate) owner: Arc<dyn Any + Send + Sync>,
}

impl PartFields {
    /// Returns a handle by which other processes of this node can map a field at one end; `None` if they cannot map all
    /// cells that are `sent`.
    pub(crate) fn field_handle(&self, field: &BoundField, end: End, sent: &[Piece]) -> Option<FieldHandle> {
        let (storage, blocks) = (field.storage_at(end)?, field.at(end).0);
        if self.device.info().runs_on_host() {
            let Lease { memory, token, .. } = storage.lease()?;
            let blocks = blocks_from(memory.pointer(), blocks);
            let own = sent.iter().filter(|piece| field.block(end, piece.source_domain).is_some());
            let all = shares(memory, own, (field.first, &blocks), field.element);
            return all.then(|| FieldHandle { memory: MemoryToken::Shared(token.clone()), blocks });
        }
        let memory = storage.allocated().filter(|_| self.device.exports_memory())?;
        match memory.export() {
            Ok(token) => Some(FieldHandle {
                memory: MemoryToken::Exported(self.device.info().id.backend.to_string(), token),
                blocks: blocks_from(memory.begin(), blocks),
            }),
            Err(DeviceError::Unsupported { .. }) => None,
            Err(error) => {
                log::warning(format_args!(
                    "sending a field to other processes in messages: its memory cannot be exported: {error}"
                ));
                None
            }
        }
    }

    /// Maps a field of a neighbour; returns `None` if not all cells that the neighbour sends can be reached.
    pub(crate) fn map_field(
        &self,
        from: Neighbour<'_>,
        position: usize,
        FieldHandle { memory, blocks }: &FieldHandle,
    ) -> Result<Option<MappedField>, TransportError> {
        let on_host = self.device.info().runs_on_host();
        let field = &self.fields[position].1;
        let element = field.element;
        let (begin, owner): (Pointer, Arc<dyn Any + Send + Sync>) = match memory {
            MemoryToken::Shared(token) if on_host => {
                let Some(memory) = from.transport().map(from.peer, token)? else { return Ok(None) };
                let own = |piece: &&Piece| field.block(End::Target, piece.target_domain).is_some();
                if !shares(&memory, from.received().iter().filter(own), (0, blocks), element) {
                    return Ok(None);
                }
                (memory.pointer(), Arc::new(memory))
            }
            MemoryToken::Exported(backend, token)
                if !on_host && *backend == self.device.info().id.backend =>
            {
                // SAFETY: the peer keeps it until we have released it: see `Exported`.
                let memory = match unsafe { self.device.import(token) } {
                    Ok(memory) => memory,
                    Err(DeviceError::Unsupported { .. }) => return Ok(None),
                    Err(error) => {
                        log::warning(format_args!(
                            "receiving a field of rank {} in messages: its memory cannot be imported: {error}",
                            from.peer
                        ));
                        return Ok(None);
                    }
                };
                if !lie_within(memory.bytes, blocks, element) {
                    return Ok(None);
                }
                (memory.pointer, memory.owner)
            }
            _ => return Ok(None),
        };
        let lent = blocks.iter().enumerate().map(|(domain, (offset, layout))| LentBlock {
            field: position,
            domain,
            device: self.device.info().id,
            pointer: begin.offset(*offset as isize),
            layout: layout.clone(),
        });
        Ok(Some(MappedField { blocks: lent.collect(), owner }))
    }
}

impl PartFields {
    /// Lets neighbours on this node map the fields in memory of the program whose pages may be replaced. Describes in words the
    /// first field for which that is refused.
    pub(crate) fn share_in_place(&self, pattern: &Pattern) -> Option<String> {
        if !self.device.info().runs_on_host() || !pattern.has_near_neighbours() {
            return None;
        }
        let transport = &**pattern.comm().transport();
        self.fields.iter().find_map(|(number, field)| {
            let ((blocks, _), storage) = (field.at(End::Source), field.storage_at(End::Source)?);
            let ranges = || program_ranges(pattern, (field.first, blocks), field.element);
            let why = storage.share_in_place(transport, ranges).err()?;
            Some(format!("field {number} has memory that neighbours cannot map: {why}"))
        })
    }
}

/// The offset of each block of a field in bytes from `begin`, and its layout.
fn blocks_from(begin: Pointer, blocks: &[(Pointer, BlockLayout)]) -> Vec<(i64, BlockLayout)> {
    let begin = begin.as_ptr().addr() as i64;
    let from_begin = |pointer: Pointer| pointer.as_ptr().addr() as i64 - begin;
    blocks.iter().map(|(pointer, layout)| (from_begin(*pointer), layout.clone())).collect()
}

/// Whether all elements of all blocks lie within `bytes`.
fn lie_within(bytes: usize, blocks: &[(i64, BlockLayout)], element: ElementType) -> bool {
    let size = element.bytes() as i64;
    blocks.iter().all(|(begin, layout)| {
        let (low, high) = layout.span();
        let end = (high as i64).checked_mul(size).and_then(|high| begin.checked_add(high));
        let begin = (low as i64).checked_mul(size).and_then(|low| begin.checked_add(low));
        begin.is_some_and(|begin| begin >= 0) && end.is_some_and(|end| end <= bytes as i64)
    })
}

/// Whether the shared part of `memory` holds the cells of `pieces`, which are read from these blocks of domains from `first` on.
fn shares<'p>(
    memory: &SharedMemory,
    pieces: impl IntoIterator<Item = &'p Piece> + Clone,
    (first, blocks): (usize, &[(i64, BlockLayout)]),
    element: ElementType,
) -> bool {
    if memory.covers(0..memory.bytes()) {
        return lie_within(memory.bytes(), blocks, element);
    }
    let cover = |ranges: Option<Vec<Range<usize>>>| {
        ranges.is_some_and(|ranges| ranges.into_iter().all(|range| memory.covers(range)))
    };
    let (blocks, bytes) = ((first, blocks), element.bytes());
    cover(extents_of(pieces.clone(), blocks, bytes)) || cover(ranges_of(pieces, blocks, bytes))
}

/// The window on fields of the neighbour, another process, that this rank has mapped: it releases them when the window is
/// dropped. `None` if the memory has no room for its state.
pub(crate) fn window_on(segment: &Segment, mapped: Vec<MappedField>) -> Option<Arc<Window>> {
    let (blocks, owners): (Vec<_>, Vec<_>) =
        mapped.into_iter().map(|MappedField { blocks, owner }| (blocks, owner)).unzip();
    let imported = Imported { memory: owners, released: segment.release_flag()? };
    let blocks = blocks.into_iter().flatten().collect();
    let lent = LentFields { blocks, _owners: vec![Arc::new(imported) as _], ..LentFields::default() };
    segment.window_on_fields(lent)
}

impl PartFields {
    /// Whether this rank can pack into memory that it shares with a neighbour in another process.
    pub(crate) fn packs(&self, to: Neighbour<'_>) -> bool {
        to.is_near() && self.device.info().runs_on_host()
    }

    /// The size of the message in place of the fields that a neighbour copies, in bytes.
    pub(crate) fn kept_bytes(&self, to: Neighbour<'_>, ways: &[Way]) -> usize {
        let order = |position: usize| self.fields[position].1.memory_order();
        MessageSet::of_way(to.peer, (ways, Way::Direct), &self.fields, order, to.sources()).bytes
    }

    /// Allocates the memory for a message in place of the fields that `window` lends to a neighbour in this process. On devices
    /// that work asynchronously there is none: a neighbour's progress thread copies from the fields.
    pub(crate) fn keep_message(&self, to: Neighbour<'_>, ways: &[Way], window: &Window) {
        let Some(lent) = window.lent::<LentFields>().filter(|_| self.device.info().runs_on_host()) else {
            return;
        };
        match self.device.allocate(self.kept_bytes(to, ways)) {
            Ok(DeviceMemory { pointer, bytes, owner }) => {
                let _ = lent.kept.set(KeptMessage { memory: (pointer, bytes), _owner: owner });
            }
            Err(error) => {
                log::warning(format_args!(
                    "`finish` waits until rank {} has copied from our fields: {error}",
                    to.peer
                ));
            }
        }
    }

    /// Whether the device reaches all fields that a neighbour in this process lends.
    pub(crate) fn reaches_all(&self, window: &Window) -> bool {
        lent_blocks(window).iter().all(|block| match self.device.reaches(block.device) {
            Ok(reaches) => reaches,
            Err(error) => {
                log::warning(format_args!(
                    "receiving fields of {} in messages: cannot tell if they are reachable: {error}",
                    block.device
                ));
                false
            }
        })
    }

    /// The fields at one end that may be lent: those that own their memory.
    pub(crate) fn lent(&self, end: End) -> LentFields {
        let mut blocks = Vec::new();
        for (position, (_, field)) in self.fields.iter().enumerate() {
            if field.storage_at(end).is_some() {
                blocks.extend(field.at(end).0.iter().enumerate().map(|(domain, (pointer, layout))| {
                    LentBlock {
                        field: position,
                        domain,
                        device: self.device.info().id,
                        pointer: *pointer,
                        layout: layout.clone(),
                    }
                }));
            }
        }
        let word = self.device.stream_word().unwrap_or_else(|error| {
            tracing::info!(%error, "hosts hand fields over: no word for streams");
            None
        });
        LentFields { blocks, word, kept: OnceLock::new(), _owners: self.owners() }
    }

    /// The owners of the memory of the fields.
    pub(crate) fn owners(&self) -> Vec<Arc<dyn Any + Send + Sync>> {
        self.fields
            .iter()
            .flat_map(|(_, field)| field.storages().cloned())
            .map(|storage| storage as _)
            .collect()
    }

    /// The owners of the memory of the fields, for a neighbour that maps it by `segment`: memory of a device is kept until
    /// the neighbour has released it.
    pub(crate) fn owners_until_released(&self, segment: &Segment) -> Vec<Arc<dyn Any + Send + Sync>> {
        match segment.release_flag() {
            Some(released) if !self.device.info().runs_on_host() => {
                vec![Arc::new(Exported { memory: self.owners(), released }) as _]
            }
            // Memory of the host stays valid as long as one of the processes has mapped it.
            _ => self.owners(),
        }
    }
}

// Device memory that one process exports and another imports.
//
// A driver must not free memory that another process still has mapped. So the reader sets a flag, in memory that both
// share, when it has released the memory, and the owner keeps the memory until then. Neither waits for the other:
// memory that cannot be freed yet goes into a list, which is checked whenever an exchange is bound or dropped.

/// The owners of some memory.
type Owners = Vec<Arc<dyn Any + Send + Sync>>;

/// Memory of another process, mapped by the reader. Dropping it releases the memory.
pub(crate) struct Imported {
    pub(in crate::exchange::ways) memory: Owners,
    pub(in crate::exchange::ways) released: ReleaseFlag,
}

impl Drop for Imported {
    fn drop(&mut self) {
        self.memory.clear();
        self.released.set();
    }
}

/// Memory that another process has mapped, kept by the owner. It outlives this value until the reader has released it.
pub(crate) struct Exported {
    pub(in crate::exchange::ways) memory: Owners,
    pub(in crate::exchange::ways) released: ReleaseFlag,
}

/// Memory that its owner has dropped but the reader has not yet released.
static UNRELEASED: Mutex<Vec<Exported>> = Mutex::new(Vec::new());

impl Drop for Exported {
    fn drop(&mut self) {
        if self.memory.is_empty() {
            return;
        }
        let exported = Exported { memory: std::mem::take(&mut self.memory), released: self.released.clone() };
        UNRELEASED.lock().unwrap_or_else(PoisonError::into_inner).push(exported);
        free_released();
    }
}

/// Frees memory that readers have released.
pub(crate) fn free_released() {
    let mut unreleased = UNRELEASED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut released: Vec<Exported> =
        unreleased.extract_if(.., |exported| exported.released.is_set()).collect();
    drop(unreleased);
    // Freed here, so that dropping them does not add them to the list again.
    released.iter_mut().for_each(|exported| exported.memory.clear());
}
