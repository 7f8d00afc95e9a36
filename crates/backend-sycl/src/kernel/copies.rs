//! Copies of boxes and of indexed rows.

use std::sync::{Arc, Mutex, PoisonError};

use haloport_core::ElementType;
use haloport_core::device::dialect::{
    COMBINE_WORDS, COPY_GROUP_THREADS, COPY_LINES, COPY_WORDS, CopyBases, CopyTable,
};
use haloport_core::device::{Anchors, Buffer, CombineItem, CopyItem, DeviceError, MemoryKind, Pointer};

use super::launch::enqueue;
use super::program;
use crate::buffer::SyclBuffer;
use crate::driver::{Kernel, NdRange};
use crate::kind::Kind;
use crate::opened::Opened;
use crate::stream::SyclStream;

/// Minimum size in bytes of a tile for a thread of a CPU.
const LEAST_TILE_BYTES: usize = 16 << 10;

/// Minimum number of bytes of a list for each thread of a CPU: data that another core wrote last is slow to read, and a
/// small list is complete before another core has woken.
const LEAST_THREAD_BYTES: usize = 1 << 20;

/// Maximum number of threads for each processor of a CPU: several, so that a late one leaves less work.
const THREADS_PER_PROCESSOR: usize = 4;

/// A list of copies, run as one launch: all its entries are in a table in device memory. A list that is anchored to
/// many blocks has several.
#[derive(Debug)]
pub struct SyclCopies {
    launches: Vec<Launch>,
}

#[derive(Debug)]
struct Launch {
    /// Locked while its arguments are set and it is put into a queue.
    placed: Mutex<Placed>,
    range: NdRange,
    /// The number of the argument with the addresses of blocks.
    bases_argument: usize,
    blocks: Vec<u32>,
    /// The addresses of the fixed ends, if there are blocks: the driver needs the list of all memory that a kernel reaches.
    fixed_ends: Vec<Pointer>,
    _table: SyclBuffer,
}

/// The kernel of a list, with the addresses of its blocks as an argument.
#[derive(Debug)]
struct Placed {
    kernel: Kernel,
    bases: CopyBases,
}

/// The division of a list among the threads of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Division {
    /// Each thread copies a tile, line by line.
    Lines,
    /// Each group copies a tile, one word for each thread at a time.
    Words,
    /// The same, with words that are combined with those at their targets: on all devices.
    CombinedWords,
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
        let tables = match division {
            Division::Lines => {
                CopyTable::for_lines(&items, (total / most_threads(opened)).max(LEAST_TILE_BYTES))
            }
            _ => CopyTable::for_words(&items),
        };
        SyclCopies::of_tables(opened, &tables, &items.iter().collect::<Vec<_>>(), division)
    }

    /// Copies that combine.
    pub(crate) fn combining(opened: &Arc<Opened>, items: &[CombineItem]) -> Result<SyclCopies, DeviceError> {
        for item in items {
            item.check()?;
            if matches!(item.element, ElementType::F64 | ElementType::Complex64)
                && !opened.info().double_precision
            {
                let what = "halos of f64 or complex64 that are accumulated, without double precision";
                return Err(DeviceError::Unsupported { what, device: opened.id() });
            }
        }
        let copies: Vec<&CopyItem> = items.iter().map(|item| &item.copy).collect();
        SyclCopies::of_tables(opened, &CopyTable::for_combining(items), &copies, Division::CombinedWords)
    }

    fn of_tables(
        opened: &Arc<Opened>,
        tables: &[CopyTable],
        items: &[&CopyItem],
        division: Division,
    ) -> Result<SyclCopies, DeviceError> {
        let launch = |table| Launch::new(opened, items, table, division);
        let launches = tables.iter().map(launch).collect::<Result<_, _>>()?;
        Ok(SyclCopies { launches })
    }

    /// # Safety
    /// As for [`Device::run_copies`](haloport_core::device::Device::run_copies).
    pub(crate) unsafe fn run(&self, bases: &[Pointer], stream: &SyclStream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        self.launches.iter().try_for_each(|launch| unsafe { launch.run(bases, stream) })
    }
}

