//! Access to the cells of a block from the host.

#[cfg(feature = "ndarray")]
mod array;
mod region;
mod rows;

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

pub use rows::{Rows, RowsAround, RowsMut};

use super::{BlockLayout, FieldError};
use crate::domain::IndexBox;
use region::Region;

/// Read access to the cells of a region of one block, from the host. Indices are global.
///
/// The ways to the values, from the fastest to the slowest:
/// - [`as_slice`](View::as_slice): the whole region as one slice, if it is contiguous;
/// - [`rows`](View::rows) and [`rows_around`](View::rows_around): the region, or a part of it, as one slice for each
///   row; loops over rows are as fast as over one slice (the benchmark `views`);
/// - `array`, with the feature `ndarray`: the region as an array of that crate;
/// - `view[[i, j, k]]`: one cell; panics outside of the region;
/// - [`get`](View::get): one cell, by a slice of indices.
///
/// ```
/// # use haloport::field::FieldError;
/// # use haloport::{Field, IndexBox, View};
/// /// The sum of the four neighbours of each cell of a box; the view has one more cell on each side.
/// fn sums(view: &View<'_, f64>, cells: &IndexBox) -> Result<Vec<f64>, FieldError> {
///     let mut sums = Vec::new();
///     for [north, south, west, east] in view.rows_around(1, cells, [[-1, 0], [1, 0], [0, -1], [0, 1]])? {
///         sums.extend((0..north.len()).map(|k| north[k] + south[k] + west[k] + east[k]));
///     }
///     Ok(sums)
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct View<'a, T> {
    pointer: *const T,
    layout: &'a BlockLayout,
    region: Region,
    lifetime: PhantomData<&'a T>,
}

/// Read and write access to the cells of a region of one block, from the host. Indices are global. The ways to the
/// values are those of [`View`].
///
/// ```
/// # use haloport::field::FieldError;
/// # use haloport::{Field, IndexBox, View, ViewMut};
/// /// One step of the heat equation, for the cells of a box.
/// fn heat(cells: &IndexBox, now: &View<'_, f64>, next: &mut ViewMut<'_, f64>) -> Result<(), FieldError> {
///     let around = now.rows_around(1, cells, [[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])?;
///     for (next, [here, north, south, west, east]) in next.rows_mut(1, cells)?.zip(around) {
///         let next = &mut next[..here.len()]; // spares the loop a check for each cell
///         for k in 0..here.len() {
///             next[k] = here[k] + 0.1 * (north[k] + south[k] + west[k] + east[k] - 4.0 * here[k]);
///         }
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    pointer: *mut T,
    layout: &'a BlockLayout,
    region: Region,
    lifetime: PhantomData<&'a mut T>,
}

// SAFETY: a `View` is a shared borrow of the region's elements.
unsafe impl<T: Sync> Send for View<'_, T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Sync> Sync for View<'_, T> {}
// SAFETY: a `ViewMut` is an exclusive borrow of the region's elements.
unsafe impl<T: Send> Send for ViewMut<'_, T> {}
// SAFETY: a shared `ViewMut` only reads.
unsafe impl<T: Sync> Sync for ViewMut<'_, T> {}

impl<'a, T: Copy> View<'a, T> {
    /// # Safety
    /// During `'a`, `pointer` is the first element of a block with this layout, `cells` lie within its allocated cells,
    /// and nothing writes their elements.
    pub(crate) unsafe fn new(pointer: *const T, layout: &'a BlockLayout, cells: IndexBox) -> View<'a, T> {
        View { pointer, layout, region: Region::new(layout, cells), lifetime: PhantomData }
    }

    /// The cells of the view.
    pub fn region(&self) -> IndexBox {
        *self.region.cells()
    }

    /// The layout of the block in memory.
    pub fn layout(&self) -> &'a BlockLayout {
        self.layout
    }

