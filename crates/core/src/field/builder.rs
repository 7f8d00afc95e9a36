//! Making fields with other than the default layout.

use std::marker::PhantomData;
use std::ops::Range;

use super::{BlockLayout, Field, FieldError};
use crate::device::{Device, MemoryKind};
use crate::domain::{Grid, IndexBox, MAX_AXES};
use crate::element::Element;
use crate::pattern::{BlockShape, Pattern};

/// Where the components of a cell lie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ComponentPlace {
    /// Side by side: an array of structures.
    #[default]
    Fastest,
    /// Each component is a block of its own: a structure of arrays.
    Slowest,
}

/// Describes a field before it is made; from [`Field::builder`].
#[derive(Debug, Clone)]
pub struct FieldBuilder<T, D> {
    shapes: Vec<BlockShape>,
    structured: bool,
    /// The number of axes of the pattern: those of the grid, or that of the cells.
    own_axes: usize,
    further_axes: Vec<usize>,
    levels: Option<Range<usize>>,
    components: usize,
    place: ComponentPlace,
    vector: Vec<usize>,
    order: Option<Vec<usize>>,
    padding: Option<Vec<usize>>,
    wider: usize,
    kind: MemoryKind,
    /// What neighbours read; `None` where the field is to be in memory of its own process alone.
    node: Option<Pattern>,
    made: PhantomData<fn() -> (T, D)>,
}

impl<T: Element, D: Device> FieldBuilder<T, D> {
    pub(super) fn new(pattern: &Pattern) -> FieldBuilder<T, D> {
        FieldBuilder {
            shapes: pattern.block_shapes(),
            structured: pattern.grid().is_some(),
            own_axes: pattern.grid().map_or(1, Grid::axes),
            further_axes: Vec::new(),
            levels: None,
            components: 1,
            place: ComponentPlace::default(),
            vector: Vec::new(),
            order: None,
            padding: None,
            wider: 0,
            kind: MemoryKind::default(),
            node: Some(pattern.clone()),
            made: PhantomData,
        }
    }

    /// Levels above each cell of an unstructured domain, as one more axis.
    #[must_use]
    pub fn levels(mut self, levels: usize) -> Self {
        self.further_axes.push(levels);
        self
    }

    /// The extents of further axes beside that of the cells (axis 0) of an unstructured domain, at most three: `[3, 80]`
    /// for 80 levels at each of 3 neighbours.
    #[must_use]
    pub fn further_axes(mut self, extents: impl AsRef<[usize]>) -> Self {
        self.further_axes.extend_from_slice(extents.as_ref());
        self
    }

    /// The levels that are exchanged, out of those of the last further axis; all if not said.
    #[must_use]
    pub fn exchanged_levels(mut self, levels: Range<usize>) -> Self {
        self.levels = Some(levels);
        self
    }

    /// The number of values of each cell, and where they lie.
    #[must_use]
    pub fn components(mut self, components: usize, place: ComponentPlace) -> Self {
        self.components = components;
        self.place = place;
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
        self.order = Some(order.as_ref().to_vec());
        self
    }

    /// Cells of memory left unused after those of each axis: padded strides.
    #[must_use]
    pub fn padding(mut self, cells: impl AsRef<[usize]>) -> Self {
        self.padding = Some(cells.as_ref().to_vec());
        self
    }

    /// Cells of margin on every side beyond the halo of a structured pattern.
    #[must_use]
    pub fn wider_margin(mut self, cells: usize) -> Self {
        self.wider = cells;
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
        let layouts = self.shapes.iter().map(|shape| self.layout(shape)).collect::<Result<_, _>>()?;
        Field::allocate(device, layouts, self.kind, self.node.as_ref())?.with_vector(&self.vector)
    }

