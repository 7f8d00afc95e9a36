//! Fields that own their memory, or hold its owner.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use super::sharing::shared_ranges;
use super::storage::{Allocated, Memory, Storage};
use super::untyped::FieldRef;
use super::{BlockLayout, FieldError, VectorAxes, View, ViewMut};
use crate::device::{Buffer, Device, MemoryKind, Pointer};
use crate::domain::IndexBox;
use crate::element::{Element, ElementType};
use crate::pattern::Pattern;

/// A field of `T` on the device `D`: one block for each domain of the rank, in one allocation.
///
/// A neighbour in the same process can copy directly from its memory, which the exchange that binds the field keeps
/// alive.
#[derive(Debug)]
pub struct Field<T: Element, D: Device> {
    device: D,
    storage: Arc<Storage>,
    /// For each domain the address of the first element, and the layout.
    blocks: Vec<(Pointer, BlockLayout)>,
    vector: VectorAxes,
    element: PhantomData<T>,
}

/// Memory for a field, and its blocks there.
struct Allocation {
    blocks: Vec<(Pointer, BlockLayout)>,
    host_accessible: bool,
    memory: Memory,
}

impl Allocation {
    /// Allocates `bytes` bytes for these blocks of elements of this type. `node` is the pattern whose neighbours on
    /// this node may map the field.
    fn new<D: Device>(
        device: &D,
        (bytes, blocks): (usize, Vec<(i64, BlockLayout)>),
        element: ElementType,
        kind: MemoryKind,
        node: Option<&Pattern>,
    ) -> Result<Allocation, FieldError> {
        let node = node.filter(|_| bytes > 0 && device.info().runs_on_host());
        let lease = node.and_then(|pattern| {
            let parts = shared_ranges(pattern, &blocks, element, bytes)?;
            pattern.comm().transport().share_parts(bytes, &parts)
        });
        let (base, host_accessible, memory) = match lease {
            Some(lease) => (lease.memory.pointer(), true, Memory::Leased(lease)),
            None => {
                let buffer = device.allocate(bytes, kind)?;
                let (base, host_accessible) = (buffer.pointer(), buffer.host_accessible());
                let allocated = Box::new(Allocated { device: device.clone(), buffer });
                (base, host_accessible, Memory::Allocated(allocated))
            }
        };
        let blocks = blocks.into_iter().map(|(begin, layout)| (base.offset(begin as isize), layout));
        Ok(Allocation { blocks: blocks.collect(), host_accessible, memory })
    }
}