    /// The same cells with only one component, which [`get`](View::get), rows, slices and `view[[i, j]]` then access;
    /// `None` if there is no such component.
    pub fn of_component(&self, component: usize) -> Option<View<'a, T>> {
        Some(View { region: self.region.of_component(component)?, ..*self })
    }

    /// Component 0 of a cell; `None` outside of the region.
    #[inline]
    pub fn get(&self, index: &[i64]) -> Option<T> {
        let offset = self.region.offset_of(index)?;
        // SAFETY: the cell lies in the region, which nothing writes.
        Some(unsafe { self.pointer.offset(offset).read() })
    }

    /// A component of a cell; `None` outside of the region.
    #[inline]
    pub fn component(&self, index: &[i64], component: usize) -> Option<T> {
        let offset = self.region.component_offset(index, component)?;
        // SAFETY: as in `get`.
        Some(unsafe { self.pointer.offset(offset).read() })
    }

    /// The cells from `index` to the end of the region, or of their block of cells, along the axis with contiguous
    /// cells; `None` outside of the region, and for layouts without such an axis.
    pub fn row(&self, index: &[i64]) -> Option<&'a [T]> {
        let (offset, length) = row(self.layout, &self.region, index)?;
        // SAFETY: the row lies in the region, which nothing writes during `'a`.
        Some(unsafe { std::slice::from_raw_parts(self.pointer.offset(offset), length) })
    }

    /// The rows of a box of cells along `axis`, in the order of the other axes, the last one fastest; the first
    /// component of each cell. Allocates nothing.
    ///
    /// # Errors
    /// [`FieldError::OutsideOfView`] for cells that are not in the region; [`FieldError::Layout`] if the cells along
    /// `axis` are not contiguous, and for cells of several [blocks](BlockLayout::blocks). By default, the cells along
    /// the last axis are contiguous.
    pub fn rows(&self, axis: usize, cells: &IndexBox) -> Result<Rows<'a, T>, FieldError> {
        // SAFETY: nothing writes the region during `'a`.
        unsafe { Rows::new(self.pointer, &self.region, axis, cells) }
    }

    /// For each row of a box of cells, the rows that a stencil reads: those of the box moved by each of `offsets`. An
    /// offset has one entry for each axis, in cells. Otherwise as [`rows`](View::rows).
    ///
    /// # Errors
    /// As for [`rows`](View::rows), for the moved boxes.
    pub fn rows_around<const N: usize, const A: usize>(
        &self,
        axis: usize,
        cells: &IndexBox,
        offsets: [[i64; A]; N],
    ) -> Result<RowsAround<'a, T, N>, FieldError> {
        // SAFETY: as in `rows`.
        unsafe { RowsAround::new(self.pointer, &self.region, axis, cells, offsets) }
    }

    /// All elements of the region, if they are contiguous and no stride is negative, as in a whole block without
    /// padding; `None` for cells of several [blocks](BlockLayout::blocks). The strides are those of the [`layout`](View::layout), and the first element belongs to the lowest cell
    /// of the region.
    pub fn as_slice(&self) -> Option<&'a [T]> {
        let (offset, length) = self.region.contiguous()?;
        if length == 0 {
            // A block without cells may have any address.
            return Some(&[]);
        }
        // SAFETY: these are the region's elements and no others, which nothing writes during `'a`.
        Some(unsafe { std::slice::from_raw_parts(self.pointer.offset(offset), length) })
    }
}

impl<'a, T: Copy> ViewMut<'a, T> {
    /// # Safety
    /// As for [`View::new`], and nothing else reads the elements.
    pub(crate) unsafe fn new(pointer: *mut T, layout: &'a BlockLayout, cells: IndexBox) -> ViewMut<'a, T> {
        ViewMut { pointer, layout, region: Region::new(layout, cells), lifetime: PhantomData }
    }

    /// The cells of the view.
    pub fn region(&self) -> IndexBox {
        *self.region.cells()
    }

    /// The layout of the block in memory.
    pub fn layout(&self) -> &'a BlockLayout {
        self.layout
    }

