//! Copies of rows picked by index.

use haloport_core::device::{CopyAxis, IndexedCopy, NextReader, Pointer};

use crate::copies::{copy_line, copy_rows, for_each_line, match_run_bytes, run_box, step};
use crate::stores::{Gatherer, PastCaches, Plain, Store, Writing, gapless_bytes};

/// Runs of consecutive rows are kept instead of index lists where they have at least this many rows on average.
const ROWS_PER_RUN: usize = 2;

/// A copy of indexed rows, with what the order of the rows allows found out once.
#[derive(Debug)]
pub(crate) struct RowCopy {
    copy: IndexedCopy,
    order: Order,
    writing: Writing,
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
    pub(crate) fn new(copy: IndexedCopy, reader: NextReader) -> RowCopy {
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
        let writing = Writing::of(copy.row(), is_gapless(&copy, &order), reader);
        RowCopy { copy, order, writing }
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
                Writing::Gathered => self.gather(),
            }
        }
    }

    /// Runs the copy, which has no gaps in its target: its runs are gathered.
    ///
    /// # Safety
    /// As for [`run_box`].
    unsafe fn gather(&self) {
        let row = self.copy.row();
        let mut gatherer = Gatherer::new(row.target().as_ptr());
        let sources = self.copy.source();
        let rows = self.copy.rows();
        macro_rules! run {
            ($n:expr, $bytes:expr) => {
                if matches!(self.order, Order::RowByRow) {
                    for position in 0..rows {
                        let row = row.moved(sources.index(position) as isize * sources.stride, 0);
                        for_each_line(&row, |source, _target, line| {
                            for point in 0..line.extent as isize {
                                let from = source.offset(point * line.source_stride);
                                // SAFETY: the caller promised every row, and this is the next run of the target.
                                unsafe { gatherer.take::<$n>(from.as_ptr(), $bytes) };
                            }
                        });
                    }
                } else {
                    for_each_line(row, |source, _target, line| {
                        for point in 0..line.extent as isize {
                            let from = source.offset(point * line.source_stride);
                            let mut take = |row: usize| {
                                let from = from.offset(row as isize * sources.stride).as_ptr();
                                // SAFETY: as above.
                                unsafe { gatherer.take::<$n>(from, $bytes) };
                            };
                            match &sources.indices {
                                Some(indices) => indices.iter().for_each(|&row| take(row as usize)),
                                None => (0..rows).for_each(take),
                            }
                        }
                    });
                }
            };
        }
        match_run_bytes!(row.run_bytes(), N => run!(N, N), bytes => run!(0, bytes));
        // SAFETY: all was taken that the rows have room for.
        unsafe { gatherer.end() };
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
                unsafe { self.point::<S, N>(source, target) };
            }
        });
    }

    /// Copies one point of every row. `source` and `target` are its addresses in row 0.
    ///
    /// # Safety
    /// As for [`run`](RowCopy::run).
    unsafe fn point<S: Store, const N: usize>(&self, source: Pointer, target: Pointer) {
        let bytes = if N > 0 { N } else { self.copy.row().run_bytes() };
        let (sources, targets) = (self.copy.source(), self.copy.target());
        let copy_row = |from: usize, to: usize| {
            let from = source.offset(from as isize * sources.stride).as_ptr();
            let to = target.offset(to as isize * targets.stride).as_ptr();
            // SAFETY: the caller promised every row.
            unsafe {
                if N > 0 {
                    to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read());
                } else {
                    S::copy(from, to, bytes);
                }
            }
        };
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
                        copy_line::<N>(from, to, &line);
                    }
                }
            }
            return;
        }
        match (&sources.indices, &targets.indices) {
            (Some(from), None) => from.iter().enumerate().for_each(|(to, &from)| copy_row(from as usize, to)),
            (None, Some(to)) => to.iter().enumerate().for_each(|(from, &to)| copy_row(from, to as usize)),
            (Some(from), Some(to)) => {
                from.iter().zip(&**to).for_each(|(&from, &to)| copy_row(from as usize, to as usize));
            }
            (None, None) => (0..self.copy.rows()).for_each(|row| copy_row(row, row)),
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
