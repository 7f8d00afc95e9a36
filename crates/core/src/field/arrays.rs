//! Fields in arrays of other programs.

use std::any::Any;

use super::{BlockLayout, ComponentPlace, Field, FieldError};
use crate::device::Device;
use crate::domain::IndexBox;
use crate::element::Element;
use crate::interop::{ArrayDescription, Protocol};

impl BlockLayout {
    /// The layout of an array that holds the cells `allocated`, of which the domain owns `owned`: each axis of the array
    /// is one of the cells, in their order, with any strides. An array with one axis more holds the components along it,
    /// which is its last axis for [`ComponentPlace::Fastest`] and its first for [`ComponentPlace::Slowest`].
    ///
    /// # Errors
    /// [`FieldError::Layout`] for an array of another shape, and what [`new`](BlockLayout::new) refuses.
    pub fn of_array(
        owned: IndexBox,
        allocated: IndexBox,
        array: &ArrayDescription,
        components: Option<ComponentPlace>,
    ) -> Result<BlockLayout, FieldError> {
        let (mut shape, mut strides) = (array.shape(), array.strides());
        let (mut count, mut apart) = (1, 1);
        let place = match components {
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
        if let Some((n, by, cells, apart_cells)) = place {
            (count, apart, shape, strides) = (*n, *by as i64, cells, apart_cells);
        }
        let extents: Vec<usize> = (0..allocated.axes()).map(|axis| allocated.extent(axis)).collect();
        if shape != extents || components.is_some() != place.is_some() {
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

impl<T: Element, D: Device> Field<T, D> {
    /// A field in arrays of another program: for each domain of the pattern the array, and a layout as
    /// [`BlockLayout::of_array`] makes it. `owner` keeps the arrays alive; it is kept as long as the field or an exchange
    /// of it lives.
    ///
    /// # Errors
    /// [`FieldError::Array`] for an array that cannot be written; [`FieldError::Layout`] for elements that are not `T`, and a
    /// layout that leads out of its array.
    ///
    /// # Safety
    /// As for [`from_raw`](Field::from_raw): each description is true, its memory can be reached by `device`, and nobody
    /// else uses it as is said there.
    pub unsafe fn in_arrays(
        device: &D,
        blocks: Vec<(ArrayDescription, BlockLayout)>,
        host_accessible: bool,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<Field<T, D>, FieldError> {
        for (array, layout) in &blocks {
            array.check_writable(Protocol::Description)?;
            if array.element() != T::TYPE {
                return Err(FieldError::layout("the elements of an array", T::TYPE, array.element()));
            }
            let ((low, high), (lowest, highest)) = (layout.span(), array.span());
            if low < lowest || high > highest {
                let expected = format!("elements from {lowest} to {highest}, those of its array");
                return Err(FieldError::layout(
                    "the layout of a field",
                    expected,
                    format!("from {low} to {high}"),
                ));
            }
        }
        let blocks = blocks.into_iter().map(|(array, layout)| (array.first(), layout)).collect();
        // SAFETY: the caller's promise; the layouts stay within the arrays, whose addresses were checked.
        Ok(unsafe { Field::from_raw(device, blocks, host_accessible, owner) })
    }
}
