//! Copies of rows picked by index.

use haloport_core::device::{CopyAxis, IndexedCopy, Pointer};

use crate::copies::{copy_line, copy_rows, for_each_line, run_box, step};
use crate::fetch::{FETCHED_LINES, fetch};
use crate::stores::{PastCaches, Plain, Store, Writing, gapless_bytes};

/// So many runs ahead what they are copied from is fetched into the cache: cells of a mesh that are listed together often
/// share lines of the cache, and this many are some eighty lines.
const RUNS_AHEAD: usize = 256;

/// So many listed rows are copied in one turn of a loop.
const BLOCK: usize = 8;

/// Runs of consecutive rows are kept instead of index lists where they have at least this many rows on average.
const ROWS_PER_RUN: usize = 2;

/// A copy of indexed rows, with what the order of the rows allows found out once.
#[derive(Debug)]
pub(crate) struct RowCopy {
    copy: IndexedCopy,
    order: Order,
    writing: Writing,
    ahead: Option<Ahead>,
}

/// How far ahead of the rows of a point others are fetched: so many points, and rows of the next.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    points: usize,
    rows: usize,
}

/// In which order the elements are visited.
#[derive(Debug)]
enum Order {
    /// Row after row, each a box of its own.
    RowByRow,
    /// For each point of a row, one run of bytes, all rows.
    PointByPoint,
    /// The same, with runs of rows that follow each other on both sides.
    InRuns(Vec<Run>),
}

/// Rows that follow each other on both sides.
#[derive(Debug)]
struct Run {
    /// Bytes from row 0 to the first row.
    source: isize,
    target: isize,
    rows: usize,
}

