//! The layout of the cells of one domain in memory.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CellBlocks, FieldError};
use crate::device::{CopyAxis, MAX_COPY_AXES};
use crate::domain::{IndexBox, MAX_AXES};

/// The layout of the cells of one domain, with the margin around them, in memory.
///
/// All strides are in elements. Offset 0 is component 0 of the cell at the lower corner of
/// [`allocated`](BlockLayout::allocated).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ReadLayout")]
pub struct BlockLayout {
    owned: IndexBox,
    allocated: IndexBox,
    strides: [i64; MAX_AXES],
    blocks: Option<CellBlocks>,
    components: usize,
    component_stride: i64,
}

/// A deserialised layout that is not checked yet.
#[derive(Deserialize)]
struct ReadLayout {
    owned: IndexBox,
    allocated: IndexBox,
    strides: [i64; MAX_AXES],
    blocks: Option<CellBlocks>,
    components: usize,
    component_stride: i64,
}

impl TryFrom<ReadLayout> for BlockLayout {
    type Error = FieldError;

    fn try_from(read: ReadLayout) -> Result<BlockLayout, FieldError> {
        let ReadLayout { owned, allocated, strides, blocks, components, component_stride } = read;
        let strides = &strides[..allocated.axes()];
        BlockLayout::make(owned, allocated, blocks, strides, (components, component_stride))
    }
}

/// The maximum span of a block in elements: its size in bytes fits into `i64` for any element.
const MOST_ELEMENTS: u128 = i64::MAX as u128 / 16;

impl BlockLayout {
    /// A layout of the cells `allocated`, of which the domain owns `owned`.
    ///
    /// `strides` has one entry for each axis, in elements; strides may be padded, in any axis order, and negative. The
    /// `components` values of each cell are `component_stride` elements apart. Strides that have no effect, along axes
    /// of one cell and in blocks without cells, may have any value; they become 1.
    ///
    /// # Errors
    /// [`FieldError::Layout`] if `allocated` does not enclose `owned`, if there is not one stride for each axis, for 0
    /// axes or 0 components, if two cells overlap in memory, and for a block that is too large for memory, where an
    /// empty axis counts as one of 1 cell.
    pub fn new(
        owned: IndexBox,
        allocated: IndexBox,
        strides: impl AsRef<[i64]>,
        components: usize,
        component_stride: i64,
    ) -> Result<BlockLayout, FieldError> {
        BlockLayout::make(owned, allocated, None, strides.as_ref(), (components, component_stride))
    }

    /// As [`new`](BlockLayout::new), for an unstructured domain whose cells, along axis 0, lie in `blocks`. `strides[0]`
    /// is the distance from one cell to the next within a block. All blocks have memory for the same number of cells,
    /// also the last one; the elements beyond the last cell belong to the [`span`](BlockLayout::span).
    ///
    /// # Errors
    /// As for `new`; and [`FieldError::Layout`] for blocks without cells, strides along axis 0 that are not above 0,
    /// cells that do not begin at 0, and cells that are 2^32 times their smallest distance apart.
    pub fn blocked(
        owned: IndexBox,
        allocated: IndexBox,
        blocks: CellBlocks,
        strides: impl AsRef<[i64]>,
        components: usize,
        component_stride: i64,
    ) -> Result<BlockLayout, FieldError> {
        BlockLayout::make(owned, allocated, Some(blocks), strides.as_ref(), (components, component_stride))
    }

    fn make(
        owned: IndexBox,
        allocated: IndexBox,
        blocks: Option<CellBlocks>,
        given: &[i64],
        (components, component_stride): (usize, i64),
    ) -> Result<BlockLayout, FieldError> {
        if allocated.axes() == 0 {
            return Err(FieldError::layout("the number of axes of a field", "at least 1", 0));
        }
        if given.len() != allocated.axes() || owned.axes() != allocated.axes() {
            return Err(FieldError::layout(
                "the number of strides of a field",
                allocated.axes(),
                given.len(),
            ));
        }
        if !allocated.encloses(&owned) {
            return Err(FieldError::layout(
                "the allocated cells of a field",
                format!("{owned} and more"),
                allocated,
            ));
        }
        if components == 0 {
            return Err(FieldError::layout("the number of components of a field", "at least 1", 0));
        }
        // A block that is empty along one axis may be huge along the others, which no other check bounds.
        for cells in [owned, allocated] {
            let extents = (0..cells.axes()).map(|axis| cells.extent(axis).max(1) as u128);
            let elements = extents.fold(components as u128, u128::saturating_mul);
            check_size(elements)?;
        }
        let has_effect = |extent: usize| extent > 1 && !allocated.is_empty();
        let mut strides = [0; MAX_AXES];
        for (axis, &stride) in given.iter().enumerate() {
            strides[axis] = if has_effect(allocated.extent(axis)) { stride } else { 1 };
        }
        let blocks = blocks.map(|blocks| {
            if has_effect(blocks.cells) {
                strides[0] = given[0];
            }
            let count = blocks.count(allocated.extent(0));
            CellBlocks { stride: if has_effect(count) { blocks.stride } else { 1 }, ..blocks }
        });
        if let Some(blocks) = &blocks {
            if allocated.lower()[0] != 0 {
                let found = allocated.lower()[0];
                return Err(FieldError::layout("the first of the cells that lie in blocks", 0, found));
            }
            blocks.check(allocated.extent(0), strides[0])?;
        }
        let component_stride = if has_effect(components) { component_stride } else { 1 };
        let made = BlockLayout { owned, allocated, strides, blocks, components, component_stride };
        made.check_overlap()?;
        Ok(made)
    }

