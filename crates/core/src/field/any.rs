//! Fields of a type of element that is known at run time.

use std::any::Any;
use std::slice;
use std::sync::{Arc, OnceLock};

use super::sharing::shared_ranges;
use super::storage::{Allocated, Memory, Storage};
use super::untyped::FieldRef;
use super::{BlockLayout, FieldError, VectorAxes, View, ViewMut};
use crate::device::{Buffer, Device, MemoryKind, Pointer};
use crate::element::{Element, ElementType};
use crate::pattern::{Pattern, Slab, SlabPart};

/// A field on the device `D` whose type of element is known at run time: one block for each domain of the rank.
///
/// It takes part in exchanges as a [`Field`](super::Field) does, and can be converted to one and back. For programs that learn types
/// while they run, such as interfaces to other languages, and for elements that are records
/// ([`ElementType::Bytes`]). Fields of several types go into a `Vec<AnyField<D>>`; of several devices, too, into a
/// `Vec<Box<dyn FieldSet>>`.
///
/// ```
/// use haloport::cpu::CpuDevice;
/// use haloport::{AnyField, ElementType, Grid, Halo, Pattern, Split, run_ranks};
///
/// run_ranks(2, |comm| {
///     let grid = Grid::new([8])?.periodic([true])?;
///     let mine = Split::even(&grid, [2])?.part(comm.rank()).ok_or("no such part")?;
///     let pattern = Pattern::structured(&comm, &grid, &[mine], &Halo::uniform(1))?;
///     let device = CpuDevice::with_threads(1)?;
///     let make = |element| AnyField::builder(&pattern).build_any(&device, element);
///     let mut exchange = pattern.bind(vec![make(ElementType::F64)?, make(ElementType::I32)?])?;
///     exchange.fields_mut()[1].view_mut::<i32>(0)?.fill_with(|cell, _| cell[0] as i32);
///     exchange.run()?;
///     let below = mine.lower()[0] - 1;
///     assert_eq!(exchange.fields()[1].view::<i32>(0)?[[below]], (below as i32).rem_euclid(8));
///     assert!(exchange.fields()[0].view::<i32>(0).is_err()); // it holds f64
///     Ok(())
/// })?;
/// # Ok::<(), haloport::comm::RanksError>(())
/// ```
#[derive(Debug)]
pub struct AnyField<D: Device> {
    device: D,
    element: ElementType,
    storage: Arc<Storage>,
    /// For each domain the address of the first element, and the layout.
    blocks: Vec<(Pointer, BlockLayout)>,
    vector: VectorAxes,
}

impl<D: Device> AnyField<D> {
    /// A field of zeros with these layouts, one for each domain; [`builder`](AnyField::builder) makes them from a
    /// pattern.
    ///
    /// # Errors
    /// [`FieldError::Layout`] for negative strides; [`FieldError::Device`], with
    /// [`DeviceError::OutOfMemory`](crate::device::DeviceError), if memory is exhausted.
    pub fn allocate(
        device: &D,
        element: ElementType,
        layouts: Vec<BlockLayout>,
    ) -> Result<AnyField<D>, FieldError> {
        AnyField::with_options(device, element, layouts, MemoryKind::default(), &[])
    }

    /// As [`allocate`](AnyField::allocate), in memory that neighbours on this node can map: from it they copy directly
    /// if an exchange is bound to the field.
    ///
    /// # Errors
    /// As for `allocate`.
    pub fn for_pattern(
        pattern: &Pattern,
        device: &D,
        element: ElementType,
        layouts: Vec<BlockLayout>,
    ) -> Result<AnyField<D>, FieldError> {
        AnyField::with_options(device, element, layouts, MemoryKind::default(), slice::from_ref(pattern))
    }

    /// As [`allocate`](AnyField::allocate), with memory of this kind. `readers` are the patterns whose neighbours on this
    /// node may map the field.
    pub(super) fn with_options(
        device: &D,
        element: ElementType,
        layouts: Vec<BlockLayout>,
        kind: MemoryKind,
        readers: &[Pattern],
    ) -> Result<AnyField<D>, FieldError> {
        let (bytes, blocks) = in_one_piece(layouts, element)?;
        let Allocation { blocks, host_accessible, memory } =
            Allocation::new(device, (bytes, blocks), element, kind, readers)?;
        // SAFETY: the blocks are disjoint parts of the memory, long enough for their layouts, aligned to 64 bytes,
        // zeroed (every element is plain data), and live as long as its owner.
        Ok(unsafe { AnyField::in_memory(device, element, blocks, host_accessible, memory) })
    }

