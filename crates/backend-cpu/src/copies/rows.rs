//! Copies of rows picked by index.

use haloport_core::device::{CopyAxis, IndexedCopy, Pointer};

use crate::copies::boxes::run_box;
use crate::copies::fetch::{FETCHED_LINES, LINE_BYTES, fetch};
use crate::copies::lines::{Store, copy_line, copy_rows, for_each_line, match_run_bytes, step};
use crate::copies::stores::{Writing, gapless_bytes};
use crate::copies::tiles::Tiles;
use crate::copies::wide;

/// The distance, in runs, at which sources are fetched into the cache ahead of the copy. Neighbouring cells in a list
/// often share cache lines; this many are about eighty lines.
const RUNS_AHEAD: usize = 256;

/// The distance, in cache lines, at which rows that lie side by side are fetched ahead, such as those of a message, whose lines come
/// from the core of a neighbour. 575 rows of a message took 2.0 µs in place of 2.8 (`docs/measurements/2026-11-28-accumulate.md`); other
/// distances were not tried.
const LINES_AHEAD: usize = 16;

/// The listed rows that one iteration of a loop copies.
const BLOCK: usize = 8;

/// Ranges of consecutive rows replace index lists if they have at least this many rows on average.
const ROWS_PER_RANGE: usize = 2;

/// A copy of indexed rows, in an order that is chosen once.
#[derive(Debug)]
pub(crate) struct RowCopy {
    copy: IndexedCopy,
    order: Order,
    pub(crate) writing: Writing,
    ahead: Option<Distance>,
    /// Whether wide registers are used for the rows where they are written through the caches.
    wide: bool,
}

/// The distance at which rows are fetched ahead: whole points, and rows of the next point.
#[derive(Debug, Clone, Copy)]
struct Distance {
    points: usize,
    rows: usize,
}

/// The order in which the elements are copied.
#[derive(Debug)]
enum Order {
    /// Row after row, each a box of its own.
    RowByRow,
    /// For each point of a row, one run of bytes, all rows.
    PointByPoint,
    /// The same, in ranges of rows that are consecutive on both sides.
    InRanges(Vec<RowRange>),
    /// For each tile of rows the same, if many are combined.
    InTiles(Tiles),
}

/// Rows that are consecutive on both sides.
#[derive(Debug)]
struct RowRange {
    /// The bytes from row 0 to the first row.
    source: isize,
    target: isize,
    rows: usize,
}

impl RowCopy {
    /// Chooses the order, and `writing` if it suits the copy. `combines` means that targets are combined, not replaced.
    pub(crate) fn new(copy: IndexedCopy, writing: Writing, combines: bool) -> RowCopy {
        let (source, target) = (copy.source().stride, copy.target().stride);
        let step = source.unsigned_abs().max(target.unsigned_abs());
        let within = copy
            .row()
            .axes()
            .iter()
            .map(|axis| axis.source_stride.unsigned_abs().max(axis.target_stride.unsigned_abs()));
        let order = if within.max().is_some_and(|within| within < step) {
            Order::RowByRow
        } else {
            let ranges = ranges(&copy);
            if ranges.len() * ROWS_PER_RANGE <= copy.rows() {
                Order::InRanges(ranges)
            } else if combines && Tiles::suit(&copy) {
                Order::InTiles(Tiles::new(&copy))
            } else {
                Order::PointByPoint
            }
        };
        let writing = writing.of(copy.row(), is_gapless(&copy, &order));
        let runs = copy.bytes() / copy.row().run_bytes();
        let ahead = Distance { points: RUNS_AHEAD / copy.rows(), rows: RUNS_AHEAD % copy.rows() };
        let ahead = (runs > FETCHED_LINES).then_some(ahead);
        let wide = ahead.is_none() && wide::suits(copy.row().run_bytes());
        RowCopy { copy, order, writing, ahead, wide }
    }