impl RowCopy {
    /// Written in a way if that suits it.
    pub(crate) fn new(copy: IndexedCopy, writing: Writing) -> RowCopy {
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
            let runs = runs(&copy);
            if runs.len() * ROWS_PER_RUN <= copy.rows() { Order::InRuns(runs) } else { Order::PointByPoint }
        };
        let writing = writing.of(copy.row(), is_gapless(&copy, &order));
        let runs = copy.bytes() / copy.row().run_bytes();
        let ahead = Ahead { points: RUNS_AHEAD / copy.rows(), rows: RUNS_AHEAD % copy.rows() };
        RowCopy { copy, order, writing, ahead: (runs > FETCHED_LINES).then_some(ahead) }
    }

    pub(crate) fn writing(&self) -> Writing {
        self.writing
    }

    /// Moves the rows along with the blocks of memory that they are anchored to.
    pub(crate) fn relocate(&mut self, from: &[Pointer], to: &[Pointer]) {
        self.copy.relocate(from, to);
    }

    /// Runs the copy on the calling thread.
    ///
    /// # Safety
    /// As for [`run_box`].
    pub(crate) unsafe fn run(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.writing {
                Writing::Plain => self.run_by::<Plain>(),
                Writing::PastCaches => self.run_by::<PastCaches>(),
            }
        }
    }

    /// Runs the copy run by run.
    ///
    /// # Safety
    /// As for [`run_box`].
    unsafe fn run_by<S: Store>(&self) {
        let row = self.copy.row();
        let (sources, targets) = (self.copy.source(), self.copy.target());
        if matches!(self.order, Order::RowByRow) {
            for position in 0..self.copy.rows() {
                let source = sources.index(position) as isize * sources.stride;
                let target = targets.index(position) as isize * targets.stride;
                // SAFETY: the caller promised every row.
                unsafe { run_box::<S>(&row.moved(source, target)) };
            }
            return;
        }
        // The size of a run of bytes is settled once, outside all loops.
        // SAFETY: the caller's promise; the sizes are equal.
        unsafe {
            match row.run_bytes() {
                1 => self.points::<S, 1>(),
                2 => self.points::<S, 2>(),
                4 => self.points::<S, 4>(),
                8 => self.points::<S, 8>(),
                16 => self.points::<S, 16>(),
                _ => self.points::<S, 0>(),
            }
        }
    }

    /// Copies point by point; `N` is the number of bytes at each, 0 if it is another one.
    ///
    /// # Safety
    /// As for [`run`](RowCopy::run).
    unsafe fn points<S: Store, const N: usize>(&self) {
        for_each_line(self.copy.row(), |source, target, line| {
            for point in 0..line.extent {
                let (source, target) = step(source, target, line, point);
                // SAFETY: the caller promised every row, and the point lies within the row.
                unsafe { self.point::<S, N>(source, target, line.source_stride) };
            }
        });
    }

    /// Copies one point of every row. `source` and `target` are its addresses in row 0, and the next point is so many bytes
    /// further in the source.
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
        if let Order::InRuns(runs) = &self.order {
            let together = sources.stride == bytes as isize && targets.stride == bytes as isize;
            for run in runs {
                let (from, to) = (source.offset(run.source), target.offset(run.target));
                let line = CopyAxis {
                    extent: if together { 1 } else { run.rows },
                    source_stride: sources.stride,
                    target_stride: targets.stride,
                };
                // SAFETY: the caller promised every row of the run.
                unsafe {
                    if together || N == 0 {
                        copy_rows::<S>(from, to, &line, if together { run.rows * bytes } else { bytes });
                    } else {
                        copy_line::<S, N>(from, to, &line);
                    }
                }
            }
            return;
        }
        match (&sources.indices, &targets.indices) {
            (Some(from), None) => {
                self.for_each_row::<N>(from, source, next_point, |place, from| copy_row(from, place));
            }
            (Some(from), Some(to)) => {
                self.for_each_row::<N>(from, source, next_point, |place, from| {
                    copy_row(from, to[place] as usize);
                });
            }
            (None, Some(to)) => {
                to.iter().enumerate().for_each(|(from, &to)| copy_row(in_order(from), to as usize));
            }
            (None, None) => (0..self.copy.rows()).for_each(|row| copy_row(in_order(row), row)),
        }
    }

    /// Calls `copy` with the place in the list and the address of each row of the source, and fetches others ahead.
    #[inline(always)]
    fn for_each_row<const N: usize>(
        &self,
        rows: &[u32],
        source: Pointer,
        next_point: isize,
        copy: impl Fn(usize, Pointer),
    ) {
        let stride = self.copy.source().stride;
        // Rows that lie side by side are common: their addresses need no multiplication.
        if N > 0 && stride == N as isize {
            self.for_each_offset(rows, source, next_point, |row| row as isize * N as isize, copy);
        } else {
            self.for_each_offset(rows, source, next_point, |row| row as isize * stride, copy);
        }
    }

    /// The same, with the bytes from row 0 to each row.
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
            let places = rows.iter().enumerate();
            return places.for_each(|(place, &row)| copy(place, source.offset(offset(row))));
        };
        let later = source.offset(ahead.points as isize * next_point);
        // The rows from there on, and then the first ones of the next point.
        let (first, rest) = rows.split_at(ahead.rows);
        for (begin, point, fetched) in [(0, later, rest), (rest.len(), later.offset(next_point), first)] {
            let step = |place: usize, row: u32, later: u32| {
                fetch(point.offset(offset(later)).as_ptr());
                copy(begin + place, source.offset(offset(row)));
            };
            let rows = &rows[begin..begin + fetched.len()];
            // In blocks, which the compiler unrolls.
            let (blocks, left) = rows.as_chunks::<BLOCK>();
            let (later_blocks, later_left) = fetched.as_chunks::<BLOCK>();
            for (block, (rows, later)) in blocks.iter().zip(later_blocks).enumerate() {
                for place in 0..BLOCK {
                    step(block * BLOCK + place, rows[place], later[place]);
                }
            }
            for (place, (&row, &later)) in left.iter().zip(later_left).enumerate() {
                step(blocks.len() * BLOCK + place, row, later);
            }
        }
    }
}

/// Whether the runs of a copy lie side by side in its target, in the order in which they are copied.
fn is_gapless(copy: &IndexedCopy, order: &Order) -> bool {
    let stride = copy.target().stride;
    if copy.target().indices.is_some() {
        return false;
    }
    if matches!(order, Order::RowByRow) {
        return gapless_bytes(copy.row()).is_some_and(|bytes| stride == bytes as isize);
    }
    // All rows of a point, then the next point.
    let bytes = copy.row().run_bytes();
    let of_a_point = bytes * copy.rows();
    let points = copy.row().axes().iter().rev().try_fold(of_a_point, |bytes, axis| {
        (axis.target_stride == bytes as isize).then(|| bytes * axis.extent)
    });
    stride == bytes as isize && points.is_some()
}

/// The rows in runs that follow each other on both sides.
fn runs(copy: &IndexedCopy) -> Vec<Run> {
    let (sources, targets) = (copy.source(), copy.target());
    let mut runs: Vec<Run> = Vec::new();
    let mut next = None;
    for position in 0..copy.rows() {
        let (source, target) = (sources.index(position), targets.index(position));
        match runs.last_mut() {
            Some(run) if next == Some((source, target)) => run.rows += 1,
            _ => runs.push(Run {
                source: source as isize * sources.stride,
                target: target as isize * targets.stride,
                rows: 1,
            }),
        }
        next = Some((source + 1, target + 1));
    }
    runs
}
