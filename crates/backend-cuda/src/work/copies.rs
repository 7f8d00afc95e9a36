//! Copies of boxes and of indexed rows.

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUdeviceptr, CUmemorytype};
use haloport_core::device::dialect::{
    COPY_GROUP_THREADS, COPY_TILE_BYTES, COPY_WORDS, CopyBases, CopyEntry, CopyTable,
};
use haloport_core::device::{BoxCopy, Buffer, CopyItem, DeviceError, MemoryKind, Pointer};

use crate::driver::context::call;
use crate::memory::allocation::Allocation;
use crate::memory::buffer::CudaBuffer;
use crate::opened::Opened;
use crate::program::built_in::BuiltIn;
use crate::program::loaded::Function;
use crate::streams::stream::CudaStream;
use crate::work::kernels::{Grid, enqueue_at};

/// Boxes whose rows have at least this many bytes are copied by the GPU's copy engines, others by a kernel.
const LEAST_ROW_BYTES: usize = 256;

/// The largest distance between rows, in bytes, that the copy engines of every device accept.
const MOST_PITCH_BYTES: usize = i32::MAX as usize;

/// A list of copies, run by one launch: its entries are in a table in device memory. A list that is anchored to many
/// blocks has several.
#[derive(Debug)]
pub struct CudaCopies {
    launches: Vec<Launch>,
}

#[derive(Debug)]
struct Launch {
    function: Function,
    grid: Grid,
    /// The entries, the tiles, and the number of tiles.
    arguments: [u64; 3],
    blocks: Vec<u32>,
    _table: CudaBuffer,
}

impl CudaCopies {
    pub(crate) fn new(opened: &Arc<Opened>, items: Vec<CopyItem>) -> Result<CudaCopies, DeviceError> {
        let tables = CopyTable::for_words(&items);
        let launches = tables.iter().map(|table| Launch::new(opened, table)).collect::<Result<_, _>>()?;
        Ok(CudaCopies { launches })
    }

    /// Copies nothing if there is a word `stop` that is not 0.
    ///
    /// # Safety
    /// As for [`Device::run_copies_unless`](haloport_core::device::Device::run_copies_unless).
    pub(crate) unsafe fn run(
        &self,
        stop: Option<Pointer>,
        bases: &[Pointer],
        stream: &CudaStream,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        self.launches.iter().try_for_each(|launch| unsafe { launch.run(stop, bases, stream) })
    }
}

