//! The kernels that copy, run on the host as PTX of the real compiler, on random lists.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use bytemuck::bytes_of;
use haloport_conformance::nvrtc::{Target, compilers};
use haloport_conformance::{drawn, usual};
use haloport_core::device::dialect::{COPY_GROUP_THREADS, COPY_WORDS, CopyBases, CopyTable, CopyTile};
use haloport_core::device::{BoxCopy, CopyAxis, CopyItem};
use haloport_cuda_ptx::{Grid, Kernel, Memory, kernels};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::cases::{Case, pointer};

/// The number of random lists.
fn lists() -> u64 {
    usual(200, 400)
}

/// The memory of the device: pieces far from each other.
struct Device {
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Device {
    /// Adds a piece that begins `shift` bytes behind a multiple of 64, and returns its address.
    fn add(&mut self, bytes: Vec<u8>, shift: u64) -> u64 {
        let address = 0x7_0000_0000 + 0x1_0000_0000 * self.pieces.len() as u64 + shift;
        self.pieces.push((address, bytes));
        address
    }

    fn bytes_at(&self, address: u64) -> &[u8] {
        let piece = self.pieces.iter().find(|(begin, _)| *begin == address);
        &piece.unwrap().1
    }
}

// SAFETY: the place lies in a piece, which lives longer than the kernel and is borrowed exclusively.
unsafe impl Memory for Device {
    fn find(&mut self, address: u64, bytes: u32, _writes: bool) -> Option<*mut u8> {
        let number = self.pieces.partition_point(|(begin, _)| *begin <= address).checked_sub(1)?;
        let (begin, piece) = self.pieces.get_mut(number)?;
        let at = usize::try_from(address - *begin).ok()?;
        Some(piece.get_mut(at..at.checked_add(bytes as usize)?)?.as_mut_ptr())
    }
}

#[test]
fn lists_of_copies_are_right() {
    for compiler in drawn(&compilers().unwrap()) {
        let kernel = compiled(compiler, "copy_words", COPY_WORDS);
        let mut words = BTreeSet::new();
        for number in 0..lists() {
            let mut random = StdRng::seed_from_u64(number);
            let cases: Vec<Case> =
                (0..random.random_range(1..8)).map(|_| Case::random(&mut random)).collect();
            let mut device = Device { pieces: Vec::new() };
            let mut bases = Vec::new();
            let (items, expected) = prepare(&cases, &mut device, &mut bases, &mut random);
            for table in CopyTable::for_words(&items) {
                let address = device.add(vec![0; table.bytes()], 0);
                device.pieces.last_mut().unwrap().1 = table.bytes_at(pointer(address));
                let tiles = table.tiles();
                let arguments = Arguments::default()
                    .with(&address)
                    .with(&(address + table.tiles_begin() as u64))
                    .with(&(tiles as i64))
                    .with(&CopyBases::new(table.blocks(), &bases));
                // One group more than tiles: it must do nothing.
                run(&kernel, tiles + 1, &arguments, &mut device, &format!("list {number}: {cases:?}"));
                words.extend(table.word_sizes());
            }
            check(&device, &expected, &cases, number);
        }
        assert_eq!(words.into_iter().collect::<Vec<_>>(), [1, 2, 4, 8, 16]);
        eprintln!("{} lists of copies run as PTX of {}", lists(), compiler.path());
    }
}

/// The memory of a device on which each 8 bytes of the source hold their address, and which keeps what is written
/// elsewhere.
struct Recorder {
    table: (u64, Vec<u8>),
    sources: Range<u64>,
    read: [u8; 8],
    written: HashMap<u64, Box<[u8; 8]>>,
}

// SAFETY: all places are in parts of the recorder, which lives longer than the kernel and is borrowed exclusively; those
// of writes do not move.
unsafe impl Memory for Recorder {
    fn find(&mut self, address: u64, bytes: u32, writes: bool) -> Option<*mut u8> {
        let (begin, table) = &mut self.table;
        if let Some(at) = address.checked_sub(*begin).filter(|at| *at < table.len() as u64) {
            return Some(table.get_mut(at as usize..at as usize + bytes as usize)?.as_mut_ptr());
        }
        if self.sources.contains(&address) {
            self.read = address.to_ne_bytes();
            return (!writes).then_some(self.read.as_mut_ptr());
        }
        Some(self.written.entry(address).or_default().as_mut_ptr())
    }
}

/// Entries of nearly 2 GiB: the places of some of their words.
#[test]
fn large_boxes_are_right() {
    const SOURCE: u64 = 1 << 40;
    const TARGET: u64 = 1 << 42;
    for compiler in drawn(&compilers().unwrap()) {
        let kernel = compiled(compiler, "copy_words", COPY_WORDS);
        for number in 0..12 {
            let mut random = StdRng::seed_from_u64(number);
            // Words of 8 bytes: dense in the target, with gaps in the source, some of it backwards.
            let count = random.random_range(2..=5);
            let mut strides = [8_i64, 8 + 8 * random.random_range(1..3)];
            let mut axes = Vec::new();
            for axis in 0..count {
                let left = (1u64 << 33) / strides[0].unsigned_abs().max(strides[1].unsigned_abs());
                let extent = match axis + 1 == count {
                    true => left.max(1),
                    false => random.random_range(2..=(1 << (30 / count)).min(left.max(2))),
                } as i64;
                let sign = if random.random_bool(0.15) { -1 } else { 1 };
                axes.push((extent, sign * strides[1], strides[0]));
                strides = [strides[0] * extent, strides[1] * extent + 8 * random.random_range(0..3)];
            }
            let copied: Vec<CopyAxis> = axes
                .iter()
                .map(|(extent, source, target)| CopyAxis {
                    extent: *extent as usize,
                    source_stride: *source as isize,
                    target_stride: *target as isize,
                })
                .collect();
            let begin = SOURCE + (1 << 38);
            let item = CopyItem::Box(BoxCopy::new(pointer(begin), pointer(TARGET), 8, &copied).unwrap());
            let table = CopyTable::for_words(std::slice::from_ref(&item)).remove(0);
            let at = 1 << 20;
            let mut recorder = Recorder {
                table: (at, table.bytes_at(pointer(at))),
                sources: SOURCE..TARGET,
                read: [0; 8],
                written: HashMap::new(),
            };
            let bytes = item.bytes() as u64;
            for tile in [0, table.tiles() - 1, random.random_range(0..table.tiles())] {
                let tiles = at + (table.tiles_begin() + tile * size_of::<CopyTile>()) as u64;
                let arguments =
                    Arguments::default().with(&at).with(&tiles).with(&1_i64).with(&CopyBases::new(&[], &[]));
                let what = format!("tile {tile} of box {number}: {axes:?}");
                recorder.written.clear();
                run(&kernel, 1, &arguments, &mut recorder, &what);
                for (address, word) in &recorder.written {
                    // Dense, so that the place in the target is the number of the word.
                    let mut rest = (address - TARGET) as i64 / 8;
                    let mut expected = begin as i64;
                    for (extent, source_stride, _) in &axes {
                        expected += rest % extent * source_stride;
                        rest /= extent;
                    }
                    assert_eq!(
                        u64::from_ne_bytes(**word),
                        expected as u64,
                        "the word at {address:#x} in {what}"
                    );
                }
                // The words of a tile are consecutive. Tiles are sorted by addresses in the source: if none is backwards, the
                // first begins the target, and the last one ends it.
                let (first, past) = recorder
                    .written
                    .keys()
                    .fold((u64::MAX, 0), |(first, past), at| (first.min(*at), past.max(at + 8)));
                assert_eq!(past - first, 8 * recorder.written.len() as u64, "{what}");
                let sorted = axes.iter().all(|(_, source_stride, _)| *source_stride > 0);
                assert!(!sorted || tile != 0 || first == TARGET, "{what}: begins at {first:#x}");
                assert!(
                    !sorted || tile != table.tiles() - 1 || past == TARGET + bytes,
                    "{what}: ends at {past:#x}"
                );
            }
        }
    }
}

/// What each target should have: its address and its bytes.
type Expected = Vec<(u64, Vec<u8>)>;

/// Puts the memory of the cases into the device, and returns their copies.
fn prepare(
    cases: &[Case],
    device: &mut Device,
    bases: &mut Vec<haloport_core::device::Pointer>,
    random: &mut StdRng,
) -> (Vec<CopyItem>, Expected) {
    let mut expected = Vec::new();
    let items = cases.iter().map(|case| {
        let [from, to] = case.sides().map(|side| {
            let mut bytes = vec![0; side.bytes];
            random.fill_bytes(&mut bytes);
            // Zeros, because the sign of an integer carries over them.
            bytes.chunks_mut(8).filter(|_| random.random_bool(0.2)).for_each(|chunk| chunk.fill(0));
            bytes
        });
        let mut after = to.clone();
        case.run(&from, &mut after);
        let [from, to] = [from, to].map(|bytes| {
            let shift = [0, 0, 0, 16, 8, 4, 2, 1, 3][random.random_range(0..9)];
            device.add(bytes, shift)
        });
        expected.push((to, after));
        case.item([from, to], bases)
    });
    (items.collect(), expected)
}

fn check(device: &Device, expected: &Expected, cases: &[Case], number: u64) {
    for (case, (address, bytes)) in cases.iter().zip(expected) {
        let found = device.bytes_at(*address);
        let wrong = found.iter().zip(bytes).position(|(found, expected)| found != expected);
        assert_eq!(wrong, None, "the first wrong byte of case {number}: {case:?}");
    }
}

fn compiled(compiler: &haloport_conformance::nvrtc::Nvrtc, name: &str, source: &str) -> Kernel {
    let compiled = compiler.compile(source, Target::Ptx(90)).unwrap();
    let mut found = kernels(&String::from_utf8(compiled.code).unwrap()).unwrap();
    assert_eq!(found.iter().map(Kernel::name).collect::<Vec<_>>(), [name]);
    found.remove(0)
}

/// The arguments of a kernel, in order.
#[derive(Default)]
struct Arguments(Vec<Vec<u8>>);

impl Arguments {
    fn with<T: bytemuck::NoUninit>(mut self, argument: &T) -> Arguments {
        self.0.push(bytes_of(argument).to_vec());
        self
    }
}

fn run(kernel: &Kernel, groups: usize, arguments: &Arguments, device: &mut dyn Memory, what: &str) {
    let mut bytes = vec![0; kernel.parameter_bytes()];
    assert_eq!(kernel.parameters().len(), arguments.0.len());
    for (parameter, argument) in kernel.parameters().iter().zip(&arguments.0) {
        assert_eq!(parameter.bytes, argument.len());
        bytes[parameter.offset..][..parameter.bytes].copy_from_slice(argument);
    }
    let grid = Grid { blocks: [groups as u32, 1, 1], threads: [COPY_GROUP_THREADS as u32, 1, 1] };
    kernel.run(grid, &bytes, device).unwrap_or_else(|fault| panic!("{fault}: {what}"));
}
