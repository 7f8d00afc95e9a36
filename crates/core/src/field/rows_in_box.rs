//! Cells of a box of a grid that are copied one by one, by their numbers within the box.

use std::sync::Arc;

use super::BlockLayout;
use crate::domain::MAX_AXES;

/// Cells of a box, as rows of a copy.
pub(crate) struct RowsInBox {
    /// The offset of row 0 in elements, for the first of the exchanged levels.
    pub(crate) first: i64,
    /// The distance from one row to the next, in elements.
    pub(crate) step: i64,
    /// The row of each cell.
    pub(crate) rows: Arc<[u32]>,
    /// The number of levels along each further axis, and their distance in elements.
    pub(crate) levels: [(usize, i64); MAX_AXES - 1],
}

impl BlockLayout {
    /// The owned cells with these `numbers`, which count along the first `axes` axes, the last of them fastest. `None` if a
    /// number is beyond the owned cells, or if a row does not fit into 32 bits.
    pub(crate) fn rows_in_box(&self, axes: usize, numbers: &[u32]) -> Option<RowsInBox> {
        let owned = self.owned();
        let levels = std::array::from_fn(|axis| {
            let further = axes + axis;
            (owned.extent(further), self.strides().get(further).copied().unwrap_or(1))
        });
        if owned.is_empty() {
            // Nothing is copied, of any number of cells without levels.
            return Some(RowsInBox { first: 0, step: 1, rows: numbers.into(), levels });
        }
        let (lowest, step) = self.row_step(axes)?;
        let along: Vec<(usize, i64)> =
            (0..axes).rev().map(|axis| (owned.extent(axis), self.strides()[axis])).collect();
        let row = |&number: &u32| {
            let (mut rest, mut offset) = (number as usize, -lowest);
            for &(extent, stride) in &along {
                offset += (rest % extent) as i64 * stride;
                rest /= extent;
            }
            (rest == 0).then_some((offset / step) as u32)
        };
        let rows = numbers.iter().map(row).collect::<Option<Arc<[u32]>>>()?;
        let corner = self.offset(owned.lower(), 0)? as i64;
        Some(RowsInBox { first: corner + lowest, step, rows, levels })
    }

    /// Of the owned cells, along the first `axes` axes: the offset of the lowest one in memory from the first one, and the greatest
    /// common divisor of their distances, in elements. `None` if the highest one is 2^32 such steps or more from the lowest one.
    pub(crate) fn row_step(&self, axes: usize) -> Option<(i64, i64)> {
        if self.owned().is_empty() {
            return Some((0, 1));
        }
        let (mut lowest, mut highest, mut step) = (0, 0, 0);
        for axis in (0..axes).filter(|&axis| self.owned().extent(axis) > 1) {
            let stride = self.strides()[axis];
            let reach = (self.owned().extent(axis) as i64 - 1) * stride;
            lowest += reach.min(0);
            highest += reach.max(0);
            step = greatest_divisor(step, stride);
        }
        let step = step.max(1);
        u32::try_from((highest - lowest) / step).ok().map(|_| (lowest, step))
    }
}

/// The greatest common divisor of two numbers, not negative; every number divides 0.
fn greatest_divisor(one: i64, other: i64) -> i64 {
    if other == 0 { one.abs() } else { greatest_divisor(other, one % other) }
}