    /// The cells that the domain owns.
    pub fn owned(&self) -> IndexBox {
        self.owned
    }

    /// The cells that have memory.
    pub fn allocated(&self) -> IndexBox {
        self.allocated
    }

    /// The distance in elements from one cell to the next along each axis; 1 along an axis of one cell. Along axis 0 of
    /// [`blocked`](BlockLayout::blocked) cells, the distance within a block.
    pub fn strides(&self) -> &[i64] {
        &self.strides[..self.allocated.axes()]
    }

    /// The blocks in which the cells lie along axis 0; `None` if all of them have one stride.
    pub fn blocks(&self) -> Option<CellBlocks> {
        self.blocks
    }

    /// The number of values of each cell.
    pub fn components(&self) -> usize {
        self.components
    }

    /// The distance in elements from one component of a cell to the next.
    pub fn component_stride(&self) -> i64 {
        self.component_stride
    }

    /// The offset in elements of a component of the cell `index`; `None` outside of the allocated cells.
    pub fn offset(&self, index: &[i64], component: usize) -> Option<isize> {
        (self.allocated.contains(index) && component < self.components).then(|| {
            let cells: i64 = (0..index.len())
                .map(|axis| (index[axis] - self.allocated.lower()[axis]) * self.strides[axis])
                .sum();
            let jump = self.blocks.map_or(0, |blocks| blocks.jump(index[0], self.strides[0]));
            (cells + jump + component as i64 * self.component_stride) as isize
        })
    }

    /// The lowest offset in memory and one past the highest, in elements; `(0, 0)` without cells. Whole blocks, if cells
    /// lie in blocks.
    pub fn span(&self) -> (isize, isize) {
        if self.allocated.is_empty() {
            return (0, 0);
        }
        self.all_axes().fold((0, 1), |(low, high), (extent, stride)| {
            let reach = ((extent as i64 - 1) * stride) as isize;
            (low + reach.min(0), high + reach.max(0))
        })
    }

    /// The longest axis along which cells are contiguous, if each cell has one component.
    pub(crate) fn row_axis(&self) -> Option<usize> {
        let is_contiguous = |&axis: &usize| self.components == 1 && self.strides[axis] == 1;
        (0..self.allocated.axes()).filter(is_contiguous).max_by_key(|&axis| self.allocated.extent(axis))
    }

    /// The extents of `region` and its strides in bytes, for the axes of the grid and then for the components.
    pub(crate) fn region_axes(
        &self,
        region: &IndexBox,
        element_bytes: usize,
    ) -> [(usize, isize); MAX_COPY_AXES] {
        let bytes = element_bytes as isize;
        std::array::from_fn(|axis| match axis {
            MAX_AXES => (self.components, self.component_stride as isize * bytes),
            _ => (region.extent(axis), self.strides[axis] as isize * bytes),
        })
    }

    /// The axes of the grid and the components (as axis [`MAX_AXES`]), from the slowest to the fastest in memory. Blocked
    /// cells count by their distance within a block: packing walks the blocks level by level, which took 0.7 times as
    /// long as cell by cell (`bench unstructured --nproma 8 --path messages`).
    pub(crate) fn memory_order(&self) -> [u8; MAX_COPY_AXES] {
        let mut order: [u8; MAX_COPY_AXES] = std::array::from_fn(|axis| axis as u8);
        order.sort_by_key(|&axis| {
            let stride = if usize::from(axis) == MAX_AXES {
                self.component_stride
            } else {
                self.strides[usize::from(axis)]
            };
            std::cmp::Reverse(stride.unsigned_abs())
        });
        order
    }

