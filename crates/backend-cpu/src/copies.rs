//! Lists of copies, and copies between strided boxes.

use haloport_core::device::{BoxCopy, CopyAxis, CopyItem, MAX_COPY_AXES, NextReader, Pointer};

use crate::negate::run_negated;
use crate::rows::RowCopy;
use crate::stores::{LIST_BYTES, PastCaches, Plain, Store, Writing, gapless_bytes};
use crate::sweeps::{Sweep, pair_up};
use crate::trial::Trial;

/// Below this many bytes a copy stays on the calling thread.
///
/// Measured by `cargo bench -p haloport-cpu` (see `docs/performance.md`): waking the pool and joining it costs about
/// 15 µs; with rows of 8 bytes two threads win from 128 KiB on, with rows of 24 bytes from 0.5 to 1 MiB, with rows of
/// 1 KiB from 4 MiB.
pub const COPY_INLINE_BYTES: usize = 1 << 20;

/// Runs `$fixed` with the constant `$n` for runs of bytes that are short and common, and `$any` for all others.
macro_rules! match_run_bytes {
    ($bytes:expr, $n:ident => $fixed:expr, $other:ident => $any:expr) => {
        $crate::copies::match_run_bytes!(@ [1 2 4 8 12 16 24 32 48] $bytes, $n => $fixed, $other => $any)
    };
    (@ [$($size:literal)*] $bytes:expr, $n:ident => $fixed:expr, $other:ident => $any:expr) => {
        match $bytes {
            $($size => {
                const $n: usize = $size;
                $fixed
            })*
            $other => $any,
        }
    };
}
pub(crate) use match_run_bytes;

/// A list of copies.
#[derive(Debug)]
pub struct CpuCopies {
    through: List,
    /// The same copies past the caches, where that may be quicker.
    past: Option<(List, Trial)>,
}

/// Copies written in one way, cut into pieces of similar size where there are enough to be run by several threads.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) items: Vec<Item>,
    pub(crate) parallel: bool,
    writing: Writing,
}

/// One entry of the list.
#[derive(Debug)]
pub(crate) enum Item {
    Box(BoxCopy, Writing),
    Sweep(Sweep),
    Rows(RowCopy),
}

impl CpuCopies {
    pub(crate) fn new(items: Vec<CopyItem>, reader: NextReader, threads: usize) -> CpuCopies {
        let items: Vec<CopyItem> = items.into_iter().filter(|item| item.bytes() > 0).collect();
        let bytes: usize = items.iter().map(CopyItem::bytes).sum();
        let past = (reader == NextReader::Elsewhere && bytes >= LIST_BYTES)
            .then(|| List::new(items.clone(), Writing::PastCaches, bytes, threads))
            .filter(|list| list.items.iter().any(|item| item.writing() == Writing::PastCaches));
        let through = List::new(items, Writing::Plain, bytes, threads);
        CpuCopies { through, past: past.map(|list| (list, Trial::default())) }
    }

    /// Moves every copy along with the blocks of memory that it is anchored to.
    pub(crate) fn relocate(&mut self, from: &[Pointer], to: &[Pointer]) {
        self.through.relocate(from, to);
        if let Some((past, _)) = &mut self.past {
            past.relocate(from, to);
        }
    }

    /// Calls `run` once, with the list that is to be run.
    pub(crate) fn run_by(&self, run: impl FnOnce(&List)) {
        match &self.past {
            Some((past, trial)) => trial.run(|is_past| run(if is_past { past } else { &self.through })),
            None => run(&self.through),
        }
    }
}

impl List {
    /// `total` bytes, written in a way where it suits the copy.
    fn new(items: Vec<CopyItem>, writing: Writing, total: usize, threads: usize) -> List {
        let parallel = threads > 1 && total >= COPY_INLINE_BYTES;
        let piece = if parallel { (total / (4 * threads)).max(COPY_INLINE_BYTES / 16) } else { usize::MAX };
        let mut cut = Vec::with_capacity(items.len());
        for item in items {
            let pieces = item.bytes().div_ceil(piece);
            match item {
                CopyItem::Box(copy) if pieces == 1 => cut.push(Item::of_box(copy, writing)),
                CopyItem::Box(copy) => {
                    cut.extend(copy.split(pieces).into_iter().map(|part| Item::of_box(part, writing)));
                }
                CopyItem::Indexed(copy) if pieces == 1 => cut.push(Item::Rows(RowCopy::new(copy, writing))),
                CopyItem::Indexed(copy) => {
                    let parts = copy.split(pieces).into_iter();
                    cut.extend(parts.map(|part| Item::Rows(RowCopy::new(part, writing))));
                }
            }
        }
        List { items: pair_up(cut), parallel, writing }
    }

