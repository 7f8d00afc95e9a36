//! The options of a new field, and the layouts of its blocks that follow from them.

use std::ops::Range;

use super::{BlockLayout, FieldError};
use crate::domain::{Grid, IndexBox, MAX_AXES};
use crate::pattern::{BlockShape, Pattern};

/// The position of the components of a cell in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ComponentPlace {
    /// The components of a cell are contiguous: an array of structures.
    #[default]
    Fastest,
    /// Each component has its own block: a structure of arrays.
    Slowest,
}

/// The options of a [`FieldBuilder`](super::FieldBuilder) that determine layouts, for any element and device.
#[derive(Debug, Clone)]
pub(super) struct LayoutOptions {
    shapes: Vec<BlockShape>,
    structured: bool,
    /// The number of axes of the pattern: the axes of the grid, or 1, the axis of the cells.
    own_axes: usize,
    pub(super) further_axes: Vec<usize>,
    pub(super) levels: Option<Range<usize>>,
    pub(super) components: usize,
    pub(super) place: ComponentPlace,
    pub(super) order: Option<Vec<usize>>,
    pub(super) padding: Option<Vec<usize>>,
    pub(super) wider: usize,
}

impl LayoutOptions {
    pub(super) fn new(pattern: &Pattern) -> LayoutOptions {
        LayoutOptions {
            shapes: pattern.block_shapes(),
            structured: pattern.grid().is_some(),
            own_axes: pattern.grid().map_or(1, Grid::axes),
            further_axes: Vec::new(),
            levels: None,
            components: 1,
            place: ComponentPlace::default(),
            order: None,
            padding: None,
            wider: 0,
        }
    }

    /// The layout of each block.
    pub(super) fn layouts(&self) -> Result<Vec<BlockLayout>, FieldError> {
        self.shapes.iter().map(|shape| self.layout(shape)).collect()
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

    /// The block with the further axes that the field has beside those of the pattern.
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
