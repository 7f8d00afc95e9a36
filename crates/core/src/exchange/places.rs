//! Where fields lie in memory that processes share, and as a neighbour sees them.

use std::any::Any;
use std::sync::Arc;

use super::plan::PartFields;
use crate::device::{Device, Pointer};
use crate::element::ElementType;
use crate::field::{BlockLayout, BoundField, ranges_of};
use crate::pattern::{Pattern, Piece};
use crate::transport::{Lease, SharedMemory, TransportError, WindowRegion};

/// Where a field lies in shared memory: its token, and for each domain where the first element is, in bytes, and the
/// layout.
pub(super) type FieldPlace = (Vec<u8>, Vec<(i64, BlockLayout)>);

/// The blocks of a neighbour's field as this process sees them, and what owns their memory here.
type Mapped = (Vec<WindowRegion>, Arc<dyn Any + Send + Sync>);

/// Where the blocks of a field lie in shared memory, if all that is sent does.
pub(super) fn field_place(field: &BoundField, sent: &[Piece]) -> Option<FieldPlace> {
    let Lease { memory, token, .. } = field.storage.as_ref()?.lease()?;
    let begin = memory.pointer().as_ptr().addr() as i64;
    let from_begin = |pointer: Pointer| pointer.as_ptr().addr() as i64 - begin;
    let blocks = field.blocks.iter().map(|(pointer, layout)| (from_begin(*pointer), layout.clone()));
    let blocks: Vec<_> = blocks.collect();
    shares(memory, sent, &blocks, field.element).then(|| (token.clone(), blocks))
}

impl<D: Device> PartFields<D> {
    /// The blocks of a field of `peer` as this process sees them, and what owns their memory here; `None` where they
    /// cannot be mapped, or not all that the peer sends.
    pub(super) fn map_field(
        &self,
        pattern: &Pattern,
        peer: usize,
        position: usize,
        (token, blocks): &FieldPlace,
    ) -> Result<Option<Mapped>, TransportError> {
        let Some(memory) = pattern.comm().transport().map(peer, token)? else { return Ok(None) };
        let pieces = pattern.receives().get(&peer).map_or(&[][..], Vec::as_slice);
        if !shares(&memory, pieces, blocks, self.fields[position].1.element) {
            return Ok(None);
        }
        let regions = blocks.iter().enumerate().map(|(domain, (begin, layout))| WindowRegion {
            field: position,
            domain,
            device: self.device.id(),
            pointer: memory.pointer().offset(*begin as isize),
            layout: layout.clone(),
        });
        Ok(Some((regions.collect(), Arc::new(memory))))
    }
}

/// Whether the cells of `pieces` can be read from what is shared of `memory`.
fn shares(
    memory: &SharedMemory,
    pieces: &[Piece],
    blocks: &[(i64, BlockLayout)],
    element: ElementType,
) -> bool {
    if memory.covers(0..memory.bytes()) {
        let bytes = element.bytes() as i64;
        return blocks.iter().all(|(begin, layout)| {
            let (low, high) = layout.span();
            let end = (high as i64).checked_mul(bytes).and_then(|high| begin.checked_add(high));
            let begin = (low as i64).checked_mul(bytes).and_then(|low| begin.checked_add(low));
            begin.is_some_and(|begin| begin >= 0) && end.is_some_and(|end| end <= memory.bytes() as i64)
        });
    }
    let ranges = ranges_of(pieces, blocks, element.bytes());
    ranges.is_some_and(|ranges| ranges.into_iter().all(|range| memory.covers(range)))
}