    fn relocate(&mut self, from: &[Pointer], to: &[Pointer]) {
        for item in &mut self.items {
            match item {
                Item::Box(copy, _) => copy.relocate(from, to),
                Item::Sweep(sweep) => sweep.relocate(from, to),
                Item::Rows(copy) => copy.relocate(from, to),
            }
        }
    }

    /// Runs some copies of the list on the calling thread.
    ///
    /// # Safety
    /// The sources are readable and the targets writable over all of each copy, they do not overlap, and nobody else
    /// writes the ones or touches the others meanwhile.
    pub(crate) unsafe fn run(&self, items: &[Item]) {
        for item in items {
            // SAFETY: the caller's promise.
            unsafe {
                match item {
                    Item::Box(copy, Writing::Plain) => run_box::<Plain>(copy),
                    Item::Box(copy, Writing::PastCaches) => run_box::<PastCaches>(copy),
                    Item::Sweep(sweep) => sweep.run(),
                    Item::Rows(copy) => copy.run(),
                }
            }
        }
        if self.writing == Writing::PastCaches {
            PastCaches::finish();
        }
    }
}

impl Item {
    fn of_box(copy: BoxCopy, writing: Writing) -> Item {
        let gapless = gapless_bytes(&copy).is_some();
        Item::Box(copy, writing.of(&copy, gapless))
    }

    fn writing(&self) -> Writing {
        match self {
            Item::Box(_, writing) => *writing,
            Item::Sweep(sweep) => sweep.writing(),
            Item::Rows(copy) => copy.writing(),
        }
    }
}

/// Runs a box copy on the calling thread.
///
/// # Safety
/// As for [`CpuCopies::run`], and the caller finishes the store.
pub(crate) unsafe fn run_box<S: Store>(copy: &BoxCopy) {
    if let Some(change) = copy.sign_change() {
        // SAFETY: the caller's promise.
        return unsafe { run_negated(copy, change) };
    }
    // The size of a run is settled once, outside all loops.
    macro_rules! run {
        ($copy_line:expr) => {
            // SAFETY: the line lies within the box, which the caller promised.
            for_each_line(copy, |source, target, line| unsafe { $copy_line(source, target, line) })
        };
    }
    match_run_bytes!(copy.run_bytes(), N => run!(copy_line::<S, N>),
        bytes => run!(|source, target, line| copy_rows::<S>(source, target, line, bytes)))
}

/// Calls `visit` with the addresses of the first element of every line along the innermost axis.
#[inline(always)]
pub(crate) fn for_each_line(copy: &BoxCopy, mut visit: impl FnMut(Pointer, Pointer, &CopyAxis)) {
    let point = CopyAxis { extent: 1, source_stride: 0, target_stride: 0 };
    let mut axes = [point; MAX_COPY_AXES];
    let given = copy.axes();
    axes[MAX_COPY_AXES - given.len()..].copy_from_slice(given);
    let [a, b, c, d, line] = axes;
    for ia in 0..a.extent {
        let (source, target) = step(copy.source(), copy.target(), &a, ia);
        for ib in 0..b.extent {
            let (source, target) = step(source, target, &b, ib);
            for ic in 0..c.extent {
                let (source, target) = step(source, target, &c, ic);
                for id in 0..d.extent {
                    let (source, target) = step(source, target, &d, id);
                    visit(source, target, &line);
                }
            }
        }
    }
}

pub(crate) fn step(source: Pointer, target: Pointer, axis: &CopyAxis, index: usize) -> (Pointer, Pointer) {
    let index = index as isize;
    (source.offset(index * axis.source_stride), target.offset(index * axis.target_stride))
}

/// Copies a line of short runs of `N` bytes.
///
/// # Safety
/// As for [`run_box`], for the line.
#[inline]
pub(crate) unsafe fn copy_line<S: Store, const N: usize>(source: Pointer, target: Pointer, line: &CopyAxis) {
    let (mut from, mut to) = (source.as_ptr(), target.as_ptr());
    for _ in 0..line.extent {
        // SAFETY: both lie in the line and do not overlap.
        unsafe { S::copy_run::<N>(from, to) };
        from = from.wrapping_offset(line.source_stride);
        to = to.wrapping_offset(line.target_stride);
    }
}

/// Copies a line of rows of any length.
///
/// # Safety
/// As for [`run_box`], for the line.
#[inline]
pub(crate) unsafe fn copy_rows<S: Store>(source: Pointer, target: Pointer, line: &CopyAxis, bytes: usize) {
    let (mut from, mut to) = (source.as_ptr(), target.as_ptr());
    for _ in 0..line.extent {
        // SAFETY: both rows lie in the line and do not overlap.
        unsafe { S::copy(from, to, bytes) };
        from = from.wrapping_offset(line.source_stride);
        to = to.wrapping_offset(line.target_stride);
    }
}
