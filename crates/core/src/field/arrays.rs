//! Fields in arrays of other programs.

use std::any::Any;

use super::{AnyField, BlockLayout, ComponentPlace, Field, FieldError};
use crate::device::{Device, Pointer};
use crate::domain::IndexBox;
use crate::element::{Element, ElementType};
use crate::interop::{ArrayDescription, Protocol};

impl BlockLayout {
    /// The layout of an array with the cells `allocated`, of which the domain owns `owned`. The axes of the array are
    /// those of the cells, in their order, with any strides. An array with components has one more axis: the last one
    /// for
    /// [`ComponentPlace::Fastest`], the first one for [`ComponentPlace::Slowest`].
    ///
    /// # Errors
    /// [`FieldError::Layout`] for an array of another shape, and as for [`new`](BlockLayout::new).
    pub fn of_array(
        owned: IndexBox,
        allocated: IndexBox,
        array: &ArrayDescription,
        components: Option<ComponentPlace>,
    ) -> Result<BlockLayout, FieldError> {
        let (mut shape, mut strides) = (array.shape(), array.strides());
        let (mut count, mut apart) = (1, 1);
        let split = match components {
            None => None,
            Some(ComponentPlace::Fastest) => shape
                .split_last()
                .zip(strides.split_last())
                .map(|((n, shape), (by, strides))| (n, by, shape, strides)),
            Some(ComponentPlace::Slowest) => shape
                .split_first()
                .zip(strides.split_first())
                .map(|((n, shape), (by, strides))| (n, by, shape, strides)),
        };
        if let Some((n, by, cells, apart_cells)) = split {
            (count, apart, shape, strides) = (*n, *by as i64, cells, apart_cells);
        }
        let extents: Vec<usize> = (0..allocated.axes()).map(|axis| allocated.extent(axis)).collect();
        if shape != extents || components.is_some() != split.is_some() {
            let axis = match components {
                None => "",
                Some(ComponentPlace::Fastest) => " and a last axis of components",
                Some(ComponentPlace::Slowest) => " after a first axis of components",
            };
            let expected = format!("{extents:?}{axis}, for the cells {allocated}");
            let found = format!("{:?}", array.shape());
            return Err(FieldError::layout("the shape of an array of a field", expected, found));
        }
        let strides: Vec<i64> = strides.iter().map(|&stride| stride as i64).collect();
        BlockLayout::new(owned, allocated, strides, count, apart)
    }
}

impl<D: Device> AnyField<D> {
    /// A field in arrays of another program, with the type of their elements: for each domain of the pattern the array,
    /// and its layout, as from [`BlockLayout::of_array`]. `owner` keeps the arrays alive, and lives as long as the field
    /// or an exchange of it.
    ///
    /// # Errors
    /// [`FieldError::Array`] for a read-only array; [`FieldError::Layout`] for no arrays, arrays of several types, and
    /// a layout that exceeds its array.
    ///
    /// # Safety
    /// As for [`Field::from_raw`]. Each description is true, and `device` reaches its memory.
    pub unsafe fn in_arrays(
        device: &D,
        blocks: Vec<(ArrayDescription, BlockLayout)>,
        host_accessible: bool,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<AnyField<D>, FieldError> {
        let Some((first, _)) = blocks.first() else {
            return Err(FieldError::layout("the number of arrays of a field", "at least 1", 0));
        };
        let element = first.element();
        check_arrays(&blocks, element)?;
        // SAFETY: the caller's promise; the layouts stay within the arrays, whose addresses were checked.
        Ok(unsafe { AnyField::from_raw(device, element, firsts(blocks), host_accessible, owner) })
    }
}

impl<T: Element, D: Device> Field<T, D> {
    /// A field in arrays of another program: for each domain of the pattern the array, and its layout, as from
    /// [`BlockLayout::of_array`]. `owner` keeps the arrays alive, and lives as long as the field or an exchange of it.
    ///
    /// # Errors
    /// [`FieldError::Array`] for a read-only array; [`FieldError::Layout`] for elements that are not `T`, and a layout
    /// that exceeds its array.
    ///
    /// # Safety
    /// As for [`from_raw`](Field::from_raw). Each description is true, and `device` reaches its memory.
    pub unsafe fn in_arrays(
        device: &D,
        blocks: Vec<(ArrayDescription, BlockLayout)>,
        host_accessible: bool,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<Field<T, D>, FieldError> {
        check_arrays(&blocks, T::TYPE)?;
        // SAFETY: the caller's promise; the layouts stay within the arrays, whose addresses were checked.
        Ok(unsafe { Field::from_raw(device, firsts(blocks), host_accessible, owner) })
    }
}

/// Checks that the arrays may be written, have elements of this type, and hold the cells of their layouts.
fn check_arrays(blocks: &[(ArrayDescription, BlockLayout)], element: ElementType) -> Result<(), FieldError> {
    for (array, layout) in blocks {
        array.check_writable(Protocol::Description)?;
        if array.element() != element {
            return Err(FieldError::layout("the elements of an array", element, array.element()));
        }
        let ((low, high), (lowest, highest)) = (layout.span(), array.span());
        if low < lowest || high > highest {
            let expected = format!("elements from {lowest} to {highest}, those of its array");
            let found = format!("from {low} to {high}");
            return Err(FieldError::layout("the layout of a field", expected, found));
        }
    }
    Ok(())
}

/// The address of the first element of each array, and the layout.
fn firsts(blocks: Vec<(ArrayDescription, BlockLayout)>) -> Vec<(Pointer, BlockLayout)> {
    blocks.into_iter().map(|(array, layout)| (array.first(), layout)).collect()
}
