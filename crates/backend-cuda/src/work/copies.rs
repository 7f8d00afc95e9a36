//! Copies of bytes, and lists of copies of boxes and of indexed rows.

use std::sync::Arc;

use haloport_core::device::dialect::{
    COMBINE_WORDS, COPY_GROUP_THREADS, COPY_TILE_BYTES, COPY_WORDS, CopyBases, CopyTable, FETCH_WORD,
};
use haloport_core::device::{Buffer, CombineItem, CopyItem, DeviceError, MemoryKind, Pointer};

use crate::driver::context::{address, call};
use crate::memory::allocation::Allocation;
use crate::memory::buffer::CudaBuffer;
use crate::opened::Opened;
use crate::program::loaded::Function;
use crate::streams::stream::CudaStream;
use crate::work::kernels::{Grid, enqueue_at};

/// A list of copies, run by one launch: its entries are in a table in device memory. A list that is anchored to many
/// blocks has several.
#[derive(Debug)]
pub struct CudaCopies {
    launches: Vec<Launch>,
    /// Fetches the word of the host that stops the list to memory of the device, where each group of a launch reads it: reads
    /// of one word of host memory come one after the other, at 1.4 µs each (docs/measurements/2026-11-27-h100.md). `None` for
    /// an empty list, which needs no compiler.
    fetch: Option<Function>,
}

#[derive(Debug)]
struct Launch {
    function: Function,
    grid: Grid,
    /// The entries, the tiles, and the number of tiles.
    arguments: [u64; 3],
    blocks: Vec<u32>,
    /// The table, and a word that stops the list, if it is the first launch.
    memory: CudaBuffer,
}

impl CudaCopies {
    pub(crate) fn new(opened: &Arc<Opened>, items: Vec<CopyItem>) -> Result<CudaCopies, DeviceError> {
        CudaCopies::of_tables(opened, &CopyTable::for_words(&items), ("copy_words", COPY_WORDS))
    }

    /// Copies that combine.
    pub(crate) fn combining(opened: &Arc<Opened>, items: &[CombineItem]) -> Result<CudaCopies, DeviceError> {
        items.iter().try_for_each(CombineItem::check)?;
        CudaCopies::of_tables(opened, &CopyTable::for_combining(items), ("combine_words", COMBINE_WORDS))
    }

    fn of_tables(
        opened: &Arc<Opened>,
        tables: &[CopyTable],
        kernel: (&str, &'static str),
    ) -> Result<CudaCopies, DeviceError> {
        let launches: Vec<_> =
            tables.iter().map(|table| Launch::new(opened, table, kernel)).collect::<Result<_, _>>()?;
        let fetch = || {
            let program = opened.programs.portable(opened, "fetch_word", FETCH_WORD)?;
            Function::new(&opened.context, program, "fetch_word")
        };
        let fetch = (!launches.is_empty()).then(fetch).transpose()?;
        Ok(CudaCopies { launches, fetch })
    }

    /// Copies nothing if there is a word `stop` that is not 0.
    ///
    /// # Safety
    /// As for [`StreamWords::run_copies_unless`](haloport_core::device::StreamWords::run_copies_unless).
    pub(crate) unsafe fn run(
        &self,
        stop: Option<Pointer>,
        bases: &[Pointer],
        stream: &CudaStream,
    ) -> Result<(), DeviceError> {
        let (Some(first), Some(fetch)) = (self.launches.first(), &self.fetch) else { return Ok(()) };
        if let Some(stop) = stop {
            // SAFETY: the caller's promise.
            unsafe { fetch_word(fetch, first.word(), stop, stream) }?;
        }
        let stop = stop.map(|_| first.word());
        // SAFETY: as above.
        self.launches.iter().try_for_each(|launch| unsafe { launch.run(stop, bases, stream) })
    }
}

impl Launch {
    /// The kernel has a name and a source.
    fn new(
        opened: &Arc<Opened>,
        table: &CopyTable,
        (name, source): (&str, &'static str),
    ) -> Result<Launch, DeviceError> {
        if table.tiles() > i32::MAX as usize {
            let most = format!("at most {} bytes", i32::MAX as usize * COPY_TILE_BYTES);
            return Err(DeviceError::invalid("a list of copies", most, "more"));
        }
        // A table is a whole number of words.
        let length = table.bytes() + size_of::<u32>();
        let memory = CudaBuffer::new(opened, Allocation::new(opened, length, MemoryKind::Device)?);
        let bytes = table.bytes_at(memory.pointer());
        let entries = address(memory.pointer());
        // SAFETY: the buffer is longer than the table, and nothing else uses it yet.
        unsafe { opened.pieces.write(opened, &bytes, memory.pointer(), &opened.setup) }?;
        let tiles = entries + table.tiles_begin() as u64;
        let program = opened.programs.portable(opened, name, source)?;
        Ok(Launch {
            function: Function::new(&opened.context, program, name)?,
            grid: Grid { groups: [table.tiles(), 1, 1], threads: [COPY_GROUP_THREADS, 1, 1] },
            arguments: [entries, tiles, table.tiles() as u64],
            blocks: table.blocks().to_vec(),
            memory,
        })
    }

    /// The word behind the table.
    fn word(&self) -> Pointer {
        self.memory.pointer().offset((self.memory.bytes() - size_of::<u32>()) as isize)
    }

    /// # Safety
    /// As for [`CudaCopies::run`].
    unsafe fn run(
        &self,
        stop: Option<Pointer>,
        bases: &[Pointer],
        stream: &CudaStream,
    ) -> Result<(), DeviceError> {
        let bases = CopyBases::new(&self.blocks, bases);
        let mut bases = stop.map_or(bases, |stop| bases.with_stop_word(stop));
        let [mut entries, mut tiles, mut count] = self.arguments;
        let mut addresses = [
            (&raw mut entries).cast(),
            (&raw mut tiles).cast(),
            (&raw mut count).cast(),
            (&raw mut bases).cast(),
        ];
        // SAFETY: the caller's promise; the arguments are those of `copy_words` and `combine_words`, and the table lives as
        // long as the list.
        unsafe { enqueue_at(&self.function, self.grid, addresses.as_mut_ptr(), stream) }
    }
}

/// Puts a copy of the word at `host` to `word`, in memory of the device, into a stream.
///
/// # Safety
/// Until the work is done, both words live, and that of the host is the device's to read.
unsafe fn fetch_word(
    fetch: &Function,
    word: Pointer,
    host: Pointer,
    stream: &CudaStream,
) -> Result<(), DeviceError> {
    let (mut target, mut source) = (address(word), address(host));
    let mut addresses = [(&raw mut target).cast(), (&raw mut source).cast()];
    let grid = Grid { groups: [1; 3], threads: [1; 3] };
    // SAFETY: the caller's promise; the arguments are those of the kernel `fetch_word`.
    unsafe { enqueue_at(fetch, grid, addresses.as_mut_ptr(), stream) }
}

/// Puts a copy of bytes into a stream.
///
/// # Safety
/// As for [`Device::copy`](haloport_core::device::Device::copy).
pub(crate) unsafe fn copy(
    stream: &CudaStream,
    (source, target): (Pointer, Pointer),
    bytes: usize,
) -> Result<(), DeviceError> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise; addresses are unified, so the driver knows the kind of memory by them.
    unsafe { call!(stream.context(), cuMemcpyAsync(address(target), address(source), bytes, stream.raw())) }
}