    /// Runs the copy on the calling thread. Block `k`, to which it is anchored, begins at `bases[k]`.
    ///
    /// # Safety
    /// As for [`run_box`], for every row.
    pub(crate) unsafe fn run<S: Store>(&self, bases: &[Pointer]) {
        let row = self.copy.row();
        let ends = row.ends(bases);
        let (sources, targets) = (self.copy.source(), self.copy.target());
        if matches!(self.order, Order::RowByRow) {
            for position in 0..self.copy.rows() {
                let source = ends.0.offset(sources.index(position) as isize * sources.stride);
                let target = ends.1.offset(targets.index(position) as isize * targets.stride);
                // SAFETY: the caller promised every row.
                unsafe { run_box::<S>(row, (source, target)) };
            }
            return;
        }
        // The size of a run of bytes is known before the loops.
        // SAFETY: the caller's promise; the sizes are equal.
        unsafe {
            match_run_bytes!(@ [1 2 4 8 16] S, row.run_bytes(),
                N => self.points::<S, N>(ends),
                _bytes => self.points::<S, 0>(ends))
        }
    }

    /// Copies point by point. `N` is the number of bytes at each point, or 0 for other numbers.
    ///
    /// # Safety
    /// As for [`run`](RowCopy::run).
    unsafe fn points<S: Store, const N: usize>(&self, ends: (Pointer, Pointer)) {
        if S::COMPUTES
            && let Order::InTiles(tiles) = &self.order
        {
            // SAFETY: the caller's promise.
            return unsafe { tiles.run::<S, N>(&self.copy, ends) };
        }
        for_each_line(self.copy.row(), ends, |source, target, line| {
            for point in 0..line.extent {
                let (source, target) = step(source, target, line, point);
                // SAFETY: the caller promised every row, and the point lies within the row.
                unsafe { self.point::<S, N>(source, target, line.source_stride) };
            }
        });
    }

    /// Copies one point of every row. `source` and `target` are its addresses in row 0, and `next_point` is the
    /// distance to the next point in the source, in bytes.
    ///
    /// # Safety
    /// As for [`run`](RowCopy::run).
    unsafe fn point<S: Store, const N: usize>(&self, source: Pointer, target: Pointer, next_point: isize) {
        let bytes = if N > 0 { N } else { self.copy.row().run_bytes() };
        let (sources, targets) = (self.copy.source(), self.copy.target());
        let copy_row = |from: Pointer, to: usize| {
            let to = target.offset(to as isize * targets.stride).as_ptr();
            // SAFETY: the caller promised every row.
            unsafe {
                if N > 0 {
                    S::copy_run::<N>(from.as_ptr(), to);
                } else {
                    S::copy(from.as_ptr(), to, bytes);
                }
            }
        };
        let in_order = |row: usize| source.offset(row as isize * sources.stride);
        if let Order::InRanges(ranges) = &self.order {
            let together = sources.stride == bytes as isize && targets.stride == bytes as isize;
            for range in ranges {
                let (from, to) = (source.offset(range.source), target.offset(range.target));
                let line = CopyAxis {
                    extent: if together { 1 } else { range.rows },
                    source_stride: sources.stride,
                    target_stride: targets.stride,
                };
                // SAFETY: the caller promised every row of the range.
                unsafe {
                    if together || N == 0 {
                        copy_rows::<S>(from, to, &line, if together { range.rows * bytes } else { bytes });
                    } else {
                        copy_line::<S, N>(from, to, &line);
                    }
                }
            }
            return;
        }
        if N == 0 && self.wide && S::THROUGH_CACHES {
            // SAFETY: `new` found that the length suits; the caller promised every row.
            unsafe { wide::copy_listed::<S>((source, sources), (target, targets), self.copy.rows(), bytes) };
            return;
        }
        match (&sources.indices, &targets.indices) {
            (Some(from), None) => {
                self.for_each_row::<N>(from, source, next_point, |position, from| copy_row(from, position));
            }
            (Some(from), Some(to)) => {
                self.for_each_row::<N>(from, source, next_point, |position, from| {
                    copy_row(from, to[position] as usize);
                });
            }
            (None, Some(to)) if N > 0 && sources.stride == N as isize => {
                for_each_side_by_side::<N>(source, to, |from, to| copy_row(from, to as usize));
            }
            (None, Some(to)) => {
                to.iter().enumerate().for_each(|(from, &to)| copy_row(in_order(from), to as usize));
            }
            (None, None) => (0..self.copy.rows()).for_each(|row| copy_row(in_order(row), row)),
        }
    }