    /// Read access to the same cells.
    pub fn as_view(&self) -> View<'_, T> {
        View { pointer: self.pointer, layout: self.layout, region: self.region, lifetime: PhantomData }
    }

    /// The same cells with only one component, as [`View::of_component`].
    pub fn of_component(&mut self, component: usize) -> Option<ViewMut<'_, T>> {
        let region = self.region.of_component(component)?;
        Some(ViewMut { pointer: self.pointer, layout: self.layout, region, lifetime: PhantomData })
    }

    /// Sets component 0 of a cell; `false` outside of the region.
    #[inline]
    #[must_use = "`false` says that the cell is outside of the region and nothing was set; `view[[i, j]] = value` panics there"]
    pub fn set(&mut self, index: &[i64], value: T) -> bool {
        self.set_component(index, 0, value)
    }

    /// Sets a component of a cell; `false` outside of the region.
    #[inline]
    #[must_use = "`false` says that the cell is outside of the region and nothing was set"]
    pub fn set_component(&mut self, index: &[i64], component: usize, value: T) -> bool {
        let Some(offset) = self.region.component_offset(index, component) else { return false };
        // SAFETY: the cell lies in the region, which is ours alone.
        unsafe { self.pointer.offset(offset).write(value) };
        true
    }

    /// As [`View::row`], for writing.
    pub fn row_mut(&mut self, index: &[i64]) -> Option<&mut [T]> {
        let (offset, length) = row(self.layout, &self.region, index)?;
        // SAFETY: the row lies in the region, which is ours alone as long as `self` is borrowed.
        Some(unsafe { std::slice::from_raw_parts_mut(self.pointer.offset(offset), length) })
    }

    /// As [`View::rows`], for writing.
    ///
    /// # Errors
    /// As there.
    pub fn rows_mut(&mut self, axis: usize, cells: &IndexBox) -> Result<RowsMut<'_, T>, FieldError> {
        // SAFETY: the region is ours alone as long as `self` is borrowed.
        unsafe { RowsMut::new(self.pointer, &self.region, axis, cells) }
    }

    /// As [`View::as_slice`], for writing.
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        let (offset, length) = self.region.contiguous()?;
        if length == 0 {
            return Some(&mut []);
        }
        // SAFETY: these are the region's elements and no others, which are ours alone as long as `self` is borrowed.
        Some(unsafe { std::slice::from_raw_parts_mut(self.pointer.offset(offset), length) })
    }

    /// Sets each component of each cell of the region to the result of `value` for its global index and component.
    pub fn fill_with(&mut self, mut value: impl FnMut(&[i64], usize) -> T) {
        let components = self.region.components();
        for_each_index(&self.region(), |index| {
            for component in 0..components {
                let is_set = self.set_component(index, component, value(index, component));
                debug_assert!(is_set, "the region has {index:?}");
            }
        });
    }
}

/// Component 0 of a cell.
///
/// # Panics
/// Outside of the region, and for another number of axes.
impl<T: Copy, const N: usize> Index<[i64; N]> for View<'_, T> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, index: [i64; N]) -> &T {
        match self.region.offset(&index) {
            // SAFETY: the cell lies in the region, which nothing writes as long as the view lives.
            Some(offset) => unsafe { &*self.pointer.offset(offset) },
            None => outside(index, self.region.cells()),
        }
    }
}

/// Component 0 of a cell.
///
/// # Panics
/// Outside of the region, and for another number of axes.
impl<T: Copy, const N: usize> Index<[i64; N]> for ViewMut<'_, T> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, index: [i64; N]) -> &T {
        match self.region.offset(&index) {
            // SAFETY: the cell lies in the region, which is ours alone, and `self` is borrowed.
            Some(offset) => unsafe { &*self.pointer.offset(offset) },
            None => outside(index, self.region.cells()),
        }
    }
}

impl<T: Copy, const N: usize> IndexMut<[i64; N]> for ViewMut<'_, T> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, index: [i64; N]) -> &mut T {
        match self.region.offset(&index) {
            // SAFETY: the cell lies in the region, which is ours alone as long as `self` is borrowed.
            Some(offset) => unsafe { &mut *self.pointer.offset(offset) },
            None => outside(index, self.region.cells()),
        }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn outside<const N: usize>(index: [i64; N], region: &IndexBox) -> ! {
    panic!("the cell {index:?} is outside of the view, which has {region}")
}

/// Calls `visit` with the index of every cell of the region, the last axis fastest.
fn for_each_index(region: &IndexBox, mut visit: impl FnMut(&[i64])) {
    if region.is_empty() {
        return;
    }
    let (lower, upper) = (region.lower(), region.upper());
    let mut index = lower.to_vec();
    loop {
        visit(&index);
        let mut axis = index.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < upper[axis] {
                break;
            }
            index[axis] = lower[axis];
        }
    }
}

/// The offset of the cell `index` from the first element of the block, and the number of cells from there to the end of
/// its row.
fn row(layout: &BlockLayout, region: &Region, index: &[i64]) -> Option<(isize, usize)> {
    let axis = layout.row_axis()?;
    let offset = region.offset_of(index)?;
    let mut past = region.cells().upper()[axis];
    if let Some(blocks) = region.blocks().filter(|_| axis == 0) {
        past = past.min((index[0] / blocks.cells as i64 + 1) * blocks.cells as i64);
    }
    Some((offset, (past - index[axis]) as usize))
}
