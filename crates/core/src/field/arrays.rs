//! Fields in arrays of other programs.

use std::any::Any;
use std::marker::PhantomData;

use super::{AnyField, BlockLayout, CellBlocks, ComponentPlace, Field, FieldError};
use crate::device::Device;
use crate::domain::IndexBox;
use crate::element::{Element, ElementType};
use crate::interop::{ArrayDescription, Protocol};

impl BlockLayout {
    /// The layout of an array with the cells `allocated`, of which the domain owns `owned`. The axes of the array are
    /// those of the cells, in their order, with any strides. An array with components has one more axis: the last one
    /// for [`ComponentPlace::Fastest`], the first one for [`ComponentPlace::Slowest`].
    ///
    /// # Errors
    /// [`FieldError::Layout`] for an array of another shape, and as for [`new`](BlockLayout::new).
    pub fn of_array(
        owned: IndexBox,
        allocated: IndexBox,
        array: &ArrayDescription,
        components: Option<ComponentPlace>,
    ) -> Result<BlockLayout, FieldError> {
        let cells = split_components(array, components);
        let extents: Vec<usize> = (0..allocated.axes()).map(|axis| allocated.extent(axis)).collect();
        let Some(cells) = cells.filter(|cells| cells.shape == extents) else {
            let expected = format!("{extents:?}{}, for the cells {allocated}", axis_of(components));
            let found = format!("{:?}", array.shape());
            return Err(FieldError::layout("the shape of an array of a field", expected, found));
        };
        BlockLayout::new(owned, allocated, cells.strides, cells.components, cells.component_stride)
    }

    /// The layout of an array with the cells `allocated` of an unstructured domain in blocks, of which the domain owns
    /// `owned`. The first axis of the array is that of the blocks, then come the further axes of the cells in their
    /// order, and the last axis is that of the cells within a block: `[blocks, levels, nproma]`, which Fortran declares
    /// as `(nproma, levels, blocks)`. The extent of the last axis is the number of cells of a block; there may be more
    /// blocks than the cells need. An array with components has one more axis, as for
    /// [`of_array`](BlockLayout::of_array).
    ///
    /// # Errors
    /// [`FieldError::Layout`] for an array of another shape, and as for [`blocked`](BlockLayout::blocked).
    pub fn of_blocked_array(
        owned: IndexBox,
        allocated: IndexBox,
        array: &ArrayDescription,
        components: Option<ComponentPlace>,
    ) -> Result<BlockLayout, FieldError> {
        let further: Vec<usize> = (1..allocated.axes()).map(|axis| allocated.extent(axis)).collect();
        let cells = split_components(array, components).and_then(|cells| {
            let (&[blocks, ref others @ .., per_block], &[apart, ref strides @ .., cell]) =
                (&cells.shape[..], &cells.strides[..])
            else {
                return None;
            };
            let made = CellBlocks { cells: per_block, stride: apart };
            let fits = others == further && per_block > 0 && blocks >= made.count(allocated.extent(0));
            let strides: Vec<i64> = [cell].iter().chain(strides).copied().collect();
            fits.then_some((made, ArrayCells { strides, ..cells }))
        });
        let Some((blocks, cells)) = cells else {
            let further: String = further.iter().map(|extent| format!("{extent}, ")).collect();
            let expected = format!(
                "[blocks, {further}cells of a block]{}, with room for the cells {allocated}",
                axis_of(components)
            );
            let found = format!("{:?}", array.shape());
            return Err(FieldError::layout("the shape of an array of a field", expected, found));
        };
        let ArrayCells { strides, components, component_stride, .. } = cells;
        BlockLayout::blocked(owned, allocated, blocks, strides, components, component_stride)
    }
}

/// The axes of an array that are those of the cells, with strides in elements, and its components.
struct ArrayCells {
    shape: Vec<usize>,
    strides: Vec<i64>,
    components: usize,
    component_stride: i64,
}

/// Separates the axis of the components; `None` if there is none.
fn split_components(array: &ArrayDescription, place: Option<ComponentPlace>) -> Option<ArrayCells> {
    let mut shape = array.shape().to_vec();
    let mut strides: Vec<i64> = array.strides().iter().map(|&stride| stride as i64).collect();
    let (components, component_stride) = match place {
        None => (1, 1),
        Some(ComponentPlace::Fastest) => (shape.pop()?, strides.pop()?),
        Some(ComponentPlace::Slowest) if shape.is_empty() => return None,
        Some(ComponentPlace::Slowest) => (shape.remove(0), strides.remove(0)),
    };
    Some(ArrayCells { shape, strides, components, component_stride })
}

/// The axis of the components, in the text of an error.
fn axis_of(components: Option<ComponentPlace>) -> &'static str {
    match components {
        None => "",
        Some(ComponentPlace::Fastest) => " and a last axis of components",
        Some(ComponentPlace::Slowest) => " after a first axis of components",
    }
}

impl<D: Device> AnyField<D> {
    /// A field in arrays of another program, with elements of type `element`: for each domain of the pattern the array,
    /// and its layout, as from [`BlockLayout::of_array`] or [`of_blocked_array`](BlockLayout::of_blocked_array). `owner`
    /// keeps the arrays alive, and lives as long as the field or an exchange of it.
    ///
    /// # Errors
    /// [`FieldError::Array`] for a read-only array; [`FieldError::Layout`] for elements of another type, and a layout
    /// that exceeds its array.
    ///
    /// # Safety
    /// As for [`Field::from_raw`]. Each description is true, and `device` reaches its memory.
    pub unsafe fn in_arrays(
        device: &D,
        element: ElementType,
        blocks: Vec<(ArrayDescription, BlockLayout)>,
        host_accessible: bool,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Result<AnyField<D>, FieldError> {
        check_arrays(&blocks, element)?;
        let blocks = blocks.into_iter().map(|(array, layout)| (array.first(), layout)).collect();
        // SAFETY: the caller's promise; the layouts stay within the arrays, whose addresses were checked.
        Ok(unsafe { AnyField::from_raw(device, element, blocks, host_accessible, owner) })
    }
}

impl<T: Element, D: Device> Field<T, D> {
    /// A field in arrays of another program: for each domain of the pattern the array, and its layout, as from
    /// [`BlockLayout::of_array`] or [`of_blocked_array`](BlockLayout::of_blocked_array). `owner` keeps the arrays alive,
    /// and lives as long as the field or an exchange of it.
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
        // SAFETY: the caller's promise.
        let any = unsafe { AnyField::in_arrays(device, T::TYPE, blocks, host_accessible, owner)? };
        Ok(Field { any, element: PhantomData })
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
