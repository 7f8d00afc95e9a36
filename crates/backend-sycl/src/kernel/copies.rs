//! Copies of boxes and of indexed rows.

use std::sync::Arc;

use haloport_core::device::dialect::{COPIES, COPY_GROUP_THREADS, CopyTable, entry_of_box};
use haloport_core::device::{BoxCopy, Buffer, CopyItem, DeviceError, MemoryKind, Pointer};

use super::launch::{NdRange, enqueue, set_address, set_value};
use super::program;
use crate::buffer::SyclBuffer;
use crate::opencl::handles::KernelHandle;
use crate::opencl::library::{count_blocking_call, failed};
use crate::opencl::opened::Opened;
use crate::opencl::select::Kind;
use crate::stream::SyclStream;

/// Minimum size in bytes of a tile for a thread of a CPU.
const LEAST_TILE_BYTES: usize = 16 << 10;

/// Minimum number of bytes of a list for each thread of a CPU: data that another core wrote last is slow to read, and a
/// small list is complete before another core has woken.
const LEAST_THREAD_BYTES: usize = 1 << 20;

/// Maximum number of threads for each processor of a CPU: several, so that a late one leaves less work.
const THREADS_PER_PROCESSOR: usize = 4;

/// Size in bytes of a tile for a group of threads of a GPU: four words of 16 bytes for each thread.
const GROUP_TILE_BYTES: usize = COPY_GROUP_THREADS * 16 * 4;

/// A list of copies, run as one launch: all its entries are in a table in device memory.
#[derive(Debug)]
pub struct SyclCopies {
    opened: Arc<Opened>,
    division: Division,
    /// `None` if there is nothing to copy.
    launch: Option<Launch>,
    /// The items from which the table is made again when the list is relocated; empty for a list that cannot be.
    items: Vec<CopyItem>,
}

#[derive(Debug)]
struct Launch {
    kernel: KernelHandle,
    range: NdRange,
    _table: SyclBuffer,
}

/// The division of a list among the threads of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Division {
    /// Each thread copies a tile, line by line.
    Lines,
    /// Each group copies a tile, one word for each thread at a time.
    Words,
}

impl Division {
    pub(crate) fn of(kind: Kind) -> Division {
        if kind == Kind::Cpu { Division::Lines } else { Division::Words }
    }
}

impl SyclCopies {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        items: Vec<CopyItem>,
        division: Division,
    ) -> Result<SyclCopies, DeviceError> {
        let total: usize = items.iter().map(CopyItem::bytes).sum();
        let tile_bytes = match division {
            Division::Lines => (total / most_threads(opened)).max(LEAST_TILE_BYTES),
            Division::Words => GROUP_TILE_BYTES,
        };
        let table = CopyTable::new(&items, tile_bytes);
        let launch =
            if table.tiles() > 0 { Some(Launch::new(opened, &items, &table, division)?) } else { None };
        let items = if items.iter().any(CopyItem::is_anchored) { items } else { Vec::new() };
        Ok(SyclCopies { opened: Arc::clone(opened), division, launch, items })
    }

    /// See [`Device::relocate_copies`](haloport_core::device::Device::relocate_copies). The table is made again, since
    /// the width of words depends on the addresses.
    pub(crate) fn relocate(&mut self, from: &[Pointer], to: &[Pointer]) -> Result<(), DeviceError> {
        if self.items.is_empty() {
            return Ok(());
        }
        let mut items = std::mem::take(&mut self.items);
        items.iter_mut().for_each(|item| item.relocate(from, to));
        *self = SyclCopies::new(&Arc::clone(&self.opened), items, self.division)?;
        Ok(())
    }

    /// # Safety
    /// As for [`Device::run_copies`](haloport_core::device::Device::run_copies).
    pub(crate) unsafe fn run(&self, stream: &SyclStream) -> Result<(), DeviceError> {
        match &self.launch {
            // SAFETY: the caller's promise; the table lives as long as the list.
            Some(launch) => unsafe { enqueue(&self.opened, &launch.kernel, launch.range, stream) },
            None => Ok(()),
        }
    }
}

