//! Packing for a reader elsewhere, for which the device times several ways of writing before it chooses one.

use haloport_core::device::{
    BoxCopy, Buffer, CopyAxis, CopyItem, CopyRows, Device, IndexedCopy, MemoryKind, NextReader, Pointer,
};
use haloport_cpu::{CpuBuffer, CpuDevice};

/// One more than the runs in which both ways are timed.
const RUNS: usize = 9;

const SOURCE_BYTES: usize = 1 << 20;

/// The byte of the source at an offset.
fn byte(at: usize) -> u8 {
    (at * 31 + (at >> 8) * 7 + 11) as u8
}

struct Fields {
    device: CpuDevice,
    source: CpuBuffer,
    target: CpuBuffer,
}

impl Fields {
    fn new() -> Fields {
        let device = CpuDevice::with_threads(1).unwrap();
        let allocate = || device.allocate(SOURCE_BYTES, MemoryKind::Device).unwrap();
        let (source, target) = (allocate(), allocate());
        let bytes: Vec<u8> = (0..SOURCE_BYTES).map(byte).collect();
        // SAFETY: the buffer has that length, and the call returns after the copy.
        unsafe { device.write(&bytes, source.pointer(), &device.default_stream()).unwrap() };
        Fields { device, source, target }
    }

    fn source(&self, at: usize) -> Pointer {
        self.source.pointer().offset(at as isize)
    }

    fn target(&self, at: usize) -> Pointer {
        self.target.pointer().offset(at as isize)
    }

    /// Runs the list often. After each run, the target must hold from `at` on the runs of `bytes` bytes at the offsets
    /// `sources`, one after the other, and zeros elsewhere.
    fn check(&self, items: Vec<CopyItem>, at: usize, bytes: usize, sources: &[usize], what: &str) {
        let stream = self.device.default_stream();
        let list = self.device.bind_copies(items, NextReader::Elsewhere).unwrap();
        let mut expected = vec![0; SOURCE_BYTES];
        for (number, &source) in sources.iter().enumerate() {
            for offset in 0..bytes {
                expected[at + number * bytes + offset] = byte(source + offset);
            }
        }
        for run in 0..RUNS {
            let mut found = vec![1; SOURCE_BYTES];
            // SAFETY: the copies lie in live buffers, and all work is done when a call returns.
            unsafe {
                self.device.fill(self.target.pointer(), &[0], SOURCE_BYTES, &stream).unwrap();
                self.device.run_copies(&list, &[], &stream).unwrap();
                self.device.read(self.target.pointer(), &mut found, &stream).unwrap();
            }
            if found != expected {
                let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
                panic!("{what}: run {run} is wrong at {wrong:?}");
            }
        }
    }
}

#[test]
fn strided_runs_of_all_lengths_are_packed() {
    let fields = Fields::new();
    for bytes in [1, 2, 3, 4, 5, 8, 12, 16, 20, 24, 32, 40, 48, 60, 64, 72] {
        for begin in [0, 4, 5] {
            // Both ends of each row, one face after the other, as a grid sends them.
            let (rows, row_bytes) = (300, 1000);
            let axis =
                CopyAxis { extent: rows, source_stride: row_bytes as isize, target_stride: bytes as isize };
            let faces = [8, row_bytes - bytes];
            let items = faces.iter().enumerate().map(|(number, &face)| {
                let to = fields.target(begin + number * rows * bytes);
                CopyItem::Box(BoxCopy::new(fields.source(face), to, bytes, &[axis]).unwrap())
            });
            let sources: Vec<usize> =
                faces.iter().flat_map(|face| (0..rows).map(move |row| face + row * row_bytes)).collect();
            let what = format!("two faces of runs of {bytes} bytes, to {begin}");
            fields.check(items.collect(), begin, bytes, &sources, &what);
            let one = BoxCopy::new(fields.source(8), fields.target(begin), bytes, &[axis]).unwrap();
            let what = format!("one face of runs of {bytes} bytes, to {begin}");
            fields.check(vec![CopyItem::Box(one)], begin, bytes, &sources[..rows], &what);
        }
    }
}

#[test]
fn listed_cells_are_packed_level_by_level() {
    let fields = Fields::new();
    // Few rows with many levels, and many rows with few: more and fewer rows than are fetched ahead.
    for (rows, levels) in [(3, 4000), (40, 220), (600, 20)] {
        for bytes in [1usize, 4, 8, 12, 16] {
            let cells = 2 * rows;
            let level_bytes = cells * bytes;
            // Each cell once, in mixed order: 7 divides none of these numbers of cells.
            let picked: Vec<u32> = (0..rows).map(|row| (row * 7 % cells) as u32).collect();
            let levels = levels.min(SOURCE_BYTES / level_bytes);
            let axis = CopyAxis {
                extent: levels,
                source_stride: level_bytes as isize,
                target_stride: (rows * bytes) as isize,
            };
            let row = BoxCopy::new(fields.source(0), fields.target(0), bytes, &[axis]).unwrap();
            let source = CopyRows { stride: bytes as isize, indices: Some(picked.clone().into()) };
            let target = CopyRows { stride: bytes as isize, indices: None };
            let copy = IndexedCopy::new(row, rows, source, target).unwrap();
            let sources: Vec<usize> = (0..levels)
                .flat_map(|level| picked.iter().map(move |&cell| level * level_bytes + cell as usize * bytes))
                .collect();
            let what = format!("{rows} cells of {bytes} bytes on {levels} levels");
            fields.check(vec![CopyItem::Indexed(copy)], 0, bytes, &sources, &what);
        }
    }
}
