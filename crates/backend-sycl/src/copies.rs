//! Copies of boxes and of indexed rows.

use std::sync::Arc;

use haloport_core::device::dialect::{COPIES, COPY_GROUP_THREADS, CopyTable, entry_of_box};
use haloport_core::device::{BoxCopy, Buffer, CopyItem, DeviceError, MemoryKind, Pointer};

use crate::driver::{blocks, checked};
use crate::handles::KernelHandle;
use crate::kernels::{Grid, enqueue, set_value};
use crate::memory::SyclBuffer;
use crate::open::Opened;
use crate::program;
use crate::queue::SyclStream;
use crate::select::Kind;

/// A tile for a processor's thread has at least so many bytes, and at most a few times as many threads as there are
/// processors take them.
const LEAST_TILE_BYTES: usize = 16 << 10;

/// A processor's thread takes at least so many bytes of a list: what another core has written last is slow to come by, and
/// a small list is done before another core has woken.
const LEAST_THREAD_BYTES: usize = 1 << 20;

/// Threads for each processor, so that one that comes late finds less to do.
const THREADS_PER_PROCESSOR: usize = 4;

/// What a group of threads of a GPU takes: a few words of 16 bytes each.
const GROUP_TILE_BYTES: usize = COPY_GROUP_THREADS * 16 * 4;

/// A list of copies, which is one launch: all its entries stand in a table in device memory.
#[derive(Debug)]
pub struct SyclCopies {
    opened: Arc<Opened>,
    sharing: Sharing,
    /// `None` where nothing is copied.
    launch: Option<Launch>,
    /// What is laid out anew when the list is moved; empty for a list that stays where it is.
    moving: Vec<CopyItem>,
}

#[derive(Debug)]
struct Launch {
    kernel: KernelHandle,
    grid: Grid,
    _table: SyclBuffer,
}

/// How the threads of a device share a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// A thread takes a tile, line by line.
    Lines,
    /// A group takes a tile, its threads one word each.
    Words,
}

impl Sharing {
    pub(crate) fn of(kind: Kind) -> Sharing {
        if kind == Kind::Cpu { Sharing::Lines } else { Sharing::Words }
    }
}

impl SyclCopies {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        items: Vec<CopyItem>,
        sharing: Sharing,
    ) -> Result<SyclCopies, DeviceError> {
        let total: usize = items.iter().map(CopyItem::bytes).sum();
        let tile_bytes = match sharing {
            Sharing::Lines => (total / most_threads(opened)).max(LEAST_TILE_BYTES),
            Sharing::Words => GROUP_TILE_BYTES,
        };
        let table = CopyTable::new(&items, tile_bytes);
        let launch =
            if table.tiles() > 0 { Some(Launch::new(opened, &items, &table, sharing)?) } else { None };
        let moving = if items.iter().any(CopyItem::is_anchored) { items } else { Vec::new() };
        Ok(SyclCopies { opened: Arc::clone(opened), sharing, launch, moving })
    }

    /// See [`Device::relocate_copies`](haloport_core::device::Device::relocate_copies). The width of words depends on the
    /// addresses, so the table is laid out anew.
    pub(crate) fn relocate(&mut self, from: &[Pointer], to: &[Pointer]) -> Result<(), DeviceError> {
        if self.moving.is_empty() {
            return Ok(());
        }
        let mut items = std::mem::take(&mut self.moving);
        items.iter_mut().for_each(|item| item.relocate(from, to));
        *self = SyclCopies::new(&Arc::clone(&self.opened), items, self.sharing)?;
        Ok(())
    }

    /// # Safety
    /// As for [`Device::run_copies`](haloport_core::device::Device::run_copies).
    pub(crate) unsafe fn run(&self, stream: &SyclStream) -> Result<(), DeviceError> {
        match &self.launch {
            // SAFETY: the caller's promise; the table lives as long as the list.
            Some(launch) => unsafe { enqueue(&self.opened, &launch.kernel, launch.grid, stream) },
            None => Ok(()),
        }
    }
}

