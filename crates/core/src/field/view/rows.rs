//! Iterators over the rows of a box of cells.

use std::marker::PhantomData;

use super::region::Region;
use crate::domain::{IndexBox, MAX_AXES};
use crate::field::{CellBlocks, FieldError};

/// The rows of a box of cells: see [`View::rows`](super::View::rows).
#[derive(Debug, Clone)]
pub struct Rows<'a, T> {
    pointer: *const T,
    walk: Walk,
    start: isize,
    lifetime: PhantomData<&'a T>,
}

/// The rows of a box of cells and of boxes beside it: see [`View::rows_around`](super::View::rows_around).
#[derive(Debug, Clone)]
pub struct RowsAround<'a, T, const N: usize> {
    pointer: *const T,
    walk: Walk,
    /// The offsets of the first rows.
    starts: [isize; N],
    lifetime: PhantomData<&'a T>,
}

/// The rows of a box of cells, for writing: see [`ViewMut::rows_mut`](super::ViewMut::rows_mut).
#[derive(Debug)]
pub struct RowsMut<'a, T> {
    pointer: *mut T,
    walk: Walk,
    start: isize,
    lifetime: PhantomData<&'a mut T>,
}

// SAFETY: these are shared borrows of elements.
unsafe impl<T: Sync> Send for Rows<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Rows<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync, const N: usize> Send for RowsAround<'_, T, N> {}
// SAFETY: as above.
unsafe impl<T: Sync, const N: usize> Sync for RowsAround<'_, T, N> {}
// SAFETY: these are exclusive borrows of elements.
unsafe impl<T: Send> Send for RowsMut<'_, T> {}
// SAFETY: a shared `RowsMut` gives no access.
unsafe impl<T: Sync> Sync for RowsMut<'_, T> {}

/// An iterator over the offsets of the rows of a box from its first row, in elements, with the last axis fastest.
#[derive(Debug, Clone)]
struct Walk {
    distance: isize,
    rows: usize,
    /// The number of elements of each row.
    length: usize,
    /// For each other axis, slowest first: the current index, the extent and the stride.
    axes: [(usize, usize, isize); MAX_AXES - 1],
}

impl<'a, T> Rows<'a, T> {
    /// # Safety
    /// `pointer` is the first element of the block of `region`, and nothing writes the elements of the region during
    /// `'a`.
    pub(super) unsafe fn new(
        pointer: *const T,
        region: &Region,
        axis: usize,
        cells: &IndexBox,
    ) -> Result<Self, FieldError> {
        let walk = Walk::new(region, axis, cells)?;
        Ok(Rows { pointer, walk, start: start(region, cells, &[0; MAX_AXES])?, lifetime: PhantomData })
    }
}

impl<'a, T, const N: usize> RowsAround<'a, T, N> {
    /// # Safety
    /// As for [`Rows::new`].
    pub(super) unsafe fn new<const A: usize>(
        pointer: *const T,
        region: &Region,
        axis: usize,
        cells: &IndexBox,
        offsets: [[i64; A]; N],
    ) -> Result<Self, FieldError> {
        let walk = Walk::new(region, axis, cells)?;
        if A != cells.axes() {
            return Err(FieldError::layout("the entries of an offset of rows", cells.axes(), A));
        }
        let mut starts = [0; N];
        for (found, offset) in starts.iter_mut().zip(&offsets) {
            *found = start(region, cells, offset)?;
        }
        Ok(RowsAround { pointer, walk, starts, lifetime: PhantomData })
    }
}

impl<'a, T> RowsMut<'a, T> {
    /// # Safety
    /// As for [`Rows::new`], and nothing else reads these elements.
    pub(super) unsafe fn new(
        pointer: *mut T,
        region: &Region,
        axis: usize,
        cells: &IndexBox,
    ) -> Result<Self, FieldError> {
        let walk = Walk::new(region, axis, cells)?;
        Ok(RowsMut { pointer, walk, start: start(region, cells, &[0; MAX_AXES])?, lifetime: PhantomData })
    }
}

impl<'a, T> Iterator for Rows<'a, T> {
    type Item = &'a [T];

    #[inline]
    fn next(&mut self) -> Option<&'a [T]> {
        let at = self.walk.next()? + self.start;
        // SAFETY: the box lies in the region, and each of its rows is contiguous.
        Some(unsafe { std::slice::from_raw_parts(self.pointer.offset(at), self.walk.length) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.walk.rows, Some(self.walk.rows))
    }
}