    /// The box of `cells`, which may have only the axes of a pattern, with the exchanged indices along further axes.
    pub(crate) fn with_levels(&self, cells: &IndexBox) -> IndexBox {
        (cells.axes()..self.owned.axes()).fold(*cells, |cells, axis| {
            let (lower, upper) = self.owned.bounds(axis);
            cells.with_further_axis(lower, upper)
        })
    }

    /// The layout of the same memory for a domain that owns `cells`, which have the axes of the pattern, with all indices along
    /// further axes, and whose indices are moved by `shift`.
    pub(crate) fn part(&self, cells: &IndexBox, shift: &[i64; MAX_AXES]) -> Result<BlockLayout, FieldError> {
        let axes = cells.axes().min(self.allocated.axes());
        let along = IndexBox::new(&self.allocated.lower()[..axes], &self.allocated.upper()[..axes]);
        let with_further = |cells: IndexBox| {
            let further = (axes..self.allocated.axes()).map(|axis| self.allocated.extent(axis) as i64);
            further.fold(cells.shifted(shift), |cells, extent| cells.with_further_axis(0, extent))
        };
        let (owned, allocated) = (with_further(*cells), with_further(along));
        let components = (self.components, self.component_stride);
        BlockLayout::make(owned, allocated, self.blocks, self.strides(), components)
    }

    /// The elements of a listed cell that are exchanged: those of all levels, along the axes after the first `axes`.
    pub(crate) fn elements_of_cell(&self, axes: usize) -> usize {
        (axes..self.owned.axes()).map(|axis| self.owned.extent(axis)).product::<usize>() * self.components()
    }

    /// The listed cells as rows of a copy: the distance in elements between rows, and their indices.
    pub(crate) fn rows(&self, list: &Arc<[u32]>) -> (i64, Arc<[u32]>) {
        match self.blocks {
            None => (self.strides[0], Arc::clone(list)),
            Some(blocks) => blocks.rows(list, self.strides[0]),
        }
    }

    /// Whether the cells from `first` to below `past` along axis 0 have one stride.
    pub(crate) fn have_one_stride(&self, first: i64, past: i64) -> bool {
        self.blocks.is_none_or(|blocks| blocks.have_one_stride(first, past, self.strides[0]))
    }

    fn all_axes(&self) -> impl Iterator<Item = (usize, i64)> {
        let cells = self.allocated.extent(0);
        let blocks = self.blocks.map(|blocks| (blocks.count(cells), blocks.stride));
        let extent = move |axis| match self.blocks {
            Some(blocks) if axis == 0 => blocks.cells,
            _ => self.allocated.extent(axis),
        };
        (0..self.allocated.axes())
            .map(move |axis| (extent(axis), self.strides[axis]))
            .chain(blocks)
            .chain([(self.components, self.component_stride)])
    }

    fn strides_in_words(&self) -> String {
        let blocks =
            self.blocks.map(|blocks| format!(", blocks of {} cells {} apart", blocks.cells, blocks.stride));
        let (strides, blocks) = (self.strides(), blocks.unwrap_or_default());
        format!("{strides:?}{blocks}, {} components {} apart", self.components, self.component_stride)
    }

    /// Checks that no cells overlap: the stride of each axis must exceed the span of all faster ones.
    fn check_overlap(&self) -> Result<(), FieldError> {
        if self.allocated.is_empty() {
            return Ok(());
        }
        let mut axes: Vec<(usize, i64)> = self.all_axes().filter(|(extent, _)| *extent > 1).collect();
        axes.sort_by_key(|(_, stride)| stride.unsigned_abs());
        // No sum overflows: a stride is below 2^64, and if `covered` exceeds that, the next axis is an error.
        let mut covered: u128 = 1;
        for (extent, stride) in axes {
            if u128::from(stride.unsigned_abs()) < covered {
                return Err(FieldError::layout(
                    "the strides of a field",
                    format!("a stride of at least {covered} elements where {stride} is"),
                    self.strides_in_words(),
                ));
            }
            covered += (extent as u128 - 1) * u128::from(stride.unsigned_abs());
        }
        check_size(covered)
    }
}

fn check_size(elements: u128) -> Result<(), FieldError> {
    if elements > MOST_ELEMENTS {
        return Err(FieldError::layout("the size of a field", "a size that memory can hold", elements));
    }
    Ok(())
}

/// The axes of a copy from a source box to a target box of the same extents.
pub(crate) fn copy_axes(
    source: &[(usize, isize); MAX_COPY_AXES],
    target: &[(usize, isize); MAX_COPY_AXES],
) -> [CopyAxis; MAX_COPY_AXES] {
    std::array::from_fn(|axis| CopyAxis {
        extent: target[axis].0,
        source_stride: source[axis].1,
        target_stride: target[axis].1,
    })
}
