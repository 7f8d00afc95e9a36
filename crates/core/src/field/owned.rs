//! Fields that own their memory, or hold its owner.

use std::any::Any;
use std::marker::PhantomData;

use super::any::AnyField;
use super::untyped::FieldRef;
use super::{BlockLayout, FieldError, View, ViewMut};
use crate::device::{Device, Pointer};
use crate::domain::IndexBox;
use crate::element::Element;
use crate::pattern::Pattern;

/// A field of `T` on the device `D`: one block for each domain of the rank, in one allocation.
///
/// A neighbour in the same process can copy directly from its memory, which the exchange that binds the field keeps
/// alive.
#[derive(Debug)]
pub struct Field<T: Element, D: Device> {
    /// The elements are `T`.
    pub(super) any: AnyField<D>,
    pub(super) element: PhantomData<T>,
}

impl<T: Element, D: Device> From<Field<T, D>> for AnyField<D> {
    fn from(field: Field<T, D>) -> AnyField<D> {
        field.any
    }
}

impl<D: Device> AnyField<D> {
    /// The field as one of elements `T`.
    ///
    /// # Errors
    /// The field itself, if its elements are of another type.
    pub fn typed<T: Element>(self) -> Result<Field<T, D>, AnyField<D>> {
        if self.element() == T::TYPE { Ok(Field { any: self, element: PhantomData }) } else { Err(self) }
    }
}

impl Pattern {
    /// A field of zeros on `device` with the default layout, as from [`Field::new`].
    ///
    /// # Errors
    /// As for [`FieldBuilder::build`](super::FieldBuilder::build).
    pub fn field<T: Element, D: Device>(&self, device: &D) -> Result<Field<T, D>, FieldError> {
        Field::new(device, self)
    }
}

impl<T: Element, D: Device> Field<T, D> {
    /// A field in memory that the caller has allocated: for each domain of the pattern the address of the first element
    /// of the layout, and the layout. `owner` stays alive as long as the field or an exchange of it.
    ///
    /// # Safety
    /// The blocks do not overlap. Each block is valid, aligned and initialised memory of `device` over
    /// [`BlockLayout::span`], as long as `owner` lives. From the start of an exchange to its end, only this field may
    /// be used to write owned cells or to read or write the halo; after an error, the end comes when
    /// [`view`](Field::view) no longer returns [`FieldError::InFlight`]. At other times, nothing accesses the blocks
    /// while a view of them lives. `host_accessible` says whether the host may follow the addresses.
    pub unsafe fn from_raw(
        device: &D,
        blocks: Vec<(Pointer, BlockLayout)>,
        host_accessible: bool,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Field<T, D> {
        // SAFETY: the caller's promise.
        let any = unsafe { AnyField::from_raw(device, T::TYPE, blocks, host_accessible, owner) };
        Field { any, element: PhantomData }
    }

    /// Declares that the first components form vectors: component `k` points along axis `axes[k]` of the grid, in the
    /// direction of growing indices; further components are scalars. For a vector along y and x, `axes` is `[1, 2]`.
    /// Across the edges of a cubed sphere, vectors arrive with components along the axes of the receiving tile. On any
    /// other grid nothing changes. All ranks declare the same.
    ///
    /// # Errors
    /// [`FieldError::Layout`] for elements without a sign, more axes than components, and axes that do not exist.
    pub fn with_vector(self, axes: impl AsRef<[usize]>) -> Result<Field<T, D>, FieldError> {
        Ok(Field { any: self.any.with_vector(axes)?, element: PhantomData })
    }

    /// The device.
    pub fn device(&self) -> &D {
        self.any.device()
    }

    /// The number of blocks: one for each domain of the rank.
    pub fn domain_count(&self) -> usize {
        self.any.domain_count()
    }

    /// The layout of the block of `domain` in memory.
    ///
    /// # Errors
    /// [`FieldError::NoSuchDomain`].
    pub fn layout(&self, domain: usize) -> Result<&BlockLayout, FieldError> {
        self.any.layout(domain)
    }

    /// The address of the first element of the block, for kernels and other libraries. Only unsafe calls follow it,
    /// under their contracts; while an exchange is pending, they may only read owned cells.
    ///
    /// # Errors
    /// [`FieldError::NoSuchDomain`].
    pub fn pointer(&self, domain: usize) -> Result<Pointer, FieldError> {
        self.any.pointer(domain)
    }

    /// All cells of a domain, with the halo, for reading from the host. Blocks until the last exchange has filled the
    /// halo, on any stream. It does not wait for other work in streams: the caller does.
    ///
    /// # Errors
    /// [`FieldError::InFlight`], [`FieldError::NotHostAccessible`], [`FieldError::NoSuchDomain`],
    /// [`FieldError::Device`].
    pub fn view(&self, domain: usize) -> Result<View<'_, T>, FieldError> {
        self.any.view(domain)
    }