impl<'a, T, const N: usize> Iterator for RowsAround<'a, T, N> {
    type Item = [&'a [T]; N];

    #[inline]
    fn next(&mut self) -> Option<[&'a [T]; N]> {
        let distance = self.walk.next()?;
        // `map` of arrays would be a call that is not inlined.
        let mut rows: [&'a [T]; N] = [&[]; N];
        for (row, start) in rows.iter_mut().zip(&self.starts) {
            // SAFETY: each of the boxes lies in the region, and each row is contiguous.
            *row = unsafe {
                std::slice::from_raw_parts(self.pointer.offset(start + distance), self.walk.length)
            };
        }
        Some(rows)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.walk.rows, Some(self.walk.rows))
    }
}

impl<'a, T> Iterator for RowsMut<'a, T> {
    type Item = &'a mut [T];

    #[inline]
    fn next(&mut self) -> Option<&'a mut [T]> {
        let at = self.walk.next()? + self.start;
        // SAFETY: the box lies in the region, each of its rows is contiguous, and no two rows overlap.
        Some(unsafe { std::slice::from_raw_parts_mut(self.pointer.offset(at), self.walk.length) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.walk.rows, Some(self.walk.rows))
    }
}

impl<T> ExactSizeIterator for Rows<'_, T> {}
impl<T, const N: usize> ExactSizeIterator for RowsAround<'_, T, N> {}
impl<T> ExactSizeIterator for RowsMut<'_, T> {}

impl Walk {
    fn new(region: &Region, axis: usize, cells: &IndexBox) -> Result<Walk, FieldError> {
        let axes = region.cells().axes();
        if cells.axes() != axes || axis >= axes {
            let found = format!("axis {axis} of {cells}");
            return Err(FieldError::layout("the axis of rows", format!("one of {axes} axes"), found));
        }
        let length = cells.extent(axis);
        let stride = region.stride(axis);
        if stride != 1 && length > 1 {
            let expected = format!("1 element from one cell to the next along axis {axis}");
            return Err(FieldError::layout("the stride of contiguous rows", expected, stride));
        }
        let mut walk = Walk { distance: 0, rows: 1, length, axes: [(0, 1, 0); MAX_AXES - 1] };
        let others = (0..axes).rev().filter(|&other| other != axis);
        for (entry, other) in walk.axes.iter_mut().rev().zip(others) {
            *entry = (0, cells.extent(other), region.stride(other));
            walk.rows = walk.rows.saturating_mul(entry.1);
        }
        if length == 0 {
            walk.rows = 0;
        }
        Ok(walk)
    }

    #[inline]
    fn next(&mut self) -> Option<isize> {
        self.rows = self.rows.checked_sub(1)?;
        let here = self.distance;
        for (at, extent, stride) in self.axes.iter_mut().rev() {
            *at += 1;
            self.distance = self.distance.wrapping_add(*stride);
            if *at < *extent {
                break;
            }
            *at = 0;
            self.distance = self.distance.wrapping_sub(stride.wrapping_mul(*extent as isize));
        }
        Some(here)
    }
}

/// The offset of the lowest of `cells`, moved by `offset`, from the first element of the block.
fn start(region: &Region, cells: &IndexBox, offset: &[i64]) -> Result<isize, FieldError> {
    if cells.is_empty() {
        return Ok(0);
    }
    // A box lies in the region if its lowest and its highest cell do.
    let moved = |corner: &[i64], back: i64| {
        let mut index = [0; MAX_AXES];
        for (axis, at) in corner.iter().enumerate() {
            index[axis] = (at - back).checked_add(*offset.get(axis)?)?;
        }
        region.offset_of(&index[..corner.len()])
    };
    let in_one_block = |blocks: &CellBlocks| {
        let block = |cell: i64| (cell + offset[0]).div_euclid(blocks.cells as i64);
        block(cells.lower()[0]) == block(cells.upper()[0] - 1)
    };
    match (moved(cells.lower(), 0), moved(cells.upper(), 1)) {
        (Some(_), Some(_)) if !region.blocks().is_none_or(in_one_block) => {
            let per_block = region.blocks().map_or(0, |blocks| blocks.cells);
            let expected = format!("cells of one block of {per_block}");
            Err(FieldError::layout("the cells of rows", expected, cells))
        }
        (Some(lowest), Some(_)) => Ok(lowest),
        _ => {
            let moved = match &offset[..cells.axes()] {
                offset if offset.iter().all(|cells| *cells == 0) => String::new(),
                offset => format!(" moved by {offset:?}"),
            };
            let (cells, region) = (format!("{cells}{moved}"), region.cells().to_string());
            Err(FieldError::OutsideOfView { cells, region })
        }
    }
}
