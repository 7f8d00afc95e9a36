//! The layout of the cells of one domain in memory.

use serde::{Deserialize, Serialize};

use super::FieldError;
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
    components: usize,
    component_stride: i64,
}

/// A deserialised layout that is not checked yet.
#[derive(Deserialize)]
struct ReadLayout {
    owned: IndexBox,
    allocated: IndexBox,
    strides: [i64; MAX_AXES],
    components: usize,
    component_stride: i64,
}

impl TryFrom<ReadLayout> for BlockLayout {
    type Error = FieldError;

    fn try_from(read: ReadLayout) -> Result<BlockLayout, FieldError> {
        let ReadLayout { owned, allocated, strides, components, component_stride } = read;
        BlockLayout::new(owned, allocated, &strides[..allocated.axes()], components, component_stride)
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
        let given = strides.as_ref();
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
        let component_stride = if has_effect(components) { component_stride } else { 1 };
        let made = BlockLayout { owned, allocated, strides, components, component_stride };
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

    /// The distance in elements from one cell to the next along each axis; 1 along an axis of one cell.
    pub fn strides(&self) -> &[i64] {
        &self.strides[..self.allocated.axes()]
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
            (cells + component as i64 * self.component_stride) as isize
        })
    }

    /// The lowest offset in memory and one past the highest, in elements; `(0, 0)` without cells.
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

    /// The axes of the grid and the components (as axis [`MAX_AXES`]), from the slowest to the fastest in memory.
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

    fn all_axes(&self) -> impl Iterator<Item = (usize, i64)> {
        (0..self.allocated.axes())
            .map(|axis| (self.allocated.extent(axis), self.strides[axis]))
            .chain([(self.components, self.component_stride)])
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
                    format!(
                        "{:?}, {} components {} apart",
                        self.strides(),
                        self.components,
                        self.component_stride
                    ),
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