    /// A field in memory that the caller has allocated; see [`Field::from_raw`](super::Field::from_raw).
    ///
    /// # Safety
    /// As for [`Field::from_raw`](super::Field::from_raw), with elements of type `element`.
    pub unsafe fn from_raw(
        device: &D,
        element: ElementType,
        blocks: Vec<(Pointer, BlockLayout)>,
        host_accessible: bool,
        owner: Box<dyn Any + Send + Sync>,
    ) -> AnyField<D> {
        // SAFETY: the caller's promise.
        unsafe {
            AnyField::in_memory(device, element, blocks, host_accessible, Memory::Other { _owner: owner })
        }
    }

    /// As [`from_raw`](AnyField::from_raw), in memory whose pages may be replaced: if neighbours are other processes of the node, an
    /// exchange that is bound to the field moves the pages to memory that they can map. They copy directly from it, as from a field
    /// that was allocated for that. The memory stays where it is, with its content. When the field and its exchanges have been
    /// dropped, before `owner` is, its pages are those of this process alone again.
    ///
    /// Only pages that lie within the blocks as a whole are moved; of blocks of 4 MiB or more, those with cells that the exchange reads
    /// or writes for neighbours. If a neighbour reads a cell on another page, all cells of the field for it are packed. Moved pages
    /// have 4 KiB, also where the system had large ones, and lie where the thread that binds runs. Memory of devices, and memory
    /// that processes share already, stay as they are.
    ///
    /// Binding refuses memory of a file, memory that cannot be written, and the stack of the main thread.
    ///
    /// # Safety
    /// As for `from_raw`. During each call that binds an exchange of the field, and while the last handle to the field or exchange of
    /// it is dropped, nothing else writes the pages of the blocks, and no other exchange of them is in flight. In between they are
    /// neither freed, resized nor mapped otherwise, and no device or other library has registered their address.
    pub unsafe fn from_raw_movable(
        device: &D,
        element: ElementType,
        blocks: Vec<(Pointer, BlockLayout)>,
        host_accessible: bool,
        owner: Box<dyn Any + Send + Sync>,
    ) -> AnyField<D> {
        let memory = Memory::Movable { lease: OnceLock::new(), _owner: owner };
        // SAFETY: the caller's promise.
        unsafe { AnyField::in_memory(device, element, blocks, host_accessible, memory) }
    }

    /// As [`from_raw`](AnyField::from_raw), for any owner of the memory.
    ///
    /// # Safety
    /// As for `from_raw`.
    unsafe fn in_memory(
        device: &D,
        element: ElementType,
        blocks: Vec<(Pointer, BlockLayout)>,
        host_accessible: bool,
        memory: Memory,
    ) -> AnyField<D> {
        let storage = Arc::new(Storage::new(host_accessible, memory));
        AnyField { device: device.clone(), element, storage, blocks, vector: VectorAxes::default() }
    }

    /// Another handle to the same memory, with the same blocks and vector axes, for programs that bind the memory to
    /// several exchanges, or that give views of it to other code. It allocates nothing; the memory lives as long as any
    /// handle or an exchange of it. Neighbours can copy directly from each handle, as they can from the field.
    ///
    /// The handles are in flight together: while an exchange of one is, access to the cells through any other is
    /// [`FieldError::InFlight`], and an exchange of any other does not start
    /// ([`ExchangeError::InFlightElsewhere`](crate::ExchangeError::InFlightElsewhere)). An exchange takes at most one
    /// handle to the same memory, and refuses another one; if it owns its fields, several of them may be read from one memory, to which
    /// nothing is written ([`SourceTarget`](crate::SourceTarget)).
    ///
    /// # Safety
    /// The compiler takes the handles for different fields. Until all handles but one and all their exchanges are
    /// dropped:
    /// - While a view of one handle lives, the cells are not written through another one, and no exchange of another one
    ///   is started. While a view for writing lives, the cells are not read through another one.
    /// - From the start of an exchange of one handle to its end, nothing else writes the owned cells or reads or writes
    ///   the halo, neither through views or addresses of other handles nor in work on a device. After an error, the end
    ///   comes when [`view`](AnyField::view) no longer returns [`FieldError::InFlight`].
    /// - On an asynchronous device, exchanges and other work on the memory are ordered by streams or events, or by
    ///   waiting, as if there were one handle: an exchange that is finished on a stream may still be working.
    pub unsafe fn share(&self) -> AnyField<D> {
        AnyField {
            device: self.device.clone(),
            element: self.element,
            storage: Arc::clone(&self.storage),
            blocks: self.blocks.clone(),
            vector: self.vector.clone(),
        }
    }

