//! Cells of an unstructured domain that lie in blocks.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::FieldError;

/// The blocks in which the cells of an unstructured domain lie, as in arrays `(nproma, levels, blocks)` of Fortran
/// programs: cell `c` has the index `c % cells` within block `c / cells`. The last block may have room for more cells
/// than there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellBlocks {
    /// The number of cells of a block (`nproma`).
    pub cells: usize,
    /// The distance in elements from one block to the next.
    pub stride: i64,
}

impl CellBlocks {
    /// The number of blocks that hold `cells` cells.
    pub fn count(&self, cells: usize) -> usize {
        cells.div_ceil(self.cells.max(1))
    }

    /// Checks the blocks of `cells` cells that are `cell_stride` elements apart within a block.
    pub(super) fn check(&self, cells: usize, cell_stride: i64) -> Result<(), FieldError> {
        if self.cells == 0 || u32::try_from(self.cells).is_err() {
            return Err(FieldError::layout("the cells of a block", "1 to 2^32 - 1", self.cells));
        }
        let count = self.count(cells);
        if (count > 1 && self.stride < 1) || (self.cells > 1 && cell_stride < 1) {
            let found = format!("{cell_stride} between cells, {} between blocks", self.stride);
            return Err(FieldError::layout("the strides of blocked cells", "strides above 0", found));
        }
        let steps = |extent: usize, stride: i64| extent.saturating_sub(1) as i128 * i128::from(stride);
        let reach = steps(self.cells, cell_stride) + steps(count, self.stride);
        if reach / i128::from(self.unit(cell_stride)) > i128::from(u32::MAX) {
            let found = format!("{count} blocks of {} cells, {} elements apart", self.cells, self.stride);
            return Err(FieldError::layout(
                "the distance between blocked cells",
                "cells less than 2^32 times their smallest distance apart; use several domains",
                found,
            ));
        }
        Ok(())
    }

    /// The rows of a copy that are the listed cells: the distance in elements between rows, and their indices.
    pub(super) fn rows(&self, list: &[u32], cell_stride: i64) -> (i64, Arc<[u32]>) {
        let unit = self.unit(cell_stride);
        let (within, between) = ((cell_stride / unit) as u64, (self.stride / unit) as u64);
        let cells = self.cells as u64;
        let row = |cell: &u32| {
            let cell = u64::from(*cell);
            (cell % cells * within + cell / cells * between) as u32
        };
        (unit, list.iter().map(row).collect())
    }

    /// The distance in elements by which the cell `index` lies further away than it would if all cells had the stride
    /// `cell_stride`.
    #[inline]
    pub(super) fn jump(&self, index: i64, cell_stride: i64) -> i64 {
        index / self.cells as i64 * (self.stride - self.cells as i64 * cell_stride)
    }

    /// Whether the cells from `first` to below `past` have one stride: they lie in one block, or the blocks continue
    /// each other.
    pub(super) fn have_one_stride(&self, first: i64, past: i64, cell_stride: i64) -> bool {
        let cells = self.cells as i64;
        past <= first + 1 || first / cells == (past - 1) / cells || self.stride == cells * cell_stride
    }

    /// The greatest distance of which the distances between cells and between blocks are multiples.
    fn unit(&self, cell_stride: i64) -> i64 {
        let (mut a, mut b) = (self.stride, cell_stride);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a.abs().max(1)
    }
}
