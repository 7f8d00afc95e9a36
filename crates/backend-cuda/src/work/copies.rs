//! Copies of bytes, and lists of copies of boxes and of indexed rows.

use std::sync::Arc;

use haloport_core::device::dialect::{
    COMBINE_WORDS, COPY_GROUP_THREADS, COPY_TILE_BYTES, COPY_WORDS, CopyBases, CopyTable, FETCH_WORD,
};
use haloport_core::device::{Buffer, CombineItem, CopyItem, DeviceError, MemoryKind, Pointer, Stream as _};

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
    /// `None` if the list is empty, or streams of the device do not await words.
    stop: Option<StopWord>,
}

/// A word of the host that stops a list, as a word of the device. Each group of a launch reads it: reads of one word of host
/// memory come one after the other, at 1.4 µs each (docs/measurements/2026-11-27-h100.md).
#[derive(Debug)]
struct StopWord {
    fetch: Function,
    /// In the memory of the first launch.
    word: Pointer,
}

#[derive(Debug)]
struct Launch {
    function: Function,
    grid: Grid,
    /// The entries, the tiles, and the number of tiles.
    arguments: [u64; 3],
    blocks: Vec<u32>,
    /// A word behind the table, for [`StopWord`].
    word: Pointer,
    _memory: CudaBuffer,
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
        let launches: Vec<Launch> =
            tables.iter().map(|table| Launch::new(opened, table, kernel)).collect::<Result<_, _>>()?;
        let first = launches.first().filter(|_| opened.info.capabilities.stream_words);
        let stop = first.map(|first| StopWord::new(opened, first.word)).transpose()?;
        Ok(CudaCopies { launches, stop })
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
        if self.launches.is_empty() {
            return Ok(());
        }
        let stop = match stop {
            // SAFETY: the caller's promise.
            Some(stop) => Some(unsafe { self.stop_word(stream)?.fetch_from(stop, stream) }?),
            None => None,
        };
        // SAFETY: as above.
        self.launches.iter().try_for_each(|launch| unsafe { launch.run(stop, bases, stream) })
    }

    fn stop_word(&self, stream: &CudaStream) -> Result<&StopWord, DeviceError> {
        let what = "copies that a word stops";
        self.stop.as_ref().ok_or_else(|| DeviceError::Unsupported { what, device: stream.device() })
    }
}

impl StopWord {
    fn new(opened: &Arc<Opened>, word: Pointer) -> Result<StopWord, DeviceError> {
        let program = opened.programs.portable(opened, "fetch_word", FETCH_WORD)?;
        Ok(StopWord { fetch: Function::new(&opened.context, program, "fetch_word")?, word })
    }

    /// Puts a copy of the word at `host` into the stream; returns where it is then.
    ///
    /// # Safety
    /// Until the work is done, the memory of the list lives, and the word is the device's to read.
    unsafe fn fetch_from(&self, host: Pointer, stream: &CudaStream) -> Result<Pointer, DeviceError> {
        let (mut target, mut source) = (address(self.word), address(host));
        let mut addresses = [(&raw mut target).cast(), (&raw mut source).cast()];
        let grid = Grid { groups: [1; 3], threads: [1; 3] };
        // SAFETY: the caller's promise; the arguments are those of `fetch_word`.
        unsafe { enqueue_at(&self.fetch, grid, addresses.as_mut_ptr(), stream) }?;
        Ok(self.word)
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
        let word = table.bytes().next_multiple_of(size_of::<u32>());
        let bytes = word + size_of::<u32>();
        let memory = CudaBuffer::new(opened, Allocation::new(opened, bytes, MemoryKind::Device)?);
        let bytes = table.bytes_at(memory.pointer());
        let entries = address(memory.pointer());
        // SAFETY: the buffer is as long as the table, and nothing else uses it yet.
        unsafe { opened.pieces.write(opened, &bytes, memory.pointer(), &opened.setup) }?;
        let tiles = entries + table.tiles_begin() as u64;
        let program = opened.programs.portable(opened, name, source)?;
        Ok(Launch {
            function: Function::new(&opened.context, program, name)?,
            grid: Grid { groups: [table.tiles(), 1, 1], threads: [COPY_GROUP_THREADS, 1, 1] },
            arguments: [entries, tiles, table.tiles() as u64],
            blocks: table.blocks().to_vec(),
            word: memory.pointer().offset(word as isize),
            _memory: memory,
        })
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
