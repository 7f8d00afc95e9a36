//! The fields of a benchmark: their memory, and the block of each as a list of values.

use std::marker::PhantomData;

use clap::{Args, ValueEnum};
use haloport::device::Device;
use haloport::exchange::{FieldSet, HaloOrder};
use haloport::field::{BlockLayout, FieldBuilder, FieldError};
use haloport::{BindOptions, BorrowedField, DataPath, Element, Exchange, Field, IndexBox, Pattern, ViewMut};
use memmap2::{MmapMut, MmapOptions};
use serde::Serialize;

use crate::command::failure::Failure;

/// The memory of the library's fields, and the path of their cells.
#[derive(Debug, Clone, Args)]
pub(super) struct MemoryArgs {
    /// Memory of the fields
    #[arg(long, default_value = "node-shared")]
    pub(super) memory: FieldMemory,
    /// Path of data between ranks: quickest, direct, shared, messages or stream-messages
    #[arg(long, value_name = "PATH", default_value_t = DataPath::Quickest)]
    pub(super) path: DataPath,
    /// Order in which halos of a grid are filled: quickest, all-neighbours or axis-by-axis
    #[arg(long = "halo-order", value_name = "ORDER", default_value_t = HaloOrder::Quickest)]
    pub(super) halo_order: HaloOrder,
}

/// The memory of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FieldMemory {
    /// In memory of the library that the processes of a node can map, if there is such memory.
    NodeShared,
    /// In memory of the library for this process alone.
    Private,
    /// In memory that the caller lends.
    Caller,
}

impl MemoryArgs {
    /// Collective: binds the fields of the library's contestant.
    ///
    /// # Errors
    /// [`Failure::Run`] if the fields cannot be bound.
    pub(super) fn bind<F: FieldSet>(&self, pattern: &Pattern, fields: F) -> Result<Exchange<F>, Failure> {
        Ok(pattern.bind_with(fields, self.options())?)
    }

    /// The path and the order of halos.
    pub(super) fn options(&self) -> BindOptions {
        BindOptions::default().path(self.path).order(self.halo_order)
    }

    /// Makes a field for the library's contestant. With memory of the caller, the field serves as a model for that.
    ///
    /// # Errors
    /// [`Failure::Run`] if there is no memory.
    pub(super) fn build<T: Element, D: Device>(
        &self,
        builder: FieldBuilder<T, D>,
        device: &D,
    ) -> Result<Field<T, D>, Failure> {
        Ok(builder.node_shared(self.memory == FieldMemory::NodeShared).build(device)?)
    }
}

/// Memory of a caller, as NumPy allocates it: with huge pages if it is large.
pub(super) struct CallerMemory<T> {
    memory: MmapMut,
    layout: BlockLayout,
    values: PhantomData<T>,
}

impl<T: Element> CallerMemory<T> {
    /// Allocates memory for a block like that of `field`.
    ///
    /// # Errors
    /// [`Failure::Run`] if there is no memory.
    pub(super) fn like<D: Device>(field: &Field<T, D>) -> Result<CallerMemory<T>, Failure> {
        let layout = field.layout(0)?.clone();
        let bytes = layout.span().1.unsigned_abs() * size_of::<T>();
        let memory = MmapOptions::new().len(bytes.max(1)).map_anon();
        let memory =
            memory.map_err(|error| Failure::Run(format!("cannot allocate {bytes} bytes: {error}")))?;
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        Ok(CallerMemory { memory, layout, values: PhantomData })
    }

    /// Lends this memory to a field.
    ///
    /// # Errors
    /// [`Failure::Run`] if the device cannot use it.
    pub(super) fn lend<D: Device>(&mut self, device: &D) -> Result<BorrowedField<'_, T, D>, Failure> {
        let whole = self.memory.len() / size_of::<T>() * size_of::<T>();
        let values = bytemuck::cast_slice_mut(&mut self.memory[..whole]);
        Ok(BorrowedField::new(device, vec![(values, self.layout.clone())])?)
    }
}

/// The block of a field as a list of values in host memory, laid out as the block is.
pub(super) trait Block<T> {
    fn layout(&self) -> Result<&BlockLayout, FieldError>;
    fn load(&self) -> Result<Vec<T>, FieldError>;
    fn store(&mut self, values: &[T]) -> Result<(), FieldError>;
    /// Calls `visit` with the list where it lies.
    ///
    /// # Errors
    /// [`Failure::Run`] if it is not in memory of the host, or has gaps.
    fn visit(&mut self, visit: &mut dyn FnMut(&mut [T])) -> Result<(), Failure>;
}

impl<T: Element, D: Device> Block<T> for Field<T, D> {
    fn layout(&self) -> Result<&BlockLayout, FieldError> {
        Field::layout(self, 0)
    }

    fn load(&self) -> Result<Vec<T>, FieldError> {
        self.to_vec(0)
    }

    fn store(&mut self, values: &[T]) -> Result<(), FieldError> {
        self.copy_from(0, values)
    }

    fn visit(&mut self, visit: &mut dyn FnMut(&mut [T])) -> Result<(), Failure> {
        visit_list(self.view_mut(0)?, visit)
    }
}

impl<T: Element, D: Device> Block<T> for BorrowedField<'_, T, D> {
    fn layout(&self) -> Result<&BlockLayout, FieldError> {
        Ok(self.view(0)?.layout())
    }

    fn load(&self) -> Result<Vec<T>, FieldError> {
        let view = self.view(0)?;
        let mut values = vec![T::default(); view.layout().span().1.unsigned_abs()];
        for_each_cell(&view.region(), |index| {
            if let (Some(at), Some(value)) = (list_index(view.layout(), index), view.get(index)) {
                values[at] = value;
            }
        });
        Ok(values)
    }

    fn store(&mut self, values: &[T]) -> Result<(), FieldError> {
        let mut view = self.view_mut(0)?;
        let layout = view.layout();
        view.fill_with(|index, _| list_index(layout, index).map_or_else(T::default, |at| values[at]));
        Ok(())
    }

    fn visit(&mut self, visit: &mut dyn FnMut(&mut [T])) -> Result<(), Failure> {
        visit_list(self.view_mut(0)?, visit)
    }
}

fn visit_list<T: Element>(mut view: ViewMut<'_, T>, visit: &mut dyn FnMut(&mut [T])) -> Result<(), Failure> {
    let values = view.as_mut_slice();
    values.map(visit).ok_or_else(|| Failure::Run("the values of a field do not lie side by side".into()))
}

/// The index of a cell in the list of values.
pub(super) fn list_index(layout: &BlockLayout, index: &[i64]) -> Option<usize> {
    // Offset 0 is the first value: the fields of the benchmarks have no negative strides.
    layout.offset(index, 0).map(isize::unsigned_abs)
}

/// Calls `visit` for every cell.
pub(super) fn for_each_cell(region: &IndexBox, mut visit: impl FnMut(&[i64])) {
    if region.is_empty() {
        return;
    }
    let mut index = region.lower().to_vec();
    loop {
        visit(&index);
        let next = (0..index.len()).rev().find(|&axis| index[axis] + 1 < region.upper()[axis]);
        let Some(axis) = next else { return };
        index[axis] += 1;
        index[axis + 1..].copy_from_slice(&region.lower()[axis + 1..]);
    }
}
