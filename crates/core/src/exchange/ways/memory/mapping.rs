//! Fields in memory that other processes of the node can map: handles of our own fields, and mapping those of
//! neighbours.

use std::any::Any;
use std::sync::Arc;

use crate::device::{DeviceError, Pointer};
use crate::element::ElementType;
use crate::exchange::ways::fields::PartFields;
use crate::exchange::ways::offer::{FieldHandle, LentBlock, MemoryToken};
use crate::field::{BlockLayout, BoundField, ranges_of};
use crate::log;
use crate::pattern::{Pattern, Piece};
use crate::transport::{Lease, SharedMemory, TransportError};

/// A neighbour's field, mapped by this process.
pub(crate) struct MappedField {
    pub(crate) blocks: Vec<LentBlock>,
    /// Owns the mapping.
    pub(crate) owner: Arc<dyn Any + Send + Sync>,
}

impl PartFields {
    /// Returns a handle by which other processes of this node can map a field; `None` if they cannot map all cells that
    /// are `sent`.
    pub(crate) fn field_handle(&self, field: &BoundField, sent: &[Piece]) -> Option<FieldHandle> {
        let storage = field.storage.as_ref()?;
        if self.device.info().runs_on_host() {
            let Lease { memory, token, .. } = storage.lease()?;
            let blocks = blocks_from(memory.pointer(), field);
            let all = shares(memory, sent, &blocks, field.element);
            return all.then(|| FieldHandle { memory: MemoryToken::Shared(token.clone()), blocks });
        }
        let memory = storage.allocated().filter(|_| self.device.info().capabilities.memory_export)?;
        match memory.export() {
            Ok(token) => Some(FieldHandle {
                memory: MemoryToken::Exported(self.device.info().id.backend.to_string(), token),
                blocks: blocks_from(memory.begin(), field),
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

    /// Maps a field of `peer`; returns `None` if not all cells that the peer sends can be reached.
    pub(crate) fn map_field(
        &self,
        pattern: &Pattern,
        peer: usize,
        position: usize,
        FieldHandle { memory, blocks }: &FieldHandle,
    ) -> Result<Option<MappedField>, TransportError> {
        let on_host = self.device.info().runs_on_host();
        let element = self.fields[position].1.element;
        let (begin, owner): (Pointer, Arc<dyn Any + Send + Sync>) = match memory {
            MemoryToken::Shared(token) if on_host => {
                let Some(memory) = pattern.comm().transport().map(peer, token)? else { return Ok(None) };
                let pieces = pattern.receives().get(&peer).map_or(&[][..], Vec::as_slice);
                if !shares(&memory, pieces, blocks, element) {
                    return Ok(None);
                }
                (memory.pointer(), Arc::new(memory))
            }
            MemoryToken::Exported(backend, token)
                if !on_host && *backend == self.device.info().id.backend =>
            {
                // SAFETY: the peer keeps it until we have released it: see `exported`.
                let memory = match unsafe { self.device.import(token) } {
                    Ok(memory) => memory,
                    Err(error) => {
                        log::warning(format_args!(
                            "receiving a field of rank {peer} in messages: its memory cannot be imported: {error}"
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

/// The offset of each block of a field in bytes from `begin`, and its layout.
fn blocks_from(begin: Pointer, field: &BoundField) -> Vec<(i64, BlockLayout)> {
    let begin = begin.as_ptr().addr() as i64;
    let from_begin = |pointer: Pointer| pointer.as_ptr().addr() as i64 - begin;
    field.blocks.iter().map(|(pointer, layout)| (from_begin(*pointer), layout.clone())).collect()
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

/// Whether the shared part of `memory` holds the cells of `pieces`.
fn shares(
    memory: &SharedMemory,
    pieces: &[Piece],
    blocks: &[(i64, BlockLayout)],
    element: ElementType,
) -> bool {
    if memory.covers(0..memory.bytes()) {
        return lie_within(memory.bytes(), blocks, element);
    }
    let ranges = ranges_of(pieces, blocks, element.bytes());
    ranges.is_some_and(|ranges| ranges.into_iter().all(|range| memory.covers(range)))
}
