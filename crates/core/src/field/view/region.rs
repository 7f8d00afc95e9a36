//! The cells of a view and their offsets in memory.

use crate::domain::{IndexBox, MAX_AXES};
use crate::field::{BlockLayout, CellBlocks};

/// A region of a block: its cells, and the numbers from which an access computes and checks offsets. It holds them by
/// value, so that loops keep them in registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region {
    cells: IndexBox,
    axes: usize,
    /// The offset of the lowest cell of the region from the first element of the block. If cells lie in several
    /// `blocks`, without its jump.
    first: isize,
    lower: [i64; MAX_AXES],
    extents: [u64; MAX_AXES],
    strides: [isize; MAX_AXES],
    /// The blocks of cells; `None` if the cells of the region have one stride.
    blocks: Option<CellBlocks>,
    components: usize,
    component_stride: isize,
}

impl Region {
    /// The region of `cells`, which lie within the allocated cells of `layout`.
    pub(super) fn new(layout: &BlockLayout, cells: IndexBox) -> Region {
        let axes = cells.axes();
        let mut region = Region {
            cells,
            axes,
            first: layout.offset(cells.lower(), 0).unwrap_or(0),
            lower: [0; MAX_AXES],
            extents: [1; MAX_AXES],
            strides: [1; MAX_AXES],
            blocks: None,
            components: layout.components(),
            component_stride: layout.component_stride() as isize,
        };
        for axis in 0..axes {
            region.lower[axis] = cells.lower()[axis];
            region.extents[axis] = cells.extent(axis) as u64;
            region.strides[axis] = layout.strides()[axis] as isize;
        }
        if cells.is_empty() {
            region.extents = [0; MAX_AXES];
        } else if let (first, past) = cells.bounds(0)
            && !layout.have_one_stride(first, past)
            && let Some(blocks) = layout.blocks()
        {
            region.first -= blocks.jump(first, layout.strides()[0]) as isize;
            region.blocks = Some(blocks);
        }
        region
    }

    /// The same cells with only one component; `None` if there is no such component.
    pub(super) fn of_component(&self, component: usize) -> Option<Region> {
        (component < self.components).then(|| {
            let first = self.first + component as isize * self.component_stride;
            Region { first, components: 1, ..*self }
        })
    }

    #[inline]
    pub(super) fn cells(&self) -> &IndexBox {
        &self.cells
    }

    pub(super) fn components(&self) -> usize {
        self.components
    }

    /// The offset of component 0 of a cell from the first element of the block; `None` outside of the region.
    #[inline]
    pub(super) fn offset<const N: usize>(&self, index: &[i64; N]) -> Option<isize> {
        if N != self.axes {
            return None;
        }
        let axes = self.lower.iter().zip(&self.extents).zip(&self.strides);
        let (mut offset, mut inside) = (self.first, true);
        for (at, ((lower, extent), stride)) in index.iter().zip(axes) {
            let step = at.wrapping_sub(*lower);
            inside &= (step as u64) < *extent;
            // Within the region, this does not overflow.
            offset = offset.wrapping_add((step as isize).wrapping_mul(*stride));
        }
        if !inside {
            return None;
        }
        match self.blocks {
            None => Some(offset),
            Some(blocks) => Some(offset.wrapping_add(self.jump(&blocks, index))),
        }
    }

    /// The distance by which the cell lies further away than its stride says.
    fn jump(&self, blocks: &CellBlocks, index: &[i64]) -> isize {
        index.first().map_or(0, |cell| blocks.jump(*cell, self.strides[0] as i64) as isize)
    }

    /// As [`offset`](Region::offset), for any number of axes.
    #[inline]
    pub(super) fn offset_of(&self, index: &[i64]) -> Option<isize> {
        match index {
            [i] => self.offset(&[*i]),
            [i, j] => self.offset(&[*i, *j]),
            [i, j, k] => self.offset(&[*i, *j, *k]),
            [i, j, k, l] => self.offset(&[*i, *j, *k, *l]),
            _ => None,
        }
    }

    /// As [`offset_of`](Region::offset_of), for any component.
    #[inline]
    pub(super) fn component_offset(&self, index: &[i64], component: usize) -> Option<isize> {
        let offset = self.offset_of(index)?;
        (component < self.components).then(|| offset + component as isize * self.component_stride)
    }

    /// The distance in elements from one cell to the next along an axis.
    #[inline]
    pub(super) fn stride(&self, axis: usize) -> isize {
        self.strides[axis]
    }

    /// The blocks in which cells lie, if the region has cells of several of them.
    pub(super) fn blocks(&self) -> Option<&CellBlocks> {
        self.blocks.as_ref()
    }

    /// The offset of the lowest cell of the region from the first element of the block. Not for several
    /// [`blocks`](Region::blocks).
    #[cfg(feature = "ndarray")]
    pub(super) fn first(&self) -> isize {
        self.first
    }

    /// The distance in elements from one component of a cell to the next.
    #[cfg(feature = "ndarray")]
    pub(super) fn component_stride(&self) -> isize {
        self.component_stride
    }

    /// The offset of the elements of the region from the first element of the block, and their number, if they are
    /// contiguous and in ascending order.
    pub(super) fn contiguous(&self) -> Option<(isize, usize)> {
        if self.cells.is_empty() {
            return Some((0, 0));
        }
        if self.blocks.is_some() {
            return None;
        }
        let mut axes = [(self.components, self.component_stride); MAX_AXES + 1];
        (0..MAX_AXES).for_each(|axis| axes[axis] = (self.extents[axis] as usize, self.strides[axis]));
        axes.sort_unstable_by_key(|(_, stride)| stride.unsigned_abs());
        let mut length = 1;
        for (extent, stride) in axes.into_iter().filter(|(extent, _)| *extent > 1) {
            if stride != length as isize {
                return None;
            }
            length *= extent;
        }
        Some((self.first, length))
    }
}
