//! Fields in memory that the caller lends.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;

use super::untyped::FieldRef;
use super::{BlockLayout, FieldError, VectorAxes, View, ViewMut};
use crate::device::{Device, Pointer};
use crate::element::Element;

/// A field in slices that the caller lends, for a device that works on host memory and has finished when a call
/// returns.
///
/// Only the calls that start and finish an exchange touch the memory: they pack it into a buffer and unpack it from
/// one, also between ranks of one process. A [`Field`](super::Field) avoids these copies: messages may travel from and
/// to its memory even if an exchange is forgotten, which is not allowed for memory that is lent.
///
/// To use the memory between exchanges, pass it to each start of a [plan](crate::Pattern::plan):
///
/// ```
/// # use haloport::cpu::CpuDevice;
/// # use haloport::{BorrowedField, Field, Grid, Halo, Pattern, Split, run_ranks};
/// # run_ranks(2, |comm| {
/// # let grid = Grid::new([8])?.periodic([true])?;
/// # let mine = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no such part")?;
/// # let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
/// # let device = CpuDevice::with_threads(1)?;
/// # let layout = Field::<f64, _>::new(&device, &pattern)?.layout(0)?.clone(); // four cells, and one beside each end
/// let mut values = vec![0.0; 6];
/// let mut plan = pattern.plan(BorrowedField::new(&device, [(&mut values[..], layout.clone())])?)?;
/// for step in 0..3 {
///     values[1..5].fill(step as f64 + comm.rank() as f64);
///     plan.run_blocking(BorrowedField::new(&device, [(&mut values[..], layout.clone())])?)?;
///     assert_eq!(values[0], step as f64 + (1 - comm.rank()) as f64);
/// }
/// # Ok(())
/// # })?;
/// # Ok::<(), haloport::comm::RanksError>(())
/// ```
#[derive(Debug)]
pub struct BorrowedField<'m, T: Element, D> {
    device: D,
    /// Differs from that of any other field.
    identity: usize,
    /// The addresses of the slices: every access is derived from the same borrow.
    blocks: SmallVec<[(Pointer, BlockLayout); 1]>,
    vector: VectorAxes,
    slices: PhantomData<&'m mut [T]>,
}

impl<'m, T: Element, D: Device> BorrowedField<'m, T, D> {
    /// A field with one slice and its layout for each domain. Offset 0 of the layout is the first element of the slice,
    /// so strides are not negative. Allocates nothing for a single domain.
    ///
    /// # Errors
    /// [`FieldError::Layout`] for a slice shorter than its layout, and a layout with negative strides;
    /// [`FieldError::NotLendable`] for a device that does not work on host memory, or is asynchronous.
    pub fn new(
        device: &D,
        blocks: impl IntoIterator<Item = (&'m mut [T], BlockLayout)>,
    ) -> Result<Self, FieldError> {
        let info = device.info();
        if !info.host_accessible || info.asynchronous {
            return Err(FieldError::NotLendable { device: device.id() });
        }
        Ok(BorrowedField {
            device: device.clone(),
            identity: new_identity(),
            blocks: lent_blocks(blocks)?,
            vector: VectorAxes::default(),
            slices: PhantomData,
        })
    }

    /// Declares vector components, as [`Field::with_vector`](super::Field::with_vector) does.
    ///
    /// # Errors
    /// As there.
    pub fn with_vector(mut self, axes: impl AsRef<[usize]>) -> Result<Self, FieldError> {
        self.vector =
            VectorAxes::new(axes.as_ref(), T::TYPE, &mut self.blocks.iter().map(|(_, layout)| layout))?;
        Ok(self)
    }

    /// All cells of a domain, with the halo, for reading.
    ///
    /// # Errors
    /// [`FieldError::NoSuchDomain`].
    pub fn view(&self, domain: usize) -> Result<View<'_, T>, FieldError> {
        let (pointer, layout) = self.block(domain)?;
        // SAFETY: the slice is as long as the layout's span and borrowed through `self`.
        Ok(unsafe { View::new(pointer.as_ptr().cast(), layout, layout.allocated()) })
    }

    /// All cells of a domain, with the halo, for reading and writing.
    ///
    /// # Errors
    /// [`FieldError::NoSuchDomain`].
    pub fn view_mut(&mut self, domain: usize) -> Result<ViewMut<'_, T>, FieldError> {
        let (pointer, layout) = self.block(domain)?;
        // SAFETY: the slice is as long as the layout's span and borrowed exclusively through `self`.
        Ok(unsafe { ViewMut::new(pointer.as_ptr().cast(), layout, layout.allocated()) })
    }

    /// The field as an exchange sees it.
    pub(crate) fn as_ref(&self) -> FieldRef<'_> {
        FieldRef {
            element: T::TYPE,
            alignment: align_of::<T>(),
            vector: &self.vector,
            storage: None,
            blocks: &self.blocks,
        }
    }

    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    /// A number that differs from that of any other field.
    pub(crate) fn identity(&self) -> usize {
        self.identity
    }

    fn block(&self, domain: usize) -> Result<&(Pointer, BlockLayout), FieldError> {
        let count = self.blocks.len();
        self.blocks.get(domain).ok_or(FieldError::NoSuchDomain { domain, count })
    }
}

/// The addresses of slices that hold their blocks. Compiled for types of elements, not for devices.
fn lent_blocks<'m, T: 'm>(
    blocks: impl IntoIterator<Item = (&'m mut [T], BlockLayout)>,
) -> Result<SmallVec<[(Pointer, BlockLayout); 1]>, FieldError> {
    let mut lent = SmallVec::new();
    for (slice, layout) in blocks {
        check_slice(slice.len(), &layout)?;
        lent.push((Pointer::new(slice.as_mut_ptr().cast()), layout));
    }
    Ok(lent)
}

/// A number that differs from that of any other field: odd, unlike the addresses that identify other fields.
fn new_identity() -> usize {
    static NUMBER: AtomicUsize = AtomicUsize::new(1);
    NUMBER.fetch_add(2, Ordering::Relaxed)
}

/// Checks that a slice of that many elements holds a block. Compiled once, for all types of elements.
fn check_slice(elements: usize, layout: &BlockLayout) -> Result<(), FieldError> {
    let (low, high) = layout.span();
    if low < 0 {
        return Err(FieldError::layout(
            "the strides of a borrowed field",
            "none below 0",
            format!("{:?}", layout.strides()),
        ));
    }
    if elements < high as usize {
        let expected = format!("at least {high} elements");
        return Err(FieldError::layout("the slice of a borrowed field", expected, elements));
    }
    Ok(())
}
