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
    /// Set if cells are read from another field.
    pub(crate) source: Option<SourceField>,
    /// The number of its pattern, if the exchange is one of a set of patterns.
    pub(crate) pattern: usize,
    /// The number of the first domain of that pattern, among the domains of all patterns of the set.
    pub(crate) first: usize,
}

/// The field from which cells are read that arrive in another one.
#[derive(Debug, Clone)]
pub(crate) struct SourceField {
    /// As in [`BoundField`].
    pub(crate) anchor: Option<u32>,
    /// As in [`BoundField`].
    pub(crate) blocks: Vec<(Pointer, BlockLayout)>,
    /// As in [`BoundField`].
    pub(crate) storage: Option<Arc<Storage>>,
    /// As in [`BoundField`].
    pub(crate) vector: VectorAxes,
    /// Why the two fields do not belong together, in words.
    pub(crate) misfit: Option<String>,
}

/// Where cells of a field are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Where they are read.
    Source,
    /// Where they are written.
    Target,
}

impl BoundField {
    /// The blocks at one end, and their anchor.
    pub(crate) fn at(&self, end: End) -> (&[(Pointer, BlockLayout)], Option<u32>) {
        match (&self.source, end) {
            (Some(source), End::Source) => (&source.blocks, source.anchor),
            _ => (&self.blocks, self.anchor),
        }
    }

    /// The block for a domain at one end, and the number of its anchor; `None` for a domain of another pattern.
    pub(crate) fn block(&self, end: End, domain: usize) -> Option<(&(Pointer, BlockLayout), Option<u32>)> {
        let (blocks, anchor) = self.at(end);
        let place = domain.checked_sub(self.first)?;
        Some((blocks.get(place)?, anchor.map(|first| first + place as u32)))
    }

    /// The memory at one end, if it lives as long as this.
    pub(crate) fn storage_at(&self, end: End) -> Option<&Arc<Storage>> {
        match (&self.source, end) {
            (Some(source), End::Source) => source.storage.as_ref(),
            _ => self.storage.as_ref(),
        }
    }

    /// The memory of the fields that own theirs.
    pub(crate) fn storages(&self) -> impl Iterator<Item = &Arc<Storage>> {
        self.storage.iter().chain(self.source.iter().filter_map(|source| source.storage.as_ref()))
    }

    /// The axes from the slowest to the fastest in memory, in the largest block that is read.
    pub(crate) fn memory_order(&self) -> [u8; MAX_COPY_AXES] {
        let largest = self.at(End::Source).0.iter().max_by_key(|(_, layout)| layout.allocated().cells());
        largest.map_or(std::array::from_fn(|axis| axis as u8), |(_, layout)| layout.memory_order())
    }
}

impl FieldRef<'_> {
    /// The field as an exchange stores it.
    pub(crate) fn bound(&self) -> BoundField {
        let FieldRef { element, alignment, .. } = *self;
        let (storage, blocks) = (self.storage.cloned(), self.blocks.to_vec());
        BoundField {
            element,
            alignment,
            vector: self.vector.clone(),
            storage,
            anchor: None,
            blocks,
            source: None,
            pattern: 0,
            first: 0,
        }
    }

    /// The field, with cells that are read from `source`, as an exchange stores it.
    pub(crate) fn bound_from(&self, source: FieldRef<'_>, misfit: Option<String>) -> BoundField {
        let (storage, blocks, vector) =
            (source.storage.cloned(), source.blocks.to_vec(), source.vector.clone());
        BoundField {
            source: Some(SourceField { anchor: None, blocks, storage, vector, misfit }),
            ..self.bound()
        }
    }

    /// Why the cells of `source` cannot arrive in this field, in words.
    pub(crate) fn misfit_of(&self, source: &FieldRef<'_>, same_device: bool) -> Option<String> {
        if !same_device {
            return Some("is on another device than its source, expected the same".into());
        }
        if self.element != source.element {
            return Some(format!(
                "holds {} and its source {}, expected the same",
                self.element.in_words(),
                source.element.in_words()
            ));
        }
        None
    }
}