/// The total size in bytes of blocks with these layouts, one after the other, and the offset of each, at the begin of a
/// cache line.
fn in_one_piece(
    layouts: Vec<BlockLayout>,
    element: ElementType,
) -> Result<(usize, Vec<(i64, BlockLayout)>), FieldError> {
    let line = 64 / element.bytes();
    let mut end = Some(0usize);
    let mut begins = Vec::with_capacity(layouts.len());
    for layout in &layouts {
        let (low, high) = layout.span();
        if low != 0 {
            let found = format!("{:?}", layout.strides());
            return Err(FieldError::layout("the strides of an allocated field", "none below 0", found));
        }
        let begin = end.and_then(|end| end.checked_next_multiple_of(line));
        begins.push(begin.unwrap_or(0));
        end = begin.and_then(|begin| begin.checked_add(high as usize));
    }
    let bytes =
        end.and_then(|end| end.checked_mul(element.bytes())).filter(|bytes| isize::try_from(*bytes).is_ok());
    let bytes = bytes.ok_or_else(|| {
        FieldError::layout("the size of a field", "a size that memory can hold", "more than 2^63 bytes")
    })?;
    let begins = begins.into_iter().map(|begin| (begin * element.bytes()) as i64);
    Ok((bytes, begins.zip(layouts).collect()))
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
        unsafe { Field::in_memory(device, blocks, host_accessible, Memory::Other { _owner: owner }) }
    }

    /// As [`from_raw`](Field::from_raw), for any owner of the memory.
    ///
    /// # Safety
    /// As for `from_raw`.
    unsafe fn in_memory(
        device: &D,
        blocks: Vec<(Pointer, BlockLayout)>,
        host_accessible: bool,
        memory: Memory,
    ) -> Field<T, D> {
        let storage = Arc::new(Storage::new(host_accessible, memory));
        Field { device: device.clone(), storage, blocks, vector: VectorAxes::default(), element: PhantomData }
    }

    /// Declares that the first components form vectors: component `k` points along axis `axes[k]` of the grid, in the
    /// direction of growing indices; further components are scalars. For a vector along y and x, `axes` is `[1, 2]`.
    /// Across the edges of a cubed sphere, vectors arrive with components along the axes of the receiving tile. On any
    /// other grid nothing changes. All ranks declare the same.
    ///
    /// # Errors
    /// [`FieldError::Layout`] for elements without a sign, more axes than components, and axes that do not exist.
    pub fn with_vector(mut self, axes: impl AsRef<[usize]>) -> Result<Field<T, D>, FieldError> {
        self.vector = VectorAxes::new(axes.as_ref(), T::TYPE, &self.blocks)?;
        Ok(self)
    }

    pub(super) fn allocate(
        device: &D,
        layouts: Vec<BlockLayout>,
        kind: MemoryKind,
        node: Option<&Pattern>,
    ) -> Result<Field<T, D>, FieldError> {
        let (bytes, blocks) = in_one_piece(layouts, T::TYPE)?;
        let Allocation { blocks, host_accessible, memory } =
            Allocation::new(device, (bytes, blocks), T::TYPE, kind, node)?;
        // SAFETY: the blocks are disjoint parts of the memory, long enough for their layouts, aligned to 64 bytes,
        // zeroed (every `Element` is plain data), and live as long as its owner.
        Ok(unsafe { Field::in_memory(device, blocks, host_accessible, memory) })
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The number of blocks: one for each domain of the rank.
    pub fn domain_count(&self) -> usize {
        self.blocks.len()
    }

    /// The layout of the block of `domain` in memory.
    ///
    /// # Errors
    /// [`FieldError::NoSuchDomain`].
    pub fn layout(&self, domain: usize) -> Result<&BlockLayout, FieldError> {
        Ok(&self.block(domain)?.1)
    }

    /// The address of the first element of the block, for kernels and other libraries. Only unsafe calls follow it,
    /// under their contracts; while an exchange is pending, they may only read owned cells.
    ///
    /// # Errors
    /// [`FieldError::NoSuchDomain`].
    pub fn pointer(&self, domain: usize) -> Result<Pointer, FieldError> {
        Ok(self.block(domain)?.0)
    }

    /// All cells of a domain, with the halo, for reading from the host. Blocks until the last exchange has filled the
    /// halo, on any stream. It does not wait for other work in streams: the caller does.
    ///
    /// # Errors
    /// [`FieldError::InFlight`], [`FieldError::NotHostAccessible`], [`FieldError::NoSuchDomain`],
    /// [`FieldError::Device`].
    pub fn view(&self, domain: usize) -> Result<View<'_, T>, FieldError> {
        let (pointer, layout) = self.on_host(domain)?;
        // SAFETY: the block is alive as long as `self`; it is not in flight, so no exchange touches it. While `self` is
        // borrowed, no exchange can be started and no `ViewMut` can be made: both take `&mut`.
        Ok(unsafe { View::new(pointer.as_ptr().cast(), layout, layout.allocated()) })
    }

    /// All cells of a domain, with the halo, for reading and writing from the host. Blocks as [`view`](Field::view)
    /// does.
    ///
    /// # Errors
    /// As for [`view`](Field::view).
    pub fn view_mut(&mut self, domain: usize) -> Result<ViewMut<'_, T>, FieldError> {
        let (pointer, layout) = self.on_host(domain)?;
        // SAFETY: as in `view`, and `self` is borrowed exclusively.
        Ok(unsafe { ViewMut::new(pointer.as_ptr().cast(), layout, layout.allocated()) })
    }

    /// A copy of the block of `domain` in host memory, in the order of its [`layout`](Field::layout). Blocks until all
    /// earlier work in the default stream of the device is done, and the last exchange has filled the halo, on any
    /// stream.
    ///
    /// # Errors
    /// [`FieldError::InFlight`], [`FieldError::NoSuchDomain`], [`FieldError::Device`].
    pub fn to_vec(&self, domain: usize) -> Result<Vec<T>, FieldError> {
        let (pointer, layout) = self.at_rest(domain)?;
        let (low, high) = layout.span();
        let mut copy = vec![T::zeroed(); (high - low) as usize];
        let from = pointer.offset(low * size_of::<T>() as isize);
        let stream = self.device.default_stream();
        // SAFETY: the span is valid memory; no exchange is in flight and `self` is borrowed, so only work that the
        // caller put into a stream writes it, which the default stream orders.
        unsafe { self.device.read(from, bytemuck::cast_slice_mut(&mut copy), &stream)? };
        Ok(copy)
    }

    /// Replaces the block of `domain` by `values`, in the order of its layout. Ordered with the default stream;
    /// blocks until the copy is done.
    ///
    /// # Errors
    /// As for [`to_vec`](Field::to_vec), and [`FieldError::Layout`] for another number of values.
    pub fn copy_from(&mut self, domain: usize, values: &[T]) -> Result<(), FieldError> {
        let (pointer, layout) = self.at_rest(domain)?;
        let (low, high) = layout.span();
        if values.len() != (high - low) as usize {
            return Err(FieldError::layout("the number of values of a block", high - low, values.len()));
        }
        let to = pointer.offset(low * size_of::<T>() as isize);
        let stream = self.device.default_stream();
        // SAFETY: as in `to_vec`, with `self` borrowed exclusively.
        unsafe { self.device.write(bytemuck::cast_slice(values), to, &stream)? };
        Ok(())
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
        // Another exchange may have left work that writes the cells.
        self.storage.wait_for_writers()?;
        let (pointer, layout) = self.addressable(domain)?;
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
        // As in `view_in_flight`.
        self.storage.wait_for_writers()?;
        let (pointer, layout) = self.addressable(domain)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { ViewMut::new(pointer.as_ptr().cast(), layout, region) })
    }

    /// The field as an exchange sees it.
    pub(crate) fn as_ref(&self) -> FieldRef<'_> {
        FieldRef {
            element: T::TYPE,
            alignment: align_of::<T>(),
            vector: &self.vector,
            storage: Some(&self.storage),
            blocks: &self.blocks,
        }
    }

    /// A number that differs from that of any other live field.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.storage).addr()
    }

    fn block(&self, domain: usize) -> Result<&(Pointer, BlockLayout), FieldError> {
        let count = self.blocks.len();
        self.blocks.get(domain).ok_or(FieldError::NoSuchDomain { domain, count })
    }

    fn at_rest(&self, domain: usize) -> Result<&(Pointer, BlockLayout), FieldError> {
        if self.storage.is_in_flight() {
            return Err(FieldError::InFlight);
        }
        self.storage.wait_for_writers()?;
        self.block(domain)
    }

    fn addressable(&self, domain: usize) -> Result<&(Pointer, BlockLayout), FieldError> {
        if !self.storage.host_accessible {
            return Err(FieldError::NotHostAccessible { device: self.device.id() });
        }
        self.block(domain)
    }

    fn on_host(&self, domain: usize) -> Result<&(Pointer, BlockLayout), FieldError> {
        self.at_rest(domain)?;
        self.addressable(domain)
    }
}
