//! The rows of a box of cells, one after the other.

use std::marker::PhantomData;

use super::place::Place;
use crate::domain::{IndexBox, MAX_AXES};
use crate::field::FieldError;

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
    /// Where the first rows are.
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
// SAFETY: a shared `RowsMut` gives nothing.
unsafe impl<T: Sync> Sync for RowsMut<'_, T> {}

/// The way through the rows of a box, the last axis fastest: distances from the first one, in elements.
#[derive(Debug, Clone)]
struct Walk {
    distance: isize,
    rows: usize,
    /// Elements of each row.
    length: usize,
    /// Along the other axes, the slowest first: how far it has come, the extent and the stride.
    axes: [(usize, usize, isize); MAX_AXES - 1],
}

impl<'a, T> Rows<'a, T> {
    /// # Safety
    /// `pointer` is the first element of the block that `place` is about, and nobody writes the elements of its region
    /// during `'a`.
    pub(super) unsafe fn new(
        pointer: *const T,
        place: &Place,
        axis: usize,
        cells: &IndexBox,
    ) -> Result<Self, FieldError> {
        let walk = Walk::new(place, axis, cells)?;
        Ok(Rows { pointer, walk, start: start(place, cells, &[0; MAX_AXES])?, lifetime: PhantomData })
    }
}

impl<'a, T, const N: usize> RowsAround<'a, T, N> {
    /// # Safety
    /// As for [`Rows::new`].
    pub(super) unsafe fn new<const A: usize>(
        pointer: *const T,
        place: &Place,
        axis: usize,
        cells: &IndexBox,
        offsets: [[i64; A]; N],
    ) -> Result<Self, FieldError> {
        let walk = Walk::new(place, axis, cells)?;
        if A != cells.axes() {
            return Err(FieldError::layout("the entries of an offset of rows", cells.axes(), A));
        }
        let mut starts = [0; N];
        for (found, offset) in starts.iter_mut().zip(&offsets) {
            *found = start(place, cells, offset)?;
        }
        Ok(RowsAround { pointer, walk, starts, lifetime: PhantomData })
    }
}

impl<'a, T> RowsMut<'a, T> {
    /// # Safety
    /// As for [`Rows::new`], and nobody else reads these elements either.
    pub(super) unsafe fn new(
        pointer: *mut T,
        place: &Place,
        axis: usize,
        cells: &IndexBox,
    ) -> Result<Self, FieldError> {
        let walk = Walk::new(place, axis, cells)?;
        Ok(RowsMut { pointer, walk, start: start(place, cells, &[0; MAX_AXES])?, lifetime: PhantomData })
    }
}

impl<'a, T> Iterator for Rows<'a, T> {
    type Item = &'a [T];

    #[inline]
    fn next(&mut self) -> Option<&'a [T]> {
        let at = self.walk.next()? + self.start;
        // SAFETY: the box lies in the region, and each of its rows in one piece.
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
        // Not by `map` of arrays, which is a call that is not inlined.
        let mut rows: [&'a [T]; N] = [&[]; N];
        for (row, start) in rows.iter_mut().zip(&self.starts) {
            // SAFETY: each of the boxes lies in the region, and each row in one piece.
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
        // SAFETY: the box lies in the region, each of its rows in one piece, and no two rows overlap.
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
    fn new(place: &Place, axis: usize, cells: &IndexBox) -> Result<Walk, FieldError> {
        let axes = place.region().axes();
        if cells.axes() != axes || axis >= axes {
            let found = format!("axis {axis} of {cells}");
            return Err(FieldError::layout("the axis of rows", format!("one of {axes} axes"), found));
        }
        let length = cells.extent(axis);
        let stride = place.stride(axis);
        if stride != 1 && length > 1 {
            let expected = format!("1 element from one cell to the next along axis {axis}");
            return Err(FieldError::layout("rows that lie in one piece", expected, stride));
        }
        let mut walk = Walk { distance: 0, rows: 1, length, axes: [(0, 1, 0); MAX_AXES - 1] };
        let others = (0..axes).rev().filter(|&other| other != axis);
        for (entry, other) in walk.axes.iter_mut().rev().zip(others) {
            *entry = (0, cells.extent(other), place.stride(other));
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

/// From the first element of the block to the lowest of `cells` moved by `offset`.
fn start(place: &Place, cells: &IndexBox, offset: &[i64]) -> Result<isize, FieldError> {
    if cells.is_empty() {
        return Ok(0);
    }
    // A box lies in the region if its lowest and its highest cell do.
    let moved = |corner: &[i64], back: i64| {
        let mut index = [0; MAX_AXES];
        for (axis, at) in corner.iter().enumerate() {
            index[axis] = (at - back).checked_add(*offset.get(axis)?)?;
        }
        place.offset_of(&index[..corner.len()])
    };
    match (moved(cells.lower(), 0), moved(cells.upper(), 1)) {
        (Some(lowest), Some(_)) => Ok(lowest),
        _ => {
            let moved = match &offset[..cells.axes()] {
                offset if offset.iter().all(|cells| *cells == 0) => String::new(),
                offset => format!(" moved by {offset:?}"),
            };
            let (cells, region) = (format!("{cells}{moved}"), place.region().to_string());
            Err(FieldError::OutsideOfView { cells, region })
        }
    }
}
