//! Making fields with other than the default layout.

use std::marker::PhantomData;
use std::ops::Range;

use super::description::{ComponentPlace, Description};
use super::{Field, FieldError};
use crate::device::{Device, MemoryKind};
use crate::element::Element;
use crate::pattern::Pattern;

/// Describes a field before it is made; from [`Field::builder`].
#[derive(Debug, Clone)]
pub struct FieldBuilder<T, D> {
    description: Description,
    vector: Vec<usize>,
    kind: MemoryKind,
    /// What neighbours read; `None` where the field is to be in memory of its own process alone.
    node: Option<Pattern>,
    made: PhantomData<fn() -> (T, D)>,
}

impl<T: Element, D: Device> FieldBuilder<T, D> {
    pub(super) fn new(pattern: &Pattern) -> FieldBuilder<T, D> {
        FieldBuilder {
            description: Description::new(pattern),
            vector: Vec::new(),
            kind: MemoryKind::default(),
            node: Some(pattern.clone()),
            made: PhantomData,
        }
    }

    /// Levels above each cell of an unstructured domain, as one more axis.
    #[must_use]
    pub fn levels(mut self, levels: usize) -> Self {
        self.description.further_axes.push(levels);
        self
    }

    /// The extents of further axes beside that of the cells (axis 0) of an unstructured domain, at most three: `[3, 80]`
    /// for 80 levels at each of 3 neighbours.
    #[must_use]
    pub fn further_axes(mut self, extents: impl AsRef<[usize]>) -> Self {
        self.description.further_axes.extend_from_slice(extents.as_ref());
        self
    }

    /// The levels that are exchanged, out of those of the last further axis; all if not said.
    #[must_use]
    pub fn exchanged_levels(mut self, levels: Range<usize>) -> Self {
        self.description.levels = Some(levels);
        self
    }

    /// The number of values of each cell, and where they lie.
    #[must_use]
    pub fn components(mut self, components: usize, place: ComponentPlace) -> Self {
        self.description.components = components;
        self.description.place = place;
        self
    }

    /// The axes that the first components point along, where they are those of vectors: see [`Field::with_vector`].
    #[must_use]
    pub fn vector(mut self, axes: impl AsRef<[usize]>) -> Self {
        self.vector = axes.as_ref().to_vec();
        self
    }

    /// The axes from the slowest to the fastest in memory; `[0, 1, 2]` if not said, the last axis fastest. Of an
    /// unstructured domain, axis 0 is that of the cells: `[1, 0]` puts the levels slowest.
    #[must_use]
    pub fn axis_order(mut self, order: impl AsRef<[usize]>) -> Self {
        self.description.order = Some(order.as_ref().to_vec());
        self
    }

    /// Cells of memory left unused after those of each axis: padded strides.
    #[must_use]
    pub fn padding(mut self, cells: impl AsRef<[usize]>) -> Self {
        self.description.padding = Some(cells.as_ref().to_vec());
        self
    }

    /// Cells of margin on every side beyond the halo of a structured pattern.
    #[must_use]
    pub fn wider_margin(mut self, cells: usize) -> Self {
        self.description.wider = cells;
        self
    }

    /// The kind of memory.
    #[must_use]
    pub fn memory(mut self, kind: MemoryKind) -> Self {
        self.kind = kind;
        self
    }

    /// Whether neighbours among the other processes of this node may copy straight out of the field, where there is memory
    /// that they can map (`true` if not said). Such memory mostly has pages of 4 KiB, which slow down what walks through
    /// it with large strides. So a field below 4 MiB is in such memory as a whole, and of a larger one only what the
    /// neighbours of this pattern read, if that is in at most 16 places and a quarter of the field, as it is for a grid
    /// split along the slowest axis; the rest has large pages. If it is not, a field of a grid is not shared, and its
    /// cells are packed, as are those of a grid that neighbours read in runs below 64 bytes. An unstructured field is then
    /// shared as a whole, however short the runs of its listed cells. An exchange of another pattern has cells packed that
    /// are not shared.
    #[must_use]
    pub fn node_shared(mut self, shared: bool) -> Self {
        self.node = self.node.filter(|_| shared);
        self
    }

    /// Allocates the field, filled with zeros.
    ///
    /// # Errors
    /// [`FieldError::Layout`] for an axis order that is no permutation, lists of the wrong length, 0 components, axes
    /// or margins that the kind of pattern has not, levels that are not there, and vectors of elements without a sign or
    /// with more axes than components; [`FieldError::Device`] where there is no memory.
    pub fn build(self, device: &D) -> Result<Field<T, D>, FieldError> {
        let layouts = self.description.layouts()?;
        Field::allocate(device, layouts, self.kind, self.node.as_ref())?.with_vector(&self.vector)
    }
}

impl<T: Element, D: Device> Field<T, D> {
    /// A field of zeros for the domains of `pattern`, with one component, the last axis fastest, and a margin as
    /// wide as the halo.
    ///
    /// # Errors
    /// [`FieldError::Device`] where there is no memory.
    pub fn new(device: &D, pattern: &Pattern) -> Result<Field<T, D>, FieldError> {
        Field::<T, D>::builder(pattern).build(device)
    }

    /// Builds a field with components, another axis order, padding or wider margins.
    pub fn builder(pattern: &Pattern) -> FieldBuilder<T, D> {
        FieldBuilder::new(pattern)
    }
}