    /// As [`share`](AnyField::share), with blocks for the parts of the domains in a slab, in their order, and without vectors.
    ///
    /// # Errors
    /// [`FieldError::NoSuchDomain`], and [`FieldError::Layout`] for a domain without room for its part.
    ///
    /// # Safety
    /// As for [`share`](AnyField::share).
    pub(crate) unsafe fn share_slab(&self, slab: &Slab) -> Result<AnyField<D>, FieldError> {
        let part = |SlabPart { domain, cells }: &SlabPart| {
            let (first, layout) = self.block(*domain)?;
            Ok((*first, layout.part(cells, &slab.shift())?))
        };
        let blocks = slab.parts().iter().map(part).collect::<Result<_, FieldError>>()?;
        // SAFETY: the caller's promise; the layouts have the allocated cells of the blocks, at the same places.
        Ok(AnyField { blocks, vector: VectorAxes::default(), ..unsafe { self.share() } })
    }

    /// Declares that the first components form vectors; see [`Field::with_vector`](super::Field::with_vector).
    ///
    /// # Errors
    /// As there.
    pub fn with_vector(mut self, axes: impl AsRef<[usize]>) -> Result<AnyField<D>, FieldError> {
        let mut layouts = self.blocks.iter().map(|(_, layout)| layout);
        self.vector = VectorAxes::new(axes.as_ref(), self.element, &mut layouts)?;
        Ok(self)
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The type of the elements.
    pub fn element(&self) -> ElementType {
        self.element
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

    /// The address of the first element of the block; see [`Field::pointer`](super::Field::pointer).
    ///
    /// # Errors
    /// [`FieldError::NoSuchDomain`].
    pub fn pointer(&self, domain: usize) -> Result<Pointer, FieldError> {
        Ok(self.block(domain)?.0)
    }

    /// All cells of a domain; see [`Field::view`](super::Field::view).
    ///
    /// # Errors
    /// As there, and [`FieldError::Layout`] if the elements are of another type than `T`.
    pub fn view<T: Element>(&self, domain: usize) -> Result<View<'_, T>, FieldError> {
        self.check_element(T::TYPE)?;
        let (pointer, layout) = self.on_host(domain)?;
        // SAFETY: the block holds elements `T` and is alive as long as `self`; it is not in flight, so no exchange
        // touches it. While `self` is borrowed, no exchange can be started and no `ViewMut` can be made: both take
        // `&mut`. The callers of `share` guarantee the same for other handles to the memory.
        Ok(unsafe { View::new(pointer.as_ptr().cast(), layout, layout.allocated()) })
    }

    /// All cells of a domain, for writing; see [`Field::view_mut`](super::Field::view_mut).
    ///
    /// # Errors
    /// As for [`view`](AnyField::view).
    pub fn view_mut<T: Element>(&mut self, domain: usize) -> Result<ViewMut<'_, T>, FieldError> {
        self.check_element(T::TYPE)?;
        let (pointer, layout) = self.on_host(domain)?;
        // SAFETY: as in `view`, and `self` is borrowed exclusively; nothing reads the cells through other handles.
        Ok(unsafe { ViewMut::new(pointer.as_ptr().cast(), layout, layout.allocated()) })
    }

    /// A copy of the bytes of the block of `domain`, in the order of its [`layout`](AnyField::layout); see
    /// [`Field::to_vec`](super::Field::to_vec).
    ///
    /// # Errors
    /// As there.
    pub fn to_bytes(&self, domain: usize) -> Result<Vec<u8>, FieldError> {
        let mut bytes = vec![0; self.span_bytes(domain)?];
        self.read(domain, &mut bytes)?;
        Ok(bytes)
    }

    /// Replaces the bytes of the block of `domain`, in the order of its layout; see [`Field::copy_from`](super::Field::copy_from).
    ///
    /// # Errors
    /// As there.
    pub fn copy_from_bytes(&mut self, domain: usize, bytes: &[u8]) -> Result<(), FieldError> {
        let expected = self.span_bytes(domain)?;
        if bytes.len() != expected {
            return Err(FieldError::layout("the number of bytes of a block", expected, bytes.len()));
        }
        let (to, stream) = (self.begin(domain)?, self.device.default_stream());
        // SAFETY: the span is valid memory; no exchange is in flight and `self` is borrowed exclusively, so only work
        // that the caller put into a stream uses it, which the default stream orders.
        unsafe { self.device.write(bytes, to, &stream)? };
        Ok(())
    }

    /// Copies the block of `domain` to `to`, which is as long as its span.
    pub(crate) fn read(&self, domain: usize, to: &mut [u8]) -> Result<(), FieldError> {
        let (from, stream) = (self.begin(domain)?, self.device.default_stream());
        // SAFETY: the span is valid memory; no exchange is in flight and `self` is borrowed, so only work that the
        // caller put into a stream writes it, which the default stream orders.
        unsafe { self.device.read(from, to, &stream)? };
        Ok(())
    }