    fn layout(&self, shape: &BlockShape) -> Result<BlockLayout, FieldError> {
        let BlockShape { owned, allocated } = self.with_further_axes(shape)?;
        let axes = allocated.axes();
        let order = self.order.clone().unwrap_or_else(|| (0..axes).collect());
        let mut seen = order.clone();
        seen.sort_unstable();
        if seen != (0..axes).collect::<Vec<_>>() {
            let expected = format!("the axes 0 to {} in some order", axes - 1);
            return Err(FieldError::layout("the axis order of a field", expected, format!("{order:?}")));
        }
        let padding = self.padding.clone().unwrap_or_else(|| vec![0; axes]);
        if padding.len() != axes {
            return Err(FieldError::layout(
                "the padding of a field",
                format!("{axes} entries"),
                padding.len(),
            ));
        }
        let too_large = |found: &dyn ToString| {
            FieldError::layout("the size of a field", "a size that memory can hold", found.to_string())
        };
        let wider = i64::try_from(self.wider).map_err(|_| too_large(&self.wider))?;
        let mut allocated = allocated;
        if !owned.is_empty() {
            for axis in 0..axes {
                let (lower, upper) = allocated.bounds(axis);
                let bounds = lower.checked_sub(wider).zip(upper.checked_add(wider));
                let (lower, upper) = bounds.ok_or_else(|| too_large(&self.wider))?;
                allocated = allocated.with_axis(axis, lower, upper);
            }
        }
        let mut stride = match self.place {
            ComponentPlace::Fastest => {
                i64::try_from(self.components).map_err(|_| too_large(&self.components))?
            }
            ComponentPlace::Slowest => 1,
        };
        let mut strides = vec![0; axes];
        for &axis in order.iter().rev() {
            strides[axis] = stride;
            let cells = allocated.extent(axis).checked_add(padding[axis]);
            let cells = cells.and_then(|cells| i64::try_from(cells).ok());
            let next = cells.and_then(|cells| stride.checked_mul(cells));
            stride = next.ok_or_else(|| too_large(&padding[axis]))?;
        }
        let component_stride = match self.place {
            ComponentPlace::Fastest => 1,
            ComponentPlace::Slowest => stride,
        };
        let owned = if self.structured && owned.is_empty() { allocated } else { owned };
        BlockLayout::new(owned, allocated, strides, self.components, component_stride)
    }

    /// The block with the axes that the field has beside those of the pattern.
    fn with_further_axes(&self, shape: &BlockShape) -> Result<BlockShape, FieldError> {
        if self.structured {
            if !self.further_axes.is_empty() || self.levels.is_some() {
                let expected = "none: a field of a grid has the grid's axes, and exchanges all of them";
                let levels = self.levels.as_ref().map(|levels| format!(", levels {levels:?}"));
                let found = format!("{:?}{}", self.further_axes, levels.unwrap_or_default());
                return Err(FieldError::layout("the further axes of a field", expected, found));
            }
            return Ok(*shape);
        }
        if self.wider > 0 {
            let expected = "0 cells: an unstructured domain has no sides";
            return Err(FieldError::layout("the margin of a field", expected, self.wider));
        }
        let most = MAX_AXES - self.own_axes;
        if self.further_axes.len() > most {
            let found = format!("{:?}", self.further_axes);
            return Err(FieldError::layout("the further axes of a field", format!("at most {most}"), found));
        }
        let cells = shape.allocated.bounds(0);
        let (mut lower, mut upper) = (vec![cells.0], vec![cells.1]);
        for &extent in &self.further_axes {
            let extent = i64::try_from(extent).map_err(|_| {
                FieldError::layout("the size of a field", "a size that memory can hold", extent)
            })?;
            lower.push(0);
            upper.push(extent);
        }
        let allocated = IndexBox::new(&lower, &upper);
        let Some(levels) = &self.levels else { return Ok(BlockShape { owned: allocated, allocated }) };
        let found = format!("{levels:?}");
        let Some(&all) = self.further_axes.last() else {
            let expected = "none: the field has no further axis; give it one with `levels` or `further_axes`";
            return Err(FieldError::layout("the exchanged levels", expected, found));
        };
        if levels.start > levels.end || levels.end > all {
            return Err(FieldError::layout(
                "the exchanged levels",
                format!("a range within 0..{all}"),
                found,
            ));
        }
        let owned = allocated.with_axis(allocated.axes() - 1, levels.start as i64, levels.end as i64);
        Ok(BlockShape { owned, allocated })
    }
}