impl Launch {
    fn new(
        opened: &Arc<Opened>,
        items: &[&CopyItem],
        table: &CopyTable,
        division: Division,
    ) -> Result<Launch, DeviceError> {
        let memory = SyclBuffer::new(opened, table.bytes(), MemoryKind::Device)?;
        let setup = SyclStream::new(opened, Arc::clone(&opened.setup));
        let bytes = table.bytes_at(memory.pointer());
        // SAFETY: the buffer is as long as the table, and the copy is complete when the call returns.
        unsafe { copy(&setup, (address(&bytes), memory.pointer()), bytes.len(), true)? };

        let most = table.copied_bytes() / LEAST_THREAD_BYTES;
        let threads = most.min(most_threads(opened)).clamp(1, table.tiles());
        let in_groups = table.tiles() * COPY_GROUP_THREADS;
        let (name, source, global, group) = match division {
            Division::Lines => ("copy_lines", COPY_LINES, threads, 1),
            Division::Words => ("copy_words", COPY_WORDS, in_groups, COPY_GROUP_THREADS),
            Division::CombinedWords => ("combine_words", COMBINE_WORDS, in_groups, COPY_GROUP_THREADS),
        };
        let mut kernel = kernel_of(opened, name, source)?;
        let tiles = memory.pointer().offset(table.tiles_begin() as isize);
        for (index, pointer) in [(0, memory.pointer()), (1, tiles)] {
            kernel.set_address(index, pointer, "setting the table of a list of copies")?;
        }
        kernel.set_value(2, &(table.tiles() as i64))?;
        if division == Division::Lines {
            kernel.set_value(3, &(threads as i64))?;
        }
        let bases_argument = if division == Division::Lines { 4 } else { 3 };
        let bases = CopyBases::new(&[], &[]);
        kernel.set_value(bases_argument, &bases)?;
        let mut fixed_ends: Vec<Pointer> = items.iter().copied().flat_map(fixed_ends).collect();
        kernel.declare_reached(fixed_ends.iter().copied())?;
        if table.blocks().is_empty() {
            fixed_ends.clear();
        }
        let range = NdRange { global: [global, 1, 1], group: [group, 1, 1] };
        let placed = Mutex::new(Placed { kernel, bases });
        Ok(Launch {
            placed,
            range,
            bases_argument,
            blocks: table.blocks().to_vec(),
            fixed_ends,
            _table: memory,
        })
    }

    /// # Safety
    /// As for [`SyclCopies::run`].
    unsafe fn run(&self, bases: &[Pointer], stream: &SyclStream) -> Result<(), DeviceError> {
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        let Placed { kernel, bases: last } = &mut *placed;
        if !self.blocks.is_empty() {
            let now = CopyBases::new(&self.blocks, bases);
            if now != *last {
                kernel.set_value(self.bases_argument, &now)?;
                let begins = self.blocks.iter().filter_map(|block| bases.get(*block as usize));
                kernel.declare_reached(self.fixed_ends.iter().chain(begins).copied())?;
                *last = now;
            }
        }
        // SAFETY: the caller's promise; the driver copies the arguments, and the table lives as long as the list.
        unsafe { enqueue(kernel, self.range, stream) }
    }
}

/// The addresses of the ends of a copy that are not anchored to a block.
fn fixed_ends(item: &CopyItem) -> impl Iterator<Item = Pointer> {
    let row = match item {
        CopyItem::Box(copy) => copy,
        CopyItem::Indexed(copy) => copy.row(),
    };
    let Anchors { source, target } = row.anchors();
    let ends = [(row.source(), source), (row.target(), target)];
    ends.into_iter().filter_map(|(end, block)| block.is_none().then_some(end))
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
    // SAFETY: the caller's promise.
    let put = stream.put(|queue| unsafe { queue.copy(ends, bytes, waits) });
    // Wait even after an error: the copy may have begun, and when this returns the caller may reuse the memory.
    let done = if blocking && !waits { stream.finish() } else { Ok(()) };
    put.and(done)
}

/// The address of host memory that a copy only reads.
pub(crate) fn address(bytes: &[u8]) -> Pointer {
    Pointer::new(bytes.as_ptr().cast_mut())
}

fn most_threads(opened: &Opened) -> usize {
    THREADS_PER_PROCESSOR * opened.info().compute_units.max(1)
}

/// The kernel of a program that has only one.
fn kernel_of(opened: &Opened, name: &str, source: &'static str) -> Result<Kernel, DeviceError> {
    program::kernel(opened, &*program::portable(opened, name, source)?, name)
}
