//! Views as arrays of the crate `ndarray`.

use std::ptr::NonNull;

use ndarray::{ArrayView, ArrayViewMut, Axis, Dimension, IxDyn, ShapeBuilder as _, StrideShape};

use super::region::Region;
use super::{View, ViewMut};
use crate::field::FieldError;

impl<'a, T: Copy> View<'a, T> {
    /// The region as an array with the axes of the cells, and a last axis for the components if there are several.
    /// Index 0 is the lowest cell of the [`region`](View::region). Copies nothing.
    ///
    /// ```
    /// # use haloport::field::FieldError;
    /// # use haloport::View;
    /// fn mean(view: &View<'_, f64>) -> Result<f64, FieldError> {
    ///     Ok(view.array::<ndarray::Ix3>()?.mean().unwrap_or(0.0))
    /// }
    /// ```
    ///
    /// # Errors
    /// [`FieldError::Layout`] if `I` has another number of axes (`IxDyn` has any), and for cells of several
    /// [blocks](crate::BlockLayout::blocks).
    pub fn array<I: Dimension>(&self) -> Result<ArrayView<'a, T, I>, FieldError> {
        check_blocks(&self.region)?;
        let (first, shape, reversed) = shape(&self.region);
        // SAFETY: the shape and the strides lead to the elements of the region and to no others, and nothing writes
        // them during `'a`. Negative strides are reversed, so `first` is the lowest address.
        let mut array =
            unsafe { ArrayView::from_shape_ptr(shape, first_of(&self.region, self.pointer, first)) };
        reversed.into_iter().for_each(|axis| array.invert_axis(Axis(axis)));
        let axes = array.ndim();
        array.into_dimensionality().map_err(|_| wrong_axes::<I>(axes))
    }
}

impl<T: Copy> ViewMut<'_, T> {
    /// As [`View::array`], for writing.
    ///
    /// # Errors
    /// As there.
    pub fn array_mut<I: Dimension>(&mut self) -> Result<ArrayViewMut<'_, T, I>, FieldError> {
        check_blocks(&self.region)?;
        let (first, shape, reversed) = shape(&self.region);
        let first = first_of(&self.region, self.pointer, first).cast_mut();
        // SAFETY: as in `View::array`; the elements are ours alone as long as `self` is borrowed, and no two indices
        // lead to the same one.
        let mut array = unsafe { ArrayViewMut::from_shape_ptr(shape, first) };
        reversed.into_iter().for_each(|axis| array.invert_axis(Axis(axis)));
        let axes = array.ndim();
        array.into_dimensionality().map_err(|_| wrong_axes::<I>(axes))
    }
}

/// Checks that the cells have one stride along each axis.
fn check_blocks(region: &Region) -> Result<(), FieldError> {
    let Some(blocks) = region.blocks() else { return Ok(()) };
    let expected = format!("cells of one block of {}", blocks.cells);
    Err(FieldError::layout("the cells of an array of a view", expected, region.cells()))
}

/// The lowest address of the elements; without elements, an address that is not null, as the block's may be.
fn first_of<T>(region: &Region, block: *const T, first: isize) -> *const T {
    if region.cells().is_empty() { NonNull::dangling().as_ptr() } else { block.wrapping_offset(first) }
}

fn wrong_axes<I: Dimension>(expected: usize) -> FieldError {
    let found = I::NDIM.map_or_else(|| "another number".to_string(), |axes| axes.to_string());
    FieldError::layout("the axes of an array of a view", expected, found)
}

/// The offset of the element at the lowest address from the first element of the block, the shape with absolute
/// strides, and the axes with negative strides.
fn shape(region: &Region) -> (isize, StrideShape<IxDyn>, Vec<usize>) {
    let cells = region.cells();
    let mut axes: Vec<(usize, isize)> =
        (0..cells.axes()).map(|axis| (cells.extent(axis), region.stride(axis))).collect();
    if region.components() > 1 {
        axes.push((region.components(), region.component_stride()));
    }
    let empty = cells.is_empty();
    let back = |(extent, stride): &(usize, isize)| stride.min(&0) * (*extent as isize - 1);
    let first = if empty { 0 } else { region.first() + axes.iter().map(back).sum::<isize>() };
    let reversed = (0..axes.len()).filter(|&axis| axes[axis].1 < 0).collect();
    let extents: Vec<usize> = axes.iter().map(|(extent, _)| if empty { 0 } else { *extent }).collect();
    let strides: Vec<usize> = axes.iter().map(|(_, stride)| stride.unsigned_abs()).collect();
    (first, IxDyn(&extents).strides(IxDyn(&strides)), reversed)
}
