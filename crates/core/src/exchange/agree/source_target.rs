//! Exchanges that read from one field and write to another.

use super::set::{Binder, FieldSet};
use crate::device::Device;
use crate::element::Element;
use crate::field::{AnyField, BorrowedField, Field, FieldRef};

/// Two fields of one exchange: cells are read from `source` and arrive in the halo of `target`, for programs whose
/// arrays to send and to receive differ. The two may have different layouts; device, element type, components, levels
/// and vector components are the same. The halo of `source` and the owned cells of `target` are not touched.
///
/// Its messages are always packed and unpacked.
///
/// ```
/// use haloport_core::{Field, Grid, Halo, Pattern, SourceTarget, Split, run_ranks};
/// use haloport_cpu::CpuDevice;
///
/// run_ranks(2, |comm| {
///     let grid = Grid::new([8])?.periodic([true])?;
///     let mine = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no such part")?;
///     let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
///     let device = CpuDevice::with_threads(1)?;
///     let mut old = Field::<f64, _>::new(&device, &pattern)?;
///     old.view_mut(0)?.fill_with(|cell, _| cell[0] as f64);
///     let new = Field::<f64, _>::new(&device, &pattern)?;
///     let mut exchange = pattern.bind(SourceTarget { source: old, target: new })?;
///     exchange.run()?;
///     let below = mine.lower()[0] - 1;
///     assert_eq!(exchange.fields().target.view(0)?[[below]], below.rem_euclid(8) as f64);
///     Ok(())
/// })?;
/// # Ok::<(), haloport_core::RanksError>(())
/// ```
#[derive(Debug)]
pub struct SourceTarget<S, T> {
    /// The field from which cells are read.
    pub source: S,
    /// The field whose halo is filled.
    pub target: T,
}

// SAFETY: both fields are owned by value, or borrowed exclusively, and passed in order.
unsafe impl<S: OneField, T: OneField<Device = S::Device>> FieldSet for SourceTarget<S, T> {
    fn bind(&self, binder: &mut Binder) {
        let SourceTarget { source, target } = self;
        let from = (source.on().id(), source.number(), source.untyped());
        binder.add_pair(target.on(), from, (target.number(), target.untyped()));
    }
}

/// A single field, for [`SourceTarget`]: a [`Field`], an [`AnyField`] or a [`BorrowedField`], or an exclusive borrow of
/// one.
///
/// The trait is sealed.
#[allow(private_interfaces, reason = "sealed: only the fields of this crate implement it")]
pub trait OneField: FieldSet + sealed::Sealed {
    /// The type of its device.
    type Device: Device;
    #[doc(hidden)]
    fn on(&self) -> &Self::Device;
    #[doc(hidden)]
    fn number(&self) -> usize;
    #[doc(hidden)]
    fn untyped(&self) -> FieldRef<'_>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! one_field {
    ($([$($generics:tt)*] $field:ty),*) => {$(
        impl<$($generics)*> sealed::Sealed for $field {}
        #[allow(private_interfaces, reason = "sealed")]
        impl<$($generics)*> OneField for $field {
            type Device = D;
            fn on(&self) -> &D {
                self.device()
            }
            fn number(&self) -> usize {
                self.identity()
            }
            fn untyped(&self) -> FieldRef<'_> {
                self.as_ref()
            }
        }
    )*};
}

one_field!(
    [T: Element, D: Device] Field<T, D>,
    [D: Device] AnyField<D>,
    ['m, T: Element, D: Device] BorrowedField<'m, T, D>
);

impl<F: OneField> sealed::Sealed for &mut F {}
#[allow(private_interfaces, reason = "sealed")]
impl<F: OneField> OneField for &mut F {
    type Device = F::Device;
    fn on(&self) -> &F::Device {
        (**self).on()
    }
    fn number(&self) -> usize {
        (**self).number()
    }
    fn untyped(&self) -> FieldRef<'_> {
        (**self).untyped()
    }
}
