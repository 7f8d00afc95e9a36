//! Views of the cells of a block, from the host.

#[cfg(feature = "ndarray")]
mod array;
mod place;
mod rows;

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

pub use rows::{Rows, RowsAround, RowsMut};

use super::{BlockLayout, FieldError};
use crate::domain::IndexBox;
use place::Place;

/// Read access to the cells of a region of one block, from the host. Indices are global.
///
/// From the quickest to the slowest, with the same values:
/// - [`as_slice`](View::as_slice): all of a region that lies in one piece;
/// - [`rows`](View::rows) and [`rows_around`](View::rows_around): slices, also of a part of the region, whatever lies
///   between them; loops over them are as quick as over a slice (the benchmark `views`);
/// - `array`, with the feature `ndarray`: the region as an array of that crate;
/// - `view[[i, j, k]]`: one cell, which panics outside of the region;
/// - [`get`](View::get): one cell, by a slice of indices.
///
/// ```
/// # use haloport_core::{Field, FieldError, IndexBox, View};
/// /// The sum of the four neighbours of each cell of a box, as wide as the halo within the view.
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
    place: Place,
    lifetime: PhantomData<&'a T>,
}

/// Read and write access to the cells of a region of one block, from the host. Indices are global. See [`View`] for the
/// ways to them, which are the same.
///
/// ```
/// # use haloport_core::{Field, FieldError, IndexBox, View, ViewMut};
/// /// One step of the heat equation, for the cells of a box.
/// fn heat(cells: &IndexBox, now: &View<'_, f64>, next: &mut ViewMut<'_, f64>) -> Result<(), FieldError> {
///     let around = now.rows_around(1, cells, [[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])?;
///     for (next, [here, north, south, west, east]) in next.rows_mut(1, cells)?.zip(around) {
///         let next = &mut next[..here.len()]; // said here, the loop need not check it for each cell
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
    place: Place,
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
    /// For `'a`, `pointer` is the first element of a block with this layout, `region` lies in what the layout
    /// allocates, and nobody writes the region's elements.
    pub(crate) unsafe fn new(pointer: *const T, layout: &'a BlockLayout, region: IndexBox) -> View<'a, T> {
        View { pointer, layout, place: Place::new(layout, region), lifetime: PhantomData }
    }

    /// The cells that can be accessed.
    pub fn region(&self) -> IndexBox {
        *self.place.region()
    }

    /// How the block lies in memory.
    pub fn layout(&self) -> &'a BlockLayout {
        self.layout
    }

    /// The same cells with one component alone, which [`get`](View::get), rows, slices and `view[[i, j]]` then are of;
    /// `None` if there is no such component.
    pub fn of_component(&self, component: usize) -> Option<View<'a, T>> {
        Some(View { place: self.place.of_component(component)?, ..*self })
    }

    /// Component 0 of a cell; `None` outside of the region.
    #[inline]
    pub fn get(&self, index: &[i64]) -> Option<T> {
        let offset = self.place.offset_of(index)?;
        // SAFETY: the cell lies in the region, which nobody writes.
        Some(unsafe { self.pointer.offset(offset).read() })
    }

    /// A component of a cell; `None` outside of the region.
    #[inline]
    pub fn component(&self, index: &[i64], component: usize) -> Option<T> {
        let offset = self.place.component_offset(index, component)?;
        // SAFETY: as in `get`.
        Some(unsafe { self.pointer.offset(offset).read() })
    }

    /// The cells from `index` to the end of the region along the axis whose cells lie side by side; `None` outside
    /// of the region and for layouts without such an axis.
    pub fn row(&self, index: &[i64]) -> Option<&'a [T]> {
        let (offset, length) = row(self.layout, &self.place, index)?;
        // SAFETY: the row lies in the region, which nobody writes during `'a`.
        Some(unsafe { std::slice::from_raw_parts(self.pointer.offset(offset), length) })
    }

    /// The rows of a box of cells along `axis`, in the order of the other axes, the last one fastest. Of a cell with
    /// several components, the first. Allocates nothing.
    ///
    /// # Errors
    /// [`FieldError::OutsideOfView`] for cells that are not in the region; [`FieldError::Layout`] if the cells along `axis`
    /// do not lie side by side: by default those of the last axis do.
    pub fn rows(&self, axis: usize, cells: &IndexBox) -> Result<Rows<'a, T>, FieldError> {
        // SAFETY: nobody writes the region during `'a`.
        unsafe { Rows::new(self.pointer, &self.place, axis, cells) }
    }

    /// For each row of a box of cells the rows of the box moved by each of `offsets`: what a stencil reads. Each offset has
    /// an entry for each axis, in cells. Otherwise as [`rows`](View::rows).
    ///
    /// # Errors
    /// As for [`rows`](View::rows), of the boxes that are moved.
    pub fn rows_around<const N: usize, const A: usize>(
        &self,
        axis: usize,
        cells: &IndexBox,
        offsets: [[i64; A]; N],
    ) -> Result<RowsAround<'a, T, N>, FieldError> {
        // SAFETY: as in `rows`.
        unsafe { RowsAround::new(self.pointer, &self.place, axis, cells, offsets) }
    }

    /// All elements of the region, if they lie side by side without gaps and no stride is negative: as of a whole block with
    /// no padding. The strides are those of the [`layout`](View::layout), the first element is that of the region's lowest
    /// cell.
    pub fn as_slice(&self) -> Option<&'a [T]> {
        let (offset, length) = self.place.in_one_piece()?;
        if length == 0 {
            // A block without cells may have any address.
            return Some(&[]);
        }
        // SAFETY: these are the region's elements and no others, which nobody writes during `'a`.
        Some(unsafe { std::slice::from_raw_parts(self.pointer.offset(offset), length) })
    }
}

