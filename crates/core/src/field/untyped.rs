//! Fields as an exchange sees them: blocks of memory, without types for element and device.

use std::sync::Arc;

use super::storage::Storage;
use super::{BlockLayout, VectorAxes};
use crate::device::{MAX_COPY_AXES, Pointer};
use crate::element::ElementType;

/// A field as an exchange sees it, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct FieldRef<'f> {
    pub(crate) element: ElementType,
    /// The alignment of the Rust type of the element, in bytes.
    pub(crate) alignment: usize,
    pub(crate) vector: &'f VectorAxes,
    /// As in [`BoundField`].
    pub(crate) storage: Option<&'f Arc<Storage>>,
    /// For each domain the address of the first element, and the layout.
    pub(crate) blocks: &'f [(Pointer, BlockLayout)],
}

/// A field as an exchange stores it.
#[derive(Debug, Clone)]
pub(crate) struct BoundField {
    pub(crate) element: ElementType,
    /// The alignment of the Rust type of the element, in bytes.
    pub(crate) alignment: usize,
    pub(crate) vector: VectorAxes,
    /// Set for memory that lives as long as this; `None` for memory that only `start` and `finish` may touch.
    pub(crate) storage: Option<Arc<Storage>>,
    /// The number of its first block among the blocks of all fields, if the fields may be elsewhere at each start.
    pub(crate) anchor: Option<u32>,
    /// For each domain the address of the first element, and the layout.
    pub(crate) blocks: Vec<(Pointer, BlockLayout)>,
}

impl BoundField {
    /// The axes from the slowest to the fastest in memory, in its largest block.
    pub(crate) fn memory_order(&self) -> [u8; MAX_COPY_AXES] {
        let largest = self.blocks.iter().max_by_key(|(_, layout)| layout.allocated().cells());
        largest.map_or(std::array::from_fn(|axis| axis as u8), |(_, layout)| layout.memory_order())
    }
}

impl FieldRef<'_> {
    /// The field as an exchange stores it.
    pub(crate) fn bound(&self) -> BoundField {
        let FieldRef { element, alignment, .. } = *self;
        let (storage, blocks) = (self.storage.cloned(), self.blocks.to_vec());
        BoundField { element, alignment, vector: self.vector.clone(), storage, anchor: None, blocks }
    }
}
