//! Where fields lie in memory that processes of a node reach, and as a neighbour sees them.

use std::any::Any;
use std::sync::Arc;

use super::fields::PartFields;
use super::offer::{FieldPlace, LentBlock, Token};
use crate::device::{DeviceError, Pointer};
use crate::element::ElementType;
use crate::field::{BlockLayout, BoundField, ranges_of};
use crate::pattern::{Pattern, Piece};
use crate::transport::{Lease, SharedMemory, TransportError};

/// The blocks of a neighbour's field as this process sees them, and what owns their memory here.
type Mapped = (Vec<LentBlock>, Arc<dyn Any + Send + Sync>);

impl PartFields {
    /// Where the blocks of a field lie in memory that processes of this node reach, if all that is sent does.
    pub(crate) fn field_place(&self, field: &BoundField, sent: &[Piece]) -> Option<FieldPlace> {
        let storage = field.storage.as_ref()?;
        if self.device.info().runs_on_host() {
            let Lease { memory, token, .. } = storage.lease()?;
            let blocks = blocks_from(memory.pointer(), field);
            let all = shares(memory, sent, &blocks, field.element);
            return all.then(|| FieldPlace { memory: Token::Shared(token.clone()), blocks });
        }
        let memory = storage.allocated().filter(|_| self.device.info().capabilities.memory_export)?;
        match memory.export() {
            Ok(token) => Some(FieldPlace {
                memory: Token::Exported(self.device.info().id.backend.to_string(), token),
                blocks: blocks_from(memory.begin(), field),
            }),
            Err(DeviceError::Unsupported { .. }) => None,
            Err(error) => {
                tracing::warn!(%error, "other processes get a field in messages, since its memory cannot be exported");
                None
            }
        }
    }

    /// The blocks of a field of `peer` as this process sees them, and what owns their memory here; `None` where they
    /// cannot be reached, or not all that the peer sends.
    pub(crate) fn map_field(
        &self,
        pattern: &Pattern,
        peer: usize,
        position: usize,
        FieldPlace { memory, blocks }: &FieldPlace,
    ) -> Result<Option<Mapped>, TransportError> {
        let on_host = self.device.info().runs_on_host();
        let element = self.fields[position].1.element;
        let (begin, owner): (Pointer, Arc<dyn Any + Send + Sync>) = match memory {
            Token::Shared(token) if on_host => {
                let Some(memory) = pattern.comm().transport().map(peer, token)? else { return Ok(None) };
                let pieces = pattern.receives().get(&peer).map_or(&[][..], Vec::as_slice);
                if !shares(&memory, pieces, blocks, element) {
                    return Ok(None);
                }
                (memory.pointer(), Arc::new(memory))
            }
            Token::Exported(backend, token) if !on_host && *backend == self.device.info().id.backend => {
                // SAFETY: the peer keeps it until we have said that we have let go of it: see `exported`.
                let memory = match unsafe { self.device.import(token) } {
                    Ok(memory) => memory,
                    Err(error) => {
                        tracing::warn!(%error, peer, "a field comes in messages, since its memory cannot be reached");
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
        Ok(Some((lent.collect(), owner)))
    }
}

/// The blocks of a field, counted in bytes from `begin`.
fn blocks_from(begin: Pointer, field: &BoundField) -> Vec<(i64, BlockLayout)> {
    let begin = begin.as_ptr().addr() as i64;
    let from_begin = |pointer: Pointer| pointer.as_ptr().addr() as i64 - begin;
    field.blocks.iter().map(|(pointer, layout)| (from_begin(*pointer), layout.clone())).collect()
}

/// Whether all elements of all blocks lie within so many bytes.
fn lie_within(bytes: usize, blocks: &[(i64, BlockLayout)], element: ElementType) -> bool {
    let size = element.bytes() as i64;
    blocks.iter().all(|(begin, layout)| {
        let (low, high) = layout.span();
        let end = (high as i64).checked_mul(size).and_then(|high| begin.checked_add(high));
        let begin = (low as i64).checked_mul(size).and_then(|low| begin.checked_add(low));
        begin.is_some_and(|begin| begin >= 0) && end.is_some_and(|end| end <= bytes as i64)
    })
}

/// Whether the cells of `pieces` can be read from what is shared of `memory`.
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