impl<'a, T: Copy> ViewMut<'a, T> {
    /// # Safety
    /// As for [`View::new`], and nobody else reads the region's elements either.
    pub(crate) unsafe fn new(pointer: *mut T, layout: &'a BlockLayout, region: IndexBox) -> ViewMut<'a, T> {
        ViewMut { pointer, layout, place: Place::new(layout, region), lifetime: PhantomData }
    }

    /// The cells that can be accessed.
    pub fn region(&self) -> IndexBox {
        *self.place.region()
    }

    /// How the block lies in memory.
    pub fn layout(&self) -> &'a BlockLayout {
        self.layout
    }

    /// Read access to the same cells.
    pub fn as_view(&self) -> View<'_, T> {
        View { pointer: self.pointer, layout: self.layout, place: self.place, lifetime: PhantomData }
    }

    /// The same cells with one component alone, as [`View::of_component`] has them.
    pub fn of_component(&mut self, component: usize) -> Option<ViewMut<'_, T>> {
        let place = self.place.of_component(component)?;
        Some(ViewMut { pointer: self.pointer, layout: self.layout, place, lifetime: PhantomData })
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
        let Some(offset) = self.place.component_offset(index, component) else { return false };
        // SAFETY: the cell lies in the region, which is ours alone.
        unsafe { self.pointer.offset(offset).write(value) };
        true
    }

    /// As [`View::row`], for writing.
    pub fn row_mut(&mut self, index: &[i64]) -> Option<&mut [T]> {
        let (offset, length) = row(self.layout, &self.place, index)?;
        // SAFETY: the row lies in the region, which is ours alone as long as `self` is borrowed.
        Some(unsafe { std::slice::from_raw_parts_mut(self.pointer.offset(offset), length) })
    }

    /// As [`View::rows`], for writing.
    ///
    /// # Errors
    /// As there.
    pub fn rows_mut(&mut self, axis: usize, cells: &IndexBox) -> Result<RowsMut<'_, T>, FieldError> {
        // SAFETY: the region is ours alone as long as `self` is borrowed.
        unsafe { RowsMut::new(self.pointer, &self.place, axis, cells) }
    }

    /// As [`View::as_slice`], for writing.
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        let (offset, length) = self.place.in_one_piece()?;
        if length == 0 {
            return Some(&mut []);
        }
        // SAFETY: these are the region's elements and no others, which are ours alone as long as `self` is borrowed.
        Some(unsafe { std::slice::from_raw_parts_mut(self.pointer.offset(offset), length) })
    }

    /// Sets every component of every cell of the region to what `value` gives for its global index and component.
    pub fn fill_with(&mut self, mut value: impl FnMut(&[i64], usize) -> T) {
        let components = self.place.components();
        for_each_index(&self.region(), |index| {
            for component in 0..components {
                let is_set = self.set_component(index, component, value(index, component));
                debug_assert!(is_set, "the region holds {index:?}");
            }
        });
    }
}

/// Component 0 of a cell.
///
/// # Panics
/// Outside of the region, and for another number of axes, as slices do.
impl<T: Copy, const N: usize> Index<[i64; N]> for View<'_, T> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, index: [i64; N]) -> &T {
        match self.place.offset(&index) {
            // SAFETY: the cell lies in the region, which nobody writes as long as the view lives.
            Some(offset) => unsafe { &*self.pointer.offset(offset) },
            None => outside(index, self.place.region()),
        }
    }
}

/// Component 0 of a cell.
///
/// # Panics
/// Outside of the region, and for another number of axes, as slices do.
impl<T: Copy, const N: usize> Index<[i64; N]> for ViewMut<'_, T> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, index: [i64; N]) -> &T {
        match self.place.offset(&index) {
            // SAFETY: the cell lies in the region, which is ours alone, and `self` is borrowed.
            Some(offset) => unsafe { &*self.pointer.offset(offset) },
            None => outside(index, self.place.region()),
        }
    }
}

impl<T: Copy, const N: usize> IndexMut<[i64; N]> for ViewMut<'_, T> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, index: [i64; N]) -> &mut T {
        match self.place.offset(&index) {
            // SAFETY: the cell lies in the region, which is ours alone as long as `self` is borrowed.
            Some(offset) => unsafe { &mut *self.pointer.offset(offset) },
            None => outside(index, self.place.region()),
        }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn outside<const N: usize>(index: [i64; N], region: &IndexBox) -> ! {
    panic!("the cell {index:?} is outside of the view, which holds {region}")
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

/// From the first element of the block to `index`, and how many cells follow in its row.
fn row(layout: &BlockLayout, place: &Place, index: &[i64]) -> Option<(isize, usize)> {
    let axis = layout.row_axis()?;
    let offset = place.offset_of(index)?;
    Some((offset, (place.region().upper()[axis] - index[axis]) as usize))
}