impl Launch {
    fn new(
        opened: &Arc<Opened>,
        items: &[CopyItem],
        table: &CopyTable,
        division: Division,
    ) -> Result<Launch, DeviceError> {
        let memory = SyclBuffer::new(opened, table.bytes(), MemoryKind::Device)?;
        let setup = SyclStream::new(opened, Arc::clone(&opened.setup));
        let bytes = table.bytes_at(memory.pointer());
        // SAFETY: the buffer is as long as the table, and the copy is complete when the call returns.
        unsafe { copy(&setup, (address(&bytes), memory.pointer()), bytes.len(), true)? };

        let total: usize = items.iter().map(CopyItem::bytes).sum();
        let threads = (total / LEAST_THREAD_BYTES).min(most_threads(opened)).clamp(1, table.tiles());
        let (name, global, group) = match division {
            Division::Lines => ("copy_lines", threads, 1),
            Division::Words => ("copy_words", table.tiles() * COPY_GROUP_THREADS, COPY_GROUP_THREADS),
        };
        let mut kernel = copy_kernel(opened, name)?;
        let tiles = memory.pointer().offset(table.tiles_begin() as isize);
        for (index, pointer) in [(0, memory.pointer()), (1, tiles)] {
            set_address(opened, &mut kernel, index, pointer, "setting the table of a list of copies")?;
        }
        set_value(opened, &mut kernel, 2, &(table.tiles() as i64))?;
        if division == Division::Lines {
            set_value(opened, &mut kernel, 3, &(threads as i64))?;
        }
        let ends = items.iter().flat_map(|item| {
            let row = match item {
                CopyItem::Box(copy) => copy,
                CopyItem::Indexed(copy) => copy.row(),
            };
            [row.source(), row.target()]
        });
        declare_reached(opened, &mut kernel, ends)?;
        let range = NdRange { global: [global, 1, 1], group: [group, 1, 1] };
        Ok(Launch { kernel, range, _table: memory })
    }
}

/// Puts one copy of a box into a stream.
///
/// # Safety
/// As for [`Device::copy_box`](haloport_core::device::Device::copy_box).
pub(crate) unsafe fn copy_box(
    opened: &Opened,
    box_copy: &BoxCopy,
    division: Division,
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
    let (each, group) = match division {
        Division::Lines => ((LEAST_TILE_BYTES / entry.word_bytes()) as u64, 1),
        Division::Words => (1, COPY_GROUP_THREADS),
    };
    let mut kernel = copy_kernel(opened, "copy_entry")?;
    set_value(opened, &mut kernel, 0, &entry)?;
    set_value(opened, &mut kernel, 1, &each)?;
    declare_reached(opened, &mut kernel, [box_copy.source(), box_copy.target()].into_iter())?;
    let threads = (entry.words().div_ceil(each) as usize).next_multiple_of(group);
    let range = NdRange { global: [threads, 1, 1], group: [group, 1, 1] };
    // SAFETY: the caller's promise; the driver keeps the kernel until it has run.
    unsafe { enqueue(opened, &kernel, range, stream) }
}

/// Puts a copy of bytes into a stream. If `blocking`, the copy is complete when the call returns.
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
        count_blocking_call();
    }
    let Opened { unified, library, .. } = &*stream.opened;
    // SAFETY: the caller's promise.
    let put =
        stream.put("copying memory", |queue| unsafe { unified.copy(library, queue, ends, bytes, waits) });
    // Wait also after an error: the copy may have begun, and when this returns the caller may reuse the memory.
    let done = if blocking && !waits { stream.finish() } else { Ok(()) };
    put.and(done)
}

/// The address of host memory that a copy only reads.
pub(crate) fn address(bytes: &[u8]) -> Pointer {
    Pointer::new(bytes.as_ptr().cast_mut())
}

fn most_threads(opened: &Opened) -> usize {
    THREADS_PER_PROCESSOR * opened.info.compute_units.max(1)
}

fn copy_kernel(opened: &Opened, name: &str) -> Result<KernelHandle, DeviceError> {
    program::kernel(opened, &*program::portable(opened, "copies", COPIES)?, name)
}

fn declare_reached(
    opened: &Opened,
    kernel: &mut KernelHandle,
    ends: impl Iterator<Item = Pointer>,
) -> Result<(), DeviceError> {
    // SAFETY: the kernel is borrowed exclusively.
    unsafe { opened.unified.declare_reached(kernel.raw(), ends) }
        .map_err(failed("clSetKernelExecInfo", opened.id()))
}
