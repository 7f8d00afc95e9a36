//! Views of the cells of a block, from the host.

use std::marker::PhantomData;

use super::BlockLayout;
use crate::domain::IndexBox;

/// Read access to the cells of a region of one block. Indices are global.
#[derive(Debug, Clone, Copy)]
pub struct View<'a, T> {
    pointer: *const T,
    layout: &'a BlockLayout,
    region: IndexBox,
    lifetime: PhantomData<&'a T>,
}

/// Read and write access to the cells of a region of one block. Indices are global.
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    pointer: *mut T,
    layout: &'a BlockLayout,
    region: IndexBox,
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
        View { pointer, layout, region, lifetime: PhantomData }
    }

    /// The cells that can be accessed.
    pub fn region(&self) -> IndexBox {
        self.region
    }

    /// How the block lies in memory.
    pub fn layout(&self) -> &'a BlockLayout {
        self.layout
    }

    /// Component 0 of a cell; `None` outside of the region.
    pub fn get(&self, index: &[i64]) -> Option<T> {
        self.component(index, 0)
    }

    /// A component of a cell; `None` outside of the region.
    pub fn component(&self, index: &[i64], component: usize) -> Option<T> {
        let offset = offset(self.layout, &self.region, index, component)?;
        // SAFETY: the cell lies in the region, which nobody writes.
        Some(unsafe { self.pointer.offset(offset).read() })
    }

    /// The cells from `index` to the end of the region along the axis whose cells lie side by side; `None` outside
    /// of the region and for layouts without such an axis.
    pub fn row(&self, index: &[i64]) -> Option<&'a [T]> {
        let (offset, length) = row(self.layout, &self.region, index)?;
        // SAFETY: the row lies in the region, which nobody writes during `'a`.
        Some(unsafe { std::slice::from_raw_parts(self.pointer.offset(offset), length) })
    }
}

impl<'a, T: Copy> ViewMut<'a, T> {
    /// # Safety
    /// As for [`View::new`], and nobody else reads the region's elements either.
    pub(crate) unsafe fn new(pointer: *mut T, layout: &'a BlockLayout, region: IndexBox) -> ViewMut<'a, T> {
        ViewMut { pointer, layout, region, lifetime: PhantomData }
    }

    /// The cells that can be accessed.
    pub fn region(&self) -> IndexBox {
        self.region
    }

    /// How the block lies in memory.
    pub fn layout(&self) -> &'a BlockLayout {
        self.layout
    }

    /// Read access to the same cells.
    pub fn as_view(&self) -> View<'_, T> {
        // SAFETY: this view is borrowed for as long as the new one lives, so nobody writes meanwhile.
        unsafe { View::new(self.pointer, self.layout, self.region) }
    }

    /// Sets component 0 of a cell; `false` outside of the region.
    pub fn set(&mut self, index: &[i64], value: T) -> bool {
        self.set_component(index, 0, value)
    }

    /// Sets a component of a cell; `false` outside of the region.
    pub fn set_component(&mut self, index: &[i64], component: usize, value: T) -> bool {
        let Some(offset) = offset(self.layout, &self.region, index, component) else { return false };
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

    /// Sets every component of every cell of the region to what `value` gives for its global index and component.
    pub fn fill_with(&mut self, mut value: impl FnMut(&[i64], usize) -> T) {
        let components = self.layout.components();
        for_each_index(&{ self.region }, |index| {
            for component in 0..components {
                self.set_component(index, component, value(index, component));
            }
        });
    }
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

fn offset(layout: &BlockLayout, region: &IndexBox, index: &[i64], component: usize) -> Option<isize> {
    region.contains(index).then(|| layout.offset(index, component)).flatten()
}

fn row(layout: &BlockLayout, region: &IndexBox, index: &[i64]) -> Option<(isize, usize)> {
    let axis = layout.row_axis()?;
    let offset = offset(layout, region, index, 0)?;
    Some((offset, (region.upper()[axis] - index[axis]) as usize))
}