    /// Calls `copy` with the position in the list and the address of each row of the source, and fetches later rows
    /// ahead.
    #[inline(always)]
    fn for_each_row<const N: usize>(
        &self,
        rows: &[u32],
        source: Pointer,
        next_point: isize,
        copy: impl Fn(usize, Pointer),
    ) {
        let stride = self.copy.source().stride;
        // Adjacent rows are common; with a constant stride, their addresses need no multiplication.
        if N > 0 && stride == N as isize {
            self.for_each_offset(rows, source, next_point, |row| row as isize * N as isize, copy);
        } else {
            self.for_each_offset(rows, source, next_point, |row| row as isize * stride, copy);
        }
    }

    /// The same; `offset` returns the bytes from row 0 to a row.
    #[inline(always)]
    fn for_each_offset(
        &self,
        rows: &[u32],
        source: Pointer,
        next_point: isize,
        offset: impl Fn(u32) -> isize,
        copy: impl Fn(usize, Pointer),
    ) {
        let Some(ahead) = self.ahead else {
            let positions = rows.iter().enumerate();
            return positions.for_each(|(position, &row)| copy(position, source.offset(offset(row))));
        };
        let later = source.offset(ahead.points as isize * next_point);
        // First the rows from that distance on, then the first rows of the next point.
        let (first, rest) = rows.split_at(ahead.rows);
        for (begin, point, fetched) in [(0, later, rest), (rest.len(), later.offset(next_point), first)] {
            let copy_row = |position: usize, row: u32, later: u32| {
                fetch(point.offset(offset(later)).as_ptr());
                copy(begin + position, source.offset(offset(row)));
            };
            let rows = &rows[begin..begin + fetched.len()];
            // The compiler unrolls blocks.
            let (blocks, left) = rows.as_chunks::<BLOCK>();
            let (later_blocks, later_left) = fetched.as_chunks::<BLOCK>();
            for (block, (rows, later)) in blocks.iter().zip(later_blocks).enumerate() {
                for at in 0..BLOCK {
                    copy_row(block * BLOCK + at, rows[at], later[at]);
                }
            }
            for (at, (&row, &later)) in left.iter().zip(later_left).enumerate() {
                copy_row(blocks.len() * BLOCK + at, row, later);
            }
        }
    }
}

/// Calls `copy` with the address of each row of a source that has its rows of `N` bytes side by side, and with a number of `to`, and
/// fetches later lines ahead.
#[inline(always)]
fn for_each_side_by_side<const N: usize>(source: Pointer, to: &[u32], copy: impl Fn(Pointer, u32)) {
    let fetch_line = |line: usize| fetch(source.offset((line * LINE_BYTES) as isize).as_ptr());
    let lines = (to.len() * N).div_ceil(LINE_BYTES);
    (0..lines.min(LINES_AHEAD)).for_each(fetch_line);
    for (line, to) in to.chunks(LINE_BYTES / N.max(1)).enumerate() {
        fetch_line(line + LINES_AHEAD);
        let begin = source.offset((line * LINE_BYTES) as isize);
        to.iter().enumerate().for_each(|(row, &to)| copy(begin.offset((row * N) as isize), to));
    }
}

/// Whether the runs of a copy lie side by side in its target, in the order of copying.
fn is_gapless(copy: &IndexedCopy, order: &Order) -> bool {
    let stride = copy.target().stride;
    if copy.target().indices.is_some() {
        return false;
    }
    if matches!(order, Order::RowByRow) {
        return gapless_bytes(copy.row()).is_some_and(|bytes| stride == bytes as isize);
    }
    // The runs of all rows at a point, then those at the next point.
    let bytes = copy.row().run_bytes();
    let of_a_point = bytes * copy.rows();
    let points = copy.row().axes().iter().rev().try_fold(of_a_point, |bytes, axis| {
        (axis.target_stride == bytes as isize).then(|| bytes * axis.extent)
    });
    stride == bytes as isize && points.is_some()
}

/// The rows, in ranges that are consecutive on both sides.
fn ranges(copy: &IndexedCopy) -> Vec<RowRange> {
    let (sources, targets) = (copy.source(), copy.target());
    let mut ranges: Vec<RowRange> = Vec::new();
    let mut next = None;
    for position in 0..copy.rows() {
        let (source, target) = (sources.index(position), targets.index(position));
        match ranges.last_mut() {
            Some(range) if next == Some((source, target)) => range.rows += 1,
            _ => ranges.push(RowRange {
                source: source as isize * sources.stride,
                target: target as isize * targets.stride,
                rows: 1,
            }),
        }
        next = Some((source + 1, target + 1));
    }
    ranges
}
