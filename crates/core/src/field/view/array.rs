//! Views as arrays of the crate `ndarray`.

use std::ptr::NonNull;

use ndarray::{ArrayView, ArrayViewMut, Axis, Dimension, IxDyn, ShapeBuilder as _, StrideShape};

use super::place::Place;
use super::{View, ViewMut};
use crate::field::FieldError;

impl<'a, T: Copy> View<'a, T> {
    /// The region as an array: an axis for each of the cells', and a last one for the components if there are several.
    /// Index 0 is the lowest cell of the [`region`](View::region). Copies nothing.
    ///
    /// ```
    /// # use haloport_core::{FieldError, View};
    /// fn mean(view: &View<'_, f64>) -> Result<f64, FieldError> {
    ///     Ok(view.array::<ndarray::Ix3>()?.mean().unwrap_or(0.0))
    /// }
    /// ```
    ///
    /// # Errors
    /// [`FieldError::Layout`] if `I` has another number of axes. `IxDyn` has any.
    pub fn array<I: Dimension>(&self) -> Result<ArrayView<'a, T, I>, FieldError> {
        let (first, shape, turned) = shape(&self.place);
        // SAFETY: the shape and the strides lead to the region's elements and to no others, and nobody writes them during
        // `'a`. Strides below 0 are turned round, so `first` is the lowest address.
        let mut array =
            unsafe { ArrayView::from_shape_ptr(shape, first_of(&self.place, self.pointer, first)) };
        turned.into_iter().for_each(|axis| array.invert_axis(Axis(axis)));
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
        let (first, shape, turned) = shape(&self.place);
        let first = first_of(&self.place, self.pointer, first).cast_mut();
        // SAFETY: as in `View::array`; the elements are ours alone as long as `self` is borrowed, and no two indices lead to
        // the same one.
        let mut array = unsafe { ArrayViewMut::from_shape_ptr(shape, first) };
        turned.into_iter().for_each(|axis| array.invert_axis(Axis(axis)));
        let axes = array.ndim();
        array.into_dimensionality().map_err(|_| wrong_axes::<I>(axes))
    }
}

/// The lowest address of the elements; without elements, one that is not null, which the block's may be.
fn first_of<T>(place: &Place, block: *const T, first: isize) -> *const T {
    if place.region().is_empty() { NonNull::dangling().as_ptr() } else { block.wrapping_offset(first) }
}

fn wrong_axes<I: Dimension>(expected: usize) -> FieldError {
    let found = I::NDIM.map_or_else(|| "another number".to_string(), |axes| axes.to_string());
    FieldError::layout("the axes of an array of a view", expected, found)
}

/// From the first element of the block to the one at the lowest address, the shape with strides that are not negative, and
/// the axes whose strides are.
fn shape(place: &Place) -> (isize, StrideShape<IxDyn>, Vec<usize>) {
    let region = place.region();
    let mut axes: Vec<(usize, isize)> =
        (0..region.axes()).map(|axis| (region.extent(axis), place.stride(axis))).collect();
    if place.components() > 1 {
        axes.push((place.components(), place.component_stride()));
    }
    let empty = region.is_empty();
    let back = |(extent, stride): &(usize, isize)| stride.min(&0) * (*extent as isize - 1);
    let first = if empty { 0 } else { place.first() + axes.iter().map(back).sum::<isize>() };
    let turned = (0..axes.len()).filter(|&axis| axes[axis].1 < 0).collect();
    let extents: Vec<usize> = axes.iter().map(|(extent, _)| if empty { 0 } else { *extent }).collect();
    let strides: Vec<usize> = axes.iter().map(|(_, stride)| stride.unsigned_abs()).collect();
    (first, IxDyn(&extents).strides(IxDyn(&strides)), turned)
}
