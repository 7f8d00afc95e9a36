//! The options of a new field, and the layouts of its blocks that follow from them.

use std::ops::Range;

use super::{BlockLayout, CellBlocks, FieldError};
use crate::domain::{IndexBox, MAX_AXES};
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
    /// The number of cells of each block, if the cells lie in blocks.
    pub(super) blocked: Option<usize>,
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
            own_axes: pattern.axes(),
            further_axes: Vec::new(),
            levels: None,
            blocked: None,
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
        let BlockShape { owned, mut allocated } = self.with_further_axes(shape)?;
        let axes = allocated.axes();
        let order = self.axis_order(axes)?;
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
        if !shape.owned.is_empty() {
            for axis in 0..self.own_axes {
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
        // Of the two places of the axis of blocked cells, the faster one is that of the cells within a block.
        let (mut blocks, mut within) = (None, self.blocked);
        for &axis in order.iter().rev() {
            let mut extent = allocated.extent(axis).checked_add(padding[axis]);
            match self.blocked.filter(|_| axis == 0) {
                Some(cells) if within.take().is_none() => {
                    let made = CellBlocks { cells, stride };
                    extent = Some(made.count(allocated.extent(0)));
                    blocks = Some(made);
                }
                Some(cells) => {
                    strides[0] = stride;
                    extent = cells.checked_add(padding[0]);
                }
                None => strides[axis] = stride,
            }
            let extent = extent.and_then(|extent| i64::try_from(extent).ok());
            let next = extent.and_then(|extent| stride.checked_mul(extent));
            stride = next.ok_or_else(|| too_large(&padding[axis]))?;
        }
        let component_stride = match self.place {
            ComponentPlace::Fastest => 1,
            ComponentPlace::Slowest => stride,
        };
        match blocks {
            None => BlockLayout::new(owned, allocated, strides, self.components, component_stride),
            Some(blocks) => {
                BlockLayout::blocked(owned, allocated, blocks, strides, self.components, component_stride)
            }
        }
    }

    /// The axes from the slowest to the fastest. For blocked cells, axis 0 appears twice: the block, then the cell in
    /// it.
    fn axis_order(&self, axes: usize) -> Result<Vec<usize>, FieldError> {
        let twice = self.blocked.map(|_| 0);
        let order = self.order.clone().unwrap_or_else(|| (0..axes).chain(twice).collect());
        let mut seen = order.clone();
        seen.sort_unstable();
        if seen != twice.into_iter().chain(0..axes).collect::<Vec<_>>() {
            let blocks =
                if self.blocked.is_some() { " and axis 0 twice, as the cells lie in blocks," } else { "" };
            let expected = format!("the axes 0 to {}{blocks} in some order", axes - 1);
            return Err(FieldError::layout("the axis order of a field", expected, format!("{order:?}")));
        }
        Ok(order)
    }

    /// The block with the further axes that the field has beside those of the pattern.
    fn with_further_axes(&self, shape: &BlockShape) -> Result<BlockShape, FieldError> {
        if let Some(cells) = self.blocked.filter(|_| self.structured) {
            let expected = "none: a field of a grid has no axis of cells";
            return Err(FieldError::layout("the blocks of cells of a field", expected, cells));
        }
        if self.wider > 0 && !self.structured {
            let expected = "0 cells: an unstructured domain has no sides";
            return Err(FieldError::layout("the margin of a field", expected, self.wider));
        }
        let most = MAX_AXES - self.own_axes;
        if self.further_axes.len() > most {
            let axes = self.own_axes;
            let expected =
                format!("at most {most} beside the {axes} of the pattern; components are one more");
            let found = format!("{:?}", self.further_axes);
            return Err(FieldError::layout("the further axes of a field", expected, found));
        }
        let allocated = self.extended(&shape.allocated)?;
        // A domain without cells may be huge along some axes.
        let own = if shape.owned.is_empty() { &shape.allocated } else { &shape.owned };
        let owned = self.extended(own)?;
        let Some(levels) = &self.levels else { return Ok(BlockShape { owned, allocated }) };
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
        let owned = owned.with_axis(allocated.axes() - 1, levels.start as i64, levels.end as i64);
        Ok(BlockShape { owned, allocated })
    }

    /// The cells along the axes of the pattern, and all indices along the further axes.
    fn extended(&self, cells: &IndexBox) -> Result<IndexBox, FieldError> {
        self.further_axes.iter().try_fold(*cells, |extended, &extent| {
            let upper = i64::try_from(extent).map_err(|_| {
                FieldError::layout("the size of a field", "a size that memory can hold", extent)
            })?;
            Ok(extended.with_further_axis(0, upper))
        })
    }
}