    /// The field as an exchange sees it.
    pub(crate) fn as_ref(&self) -> FieldRef<'_> {
        FieldRef {
            element: self.element,
            alignment: self.element.alignment(),
            vector: &self.vector,
            storage: Some(&self.storage),
            blocks: &self.blocks,
        }
    }

    /// A number that differs from that of any other live field, except for handles to the same memory.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.storage).addr()
    }

    /// The length of the block of `domain` in bytes, gaps included.
    fn span_bytes(&self, domain: usize) -> Result<usize, FieldError> {
        let (low, high) = self.block(domain)?.1.span();
        Ok((high - low) as usize * self.element.bytes())
    }

    /// The lowest address of the block of `domain`, which is at rest.
    fn begin(&self, domain: usize) -> Result<Pointer, FieldError> {
        let (pointer, layout) = self.at_rest(domain)?;
        Ok(pointer.offset(layout.span().0 * self.element.bytes() as isize))
    }

    fn check_element(&self, expected: ElementType) -> Result<(), FieldError> {
        if self.element == expected {
            return Ok(());
        }
        Err(FieldError::layout("the elements of a field", expected, self.element))
    }

    fn block(&self, domain: usize) -> Result<&(Pointer, BlockLayout), FieldError> {
        let count = self.blocks.len();
        self.blocks.get(domain).ok_or(FieldError::NoSuchDomain { domain, count })
    }

    /// Refuses a field of which an exchange is in flight, or one of another handle to its memory.
    pub(crate) fn check_at_rest(&self) -> Result<(), FieldError> {
        if self.storage.is_in_flight() { Err(FieldError::InFlight) } else { Ok(()) }
    }

    fn at_rest(&self, domain: usize) -> Result<&(Pointer, BlockLayout), FieldError> {
        self.check_at_rest()?;
        self.storage.wait_for_writers()?;
        self.block(domain)
    }

    fn on_host(&self, domain: usize) -> Result<&(Pointer, BlockLayout), FieldError> {
        self.at_rest(domain)?;
        self.addressable(domain)
    }

    /// The block of `domain`, also in flight, once no earlier exchange writes it any more.
    pub(super) fn in_flight(&self, domain: usize) -> Result<&(Pointer, BlockLayout), FieldError> {
        // Another exchange may have left work that writes the cells.
        self.storage.wait_for_writers()?;
        self.addressable(domain)
    }

    fn addressable(&self, domain: usize) -> Result<&(Pointer, BlockLayout), FieldError> {
        if !self.storage.host_accessible {
            return Err(FieldError::NotHostAccessible { device: self.device.id() });
        }
        self.block(domain)
    }
}

/// Memory for a field, and its blocks there.
struct Allocation {
    blocks: Vec<(Pointer, BlockLayout)>,
    host_accessible: bool,
    memory: Memory,
}

impl Allocation {
    /// Allocates `bytes` bytes for these blocks of elements of this type. `readers` are the patterns whose neighbours on
    /// this node may map the field.
    fn new<D: Device>(
        device: &D,
        (bytes, blocks): (usize, Vec<(i64, BlockLayout)>),
        element: ElementType,
        kind: MemoryKind,
        readers: &[Pattern],
    ) -> Result<Allocation, FieldError> {
        let readers = if bytes > 0 { readers } else { &[] };
        let lease = readers.first().filter(|_| device.info().runs_on_host()).and_then(|pattern| {
            let parts = shared_ranges(readers, &blocks, element, bytes)?;
            pattern.comm().transport().share_parts(bytes, &parts)
        });
        let (base, host_accessible, memory) = match lease {
            Some(lease) => (lease.memory.pointer(), true, Memory::Leased(lease)),
            None => {
                let is_lent =
                    || kind == MemoryKind::Device && readers.iter().any(Pattern::has_near_neighbours);
                let buffer = match device.memory_export().filter(|_| is_lent()) {
                    Some(export) => export.allocate_exportable(bytes)?,
                    None => device.allocate(bytes, kind)?,
                };
                let (base, host_accessible) = (buffer.pointer(), buffer.host_accessible());
                let allocated = Box::new(Allocated { device: device.clone(), buffer });
                (base, host_accessible, Memory::Allocated(allocated))
            }
        };
        let blocks = blocks.into_iter().map(|(begin, layout)| (base.offset(begin as isize), layout));
        Ok(Allocation { blocks: blocks.collect(), host_accessible, memory })
    }
}

/// The total size in bytes of blocks with these layouts, one after the other, and the offset of each, a multiple of a
/// cache line.
fn in_one_piece(
    layouts: Vec<BlockLayout>,
    element: ElementType,
) -> Result<(usize, Vec<(i64, BlockLayout)>), FieldError> {
    let line = (64 / element.bytes()).max(1);
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