impl Launch {
    fn new(opened: &Arc<Opened>, table: &CopyTable) -> Result<Launch, DeviceError> {
        if table.tiles() > i32::MAX as usize {
            let most = format!("at most {} bytes", i32::MAX as usize * COPY_TILE_BYTES);
            return Err(DeviceError::invalid("a list of copies", most, "more"));
        }
        let memory = CudaBuffer::new(opened, Allocation::new(opened, table.bytes(), MemoryKind::Device)?);
        let bytes = table.bytes_at(memory.pointer());
        let entries = address(memory.pointer());
        let (from, setup) = (address(Pointer::new(bytes.as_ptr().cast_mut())), &opened.setup);
        // SAFETY: the buffer is as long as the table, and the copy is done before either is used again.
        unsafe { call!(&opened.context, cuMemcpyAsync(entries, from, bytes.len(), setup.raw())) }?;
        setup.synchronize()?;
        let tiles = entries + table.tiles_begin() as u64;
        let program = opened.programs.portable(opened, "copy_words", COPY_WORDS)?;
        Ok(Launch {
            function: Function::new(&opened.context, program, "copy_words")?,
            grid: Grid { groups: [table.tiles(), 1, 1], threads: [COPY_GROUP_THREADS, 1, 1] },
            arguments: [entries, tiles, table.tiles() as u64],
            blocks: table.blocks().to_vec(),
            _table: memory,
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
        let mut bases = stop.map_or(bases, |stop| {
            // The word is the device's to read from now on.
            stop.as_ptr().expose_provenance();
            bases.with_stop_word(stop)
        });
        let [mut entries, mut tiles, mut count] = self.arguments;
        let mut addresses = [
            (&raw mut entries).cast(),
            (&raw mut tiles).cast(),
            (&raw mut count).cast(),
            (&raw mut bases).cast(),
        ];
        // SAFETY: the caller's promise; the arguments are those of `copy_words`, and the table lives as long as the
        // list.
        unsafe { enqueue_at(&self.function, self.grid, addresses.as_mut_ptr(), stream) }
    }
}

/// Puts one copy of a box into a stream.
///
/// # Safety
/// As for [`Device::copy_box`](haloport_core::device::Device::copy_box).
pub(crate) unsafe fn copy_box(copy: &BoxCopy, stream: &CudaStream) -> Result<(), DeviceError> {
    if copy.bytes() == 0 {
        return Ok(());
    }
    let rows = PitchedRows::of(copy);
    // SAFETY: the caller's promise, in all three.
    unsafe {
        match (copy.axes(), rows, copy.sign_change()) {
            ([], _, None) => self::copy(stream, (copy.source(), copy.target()), copy.run_bytes()),
            (_, Some(rows), None) => rows.copy(stream),
            _ => copy_by_kernel(copy, stream),
        }
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

/// # Safety
/// As for [`copy_box`].
unsafe fn copy_by_kernel(copy: &BoxCopy, stream: &CudaStream) -> Result<(), DeviceError> {
    let function = stream.opened.built_in(BuiltIn::CopyEntry, &stream.stream)?;
    for mut entry in CopyEntry::of_box(copy) {
        let mut each = (COPY_TILE_BYTES / entry.word_bytes()) as u32;
        let groups = entry.words().div_ceil(each) as usize;
        let mut addresses = [(&raw mut entry).cast(), (&raw mut each).cast()];
        let grid = Grid { groups: [groups, 1, 1], threads: [COPY_GROUP_THREADS, 1, 1] };
        // SAFETY: the caller's promise; the arguments are those of `copy_entry`.
        unsafe { enqueue_at(function, grid, addresses.as_mut_ptr(), stream) }?;
    }
    Ok(())
}

/// A box that copy engines accept: on both sides, rows without gaps that form planes that form the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PitchedRows {
    /// The source and the target.
    sides: [PitchedSide; 2],
    row_bytes: usize,
    rows: usize,
    planes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PitchedSide {
    address: CUdeviceptr,
    /// Bytes from one row to the next.
    pitch: usize,
    /// Rows from one plane to the next.
    height: usize,
}

impl PitchedRows {
    /// `None` if copy engines do not accept the box.
    fn of(copy: &BoxCopy) -> Option<PitchedRows> {
        let row_bytes = copy.run_bytes();
        let (planes, rows) = match copy.axes() {
            [rows] => (None, rows),
            [planes, rows] => (Some(planes), rows),
            _ => return None,
        };
        if row_bytes < LEAST_ROW_BYTES {
            return None;
        }
        let side = |pointer, row_stride: isize, plane_stride: Option<isize>| {
            let pitch = usize::try_from(row_stride).ok()?;
            let fits = (row_bytes..=MOST_PITCH_BYTES).contains(&pitch);
            let height = match plane_stride.map(usize::try_from) {
                None => rows.extent,
                Some(Ok(stride)) if fits && stride.is_multiple_of(pitch) => stride / pitch,
                Some(_) => return None,
            };
            (fits && height >= rows.extent).then_some(PitchedSide {
                address: address(pointer),
                pitch,
                height,
            })
        };
        let sides = [
            side(copy.source(), rows.source_stride, planes.map(|axis| axis.source_stride))?,
            side(copy.target(), rows.target_stride, planes.map(|axis| axis.target_stride))?,
        ];
        Some(PitchedRows {
            sides,
            row_bytes,
            rows: rows.extent,
            planes: planes.map_or(1, |axis| axis.extent),
        })
    }

    /// # Safety
    /// As for [`copy_box`].
    unsafe fn copy(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        let unified = CUmemorytype::CU_MEMORYTYPE_UNIFIED;
        let [source, target] = self.sides;
        if self.planes == 1 {
            let copy = CUDA_MEMCPY2D {
                srcXInBytes: 0,
                srcY: 0,
                srcMemoryType: unified,
                srcHost: ptr::null(),
                srcDevice: source.address,
                srcArray: ptr::null_mut(),
                srcPitch: source.pitch,
                dstXInBytes: 0,
                dstY: 0,
                dstMemoryType: unified,
                dstHost: ptr::null_mut(),
                dstDevice: target.address,
                dstArray: ptr::null_mut(),
                dstPitch: target.pitch,
                WidthInBytes: self.row_bytes,
                Height: self.rows,
            };
            // SAFETY: the caller's promise; the description is read before the call returns.
            return unsafe { call!(stream.context(), cuMemcpy2DAsync_v2(&raw const copy, stream.raw())) };
        }
        let copy = CUDA_MEMCPY3D {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: unified,
            srcHost: ptr::null(),
            srcDevice: source.address,
            srcArray: ptr::null_mut(),
            reserved0: ptr::null_mut(),
            srcPitch: source.pitch,
            srcHeight: source.height,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: unified,
            dstHost: ptr::null_mut(),
            dstDevice: target.address,
            dstArray: ptr::null_mut(),
            reserved1: ptr::null_mut(),
            dstPitch: target.pitch,
            dstHeight: target.height,
            WidthInBytes: self.row_bytes,
            Height: self.rows,
            Depth: self.planes,
        };
        // SAFETY: as above.
        unsafe { call!(stream.context(), cuMemcpy3DAsync_v2(&raw const copy, stream.raw())) }
    }
}

/// An address in the driver's form.
pub(crate) fn address(pointer: Pointer) -> CUdeviceptr {
    pointer.as_ptr().expose_provenance() as CUdeviceptr
}

#[cfg(test)]
mod tests {
    use haloport_core::device::CopyAxis;

    use super::*;

    fn rows_of(element_bytes: usize, axes: &[[isize; 3]]) -> Option<PitchedRows> {
        let axes = axes.iter().map(|[extent, source_stride, target_stride]| CopyAxis {
            extent: *extent as usize,
            source_stride: *source_stride,
            target_stride: *target_stride,
        });
        let [source, target] = [4096, 8192].map(|address| Pointer::new(ptr::without_provenance_mut(address)));
        PitchedRows::of(&BoxCopy::new(source, target, element_bytes, &axes.collect::<Vec<_>>()).unwrap())
    }

    #[test]
    fn copy_engines_take_rows_and_planes_of_rows() {
        let rows = rows_of(8, &[[10, 1000, 800], [64, 8, 8]]).unwrap();
        assert_eq!((rows.row_bytes, rows.rows, rows.planes), (512, 10, 1));
        assert_eq!(rows.sides.map(|side| (side.pitch, side.height)), [(1000, 10), (800, 10)]);
        let planes = rows_of(8, &[[5, 20_000, 512 * 12], [10, 1000, 512], [64, 8, 8]]).unwrap();
        assert_eq!((planes.row_bytes, planes.rows, planes.planes), (512, 10, 5));
        assert_eq!(planes.sides.map(|side| (side.pitch, side.height)), [(1000, 20), (512, 12)]);
    }

    #[test]
    fn copy_engines_take_no_other_boxes() {
        for (why, axes) in [
            ("short rows", &[[10, 1000, 800], [8, 8, 8]][..]),
            ("backwards", &[[10, -1000, 800], [64, 8, 8]]),
            ("one row read again and again", &[[10, 0, 800], [64, 8, 8]]),
            ("rows that overlap", &[[10, 256, 800], [64, 8, 8]]),
            (
                "planes that are no whole number of rows apart",
                &[[5, 20_001, 9000], [10, 1000, 800], [64, 8, 8]],
            ),
            ("planes among rows", &[[5, 1000, 80_000], [10, 5000, 800], [64, 8, 8]]),
            ("four axes", &[[3, 90_000, 90_000], [5, 20_000, 20_000], [10, 1000, 800], [64, 8, 8]]),
            ("rows far apart", &[[2, 1 << 31, 800], [64, 8, 8]]),
        ] {
            assert_eq!(rows_of(8, axes), None, "{why}");
        }
    }
}