impl Launch {
    fn new(
        opened: &Arc<Opened>,
        items: &[CopyItem],
        table: &CopyTable,
        sharing: Sharing,
    ) -> Result<Launch, DeviceError> {
        let memory = SyclBuffer::new(opened, table.bytes(), MemoryKind::Device)?;
        let setup = SyclStream::new(opened, Arc::clone(&opened.setup));
        let bytes = table.place(memory.pointer());
        // SAFETY: the buffer is as long as the table, and the copy is done when the call returns.
        unsafe { copy(&setup, (address(&bytes), memory.pointer()), bytes.len(), true)? };

        let total: usize = items.iter().map(CopyItem::bytes).sum();
        let threads = (total / LEAST_THREAD_BYTES).min(most_threads(opened)).clamp(1, table.tiles());
        let (name, global, group) = match sharing {
            Sharing::Lines => ("copy_lines", threads, 1),
            Sharing::Words => ("copy_words", table.tiles() * COPY_GROUP_THREADS, COPY_GROUP_THREADS),
        };
        let mut kernel = copy_kernel(opened, name)?;
        let tiles = memory.pointer().offset(table.tiles_begin() as isize);
        for (index, pointer) in [(0, memory.pointer()), (1, tiles)] {
            // SAFETY: the kernel is ours alone.
            let status = unsafe { opened.unified.set_argument(opened.library, kernel.raw(), index, pointer) };
            checked(status, "setting the table of a list of copies", opened.id())?;
        }
        set_value(opened, &mut kernel, 2, &(table.tiles() as i64))?;
        if sharing == Sharing::Lines {
            set_value(opened, &mut kernel, 3, &(threads as i64))?;
        }
        let ends = items.iter().flat_map(|item| {
            let row = match item {
                CopyItem::Box(copy) => copy,
                CopyItem::Indexed(copy) => copy.row(),
            };
            [row.source(), row.target()]
        });
        reaches(opened, &mut kernel, ends)?;
        let grid = Grid { global: [global, 1, 1], group: [group, 1, 1] };
        Ok(Launch { kernel, grid, _table: memory })
    }
}

/// Puts one copy of a box into a stream.
///
/// # Safety
/// As for [`Device::copy_box`](haloport_core::device::Device::copy_box).
pub(crate) unsafe fn copy_box(
    opened: &Opened,
    box_copy: &BoxCopy,
    sharing: Sharing,
    stream: &SyclStream,
) -> Result<(), DeviceError> {
    if box_copy.axes().is_empty() && box_copy.sign_change().is_none() {
        // SAFETY: the caller's promise.
        return unsafe { copy(stream, (box_copy.source(), box_copy.target()), box_copy.run_bytes(), false) };
    }
    let entry = entry_of_box(box_copy);
    if entry.words() == 0 {
        return Ok(());
    }
    let (each, group) = match sharing {
        Sharing::Lines => ((LEAST_TILE_BYTES / entry.word_bytes()) as u64, 1),
        Sharing::Words => (1, COPY_GROUP_THREADS),
    };
    let mut kernel = copy_kernel(opened, "copy_entry")?;
    set_value(opened, &mut kernel, 0, &entry)?;
    set_value(opened, &mut kernel, 1, &each)?;
    reaches(opened, &mut kernel, [box_copy.source(), box_copy.target()].into_iter())?;
    let threads = (entry.words().div_ceil(each) as usize).next_multiple_of(group);
    let grid = Grid { global: [threads, 1, 1], group: [group, 1, 1] };
    // SAFETY: the caller's promise; the driver keeps the kernel until it has run.
    unsafe { enqueue(opened, &kernel, grid, stream) }
}

/// Puts a copy of bytes into a stream; with `blocking`, it is done when the call returns.
///
/// # Safety
/// As for [`Device::copy`](haloport_core::device::Device::copy).
pub(crate) unsafe fn copy(
    stream: &SyclStream,
    ends: (Pointer, Pointer),
    bytes: usize,
    blocking: bool,
) -> Result<(), DeviceError> {
    if bytes == 0 {
        return if blocking { stream.finish() } else { Ok(()) };
    }
    let waits = blocking && stream.may_block();
    if waits {
        blocks();
    }
    let Opened { unified, library, .. } = &*stream.opened;
    // SAFETY: the caller's promise.
    let put =
        stream.put("copying memory", |queue| unsafe { unified.copy(library, queue, ends, bytes, waits) });
    // Also where that has failed: the copy may be under way, and what it uses is the caller's when this returns.
    let done = if blocking && !waits { stream.finish() } else { Ok(()) };
    put.and(done)
}

/// The address of host memory that is only read.
pub(crate) fn address(bytes: &[u8]) -> Pointer {
    Pointer::new(bytes.as_ptr().cast_mut())
}

fn most_threads(opened: &Opened) -> usize {
    THREADS_PER_PROCESSOR * opened.info.compute_units.max(1)
}

fn copy_kernel(opened: &Opened, name: &str) -> Result<KernelHandle, DeviceError> {
    program::kernel(opened, &*program::portable(opened, "copies", COPIES)?, name)
}

fn reaches(
    opened: &Opened,
    kernel: &mut KernelHandle,
    ends: impl Iterator<Item = Pointer>,
) -> Result<(), DeviceError> {
    // SAFETY: the kernel is borrowed exclusively.
    unsafe { opened.unified.reaches(kernel.raw(), ends) }
        .map_err(crate::driver::failed("clSetKernelExecInfo", opened.id()))
}