    /// All cells of a domain, with the halo, for reading and writing from the host. Blocks as [`view`](Field::view)
    /// does.
    ///
    /// # Errors
    /// As for [`view`](Field::view).
    pub fn view_mut(&mut self, domain: usize) -> Result<ViewMut<'_, T>, FieldError> {
        self.any.view_mut(domain)
    }

    /// A copy of the block of `domain` in host memory, in the order of its [`layout`](Field::layout). Blocks until all
    /// earlier work in the default stream of the device is done, and the last exchange has filled the halo, on any
    /// stream.
    ///
    /// # Errors
    /// [`FieldError::InFlight`], [`FieldError::NoSuchDomain`], [`FieldError::Device`].
    pub fn to_vec(&self, domain: usize) -> Result<Vec<T>, FieldError> {
        let (low, high) = self.layout(domain)?.span();
        let mut copy = vec![T::zeroed(); (high - low) as usize];
        self.any.read(domain, bytemuck::cast_slice_mut(&mut copy))?;
        Ok(copy)
    }

    /// Replaces the block of `domain` by `values`, in the order of its layout. Ordered with the default stream;
    /// blocks until the copy is done.
    ///
    /// # Errors
    /// As for [`to_vec`](Field::to_vec), and [`FieldError::Layout`] for another number of values.
    pub fn copy_from(&mut self, domain: usize, values: &[T]) -> Result<(), FieldError> {
        let (low, high) = self.layout(domain)?.span();
        if values.len() != (high - low) as usize {
            return Err(FieldError::layout("the number of values of a block", high - low, values.len()));
        }
        self.any.copy_from_bytes(domain, bytemuck::cast_slice(values))
    }

    /// A view of `region` while an exchange is pending.
    ///
    /// # Safety
    /// Nothing writes the cells of `region` while the view lives.
    pub(crate) unsafe fn view_in_flight(
        &self,
        domain: usize,
        region: IndexBox,
    ) -> Result<View<'_, T>, FieldError> {
        let (pointer, layout) = self.any.in_flight(domain)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { View::new(pointer.as_ptr().cast(), layout, region) })
    }

    /// A mutable view of `region` while an exchange is pending.
    ///
    /// # Safety
    /// Nothing else reads or writes the cells of `region` while the view lives.
    pub(crate) unsafe fn view_mut_in_flight(
        &self,
        domain: usize,
        region: IndexBox,
    ) -> Result<ViewMut<'_, T>, FieldError> {
        let (pointer, layout) = self.any.in_flight(domain)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { ViewMut::new(pointer.as_ptr().cast(), layout, region) })
    }

    /// The field as one whose type is known at run time.
    pub(crate) fn as_any(&self) -> &AnyField<D> {
        &self.any
    }

    /// The field as an exchange sees it.
    pub(crate) fn as_ref(&self) -> FieldRef<'_> {
        self.any.as_ref()
    }

    /// A number that differs from that of any other live field.
    pub(crate) fn identity(&self) -> usize {
        self.any.identity()
    }
}
