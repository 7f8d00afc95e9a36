//! Listed rows that are combined with others, in tiles: a few rows at all their points, then the next rows.
//!
//! Both sides are read, and the targets mostly lie far from one another. While a point of a tile is combined, the same
//! rows of its next point are fetched. They stay in the nearest cache until it is their turn, and the points of so few
//! rows lie in few pages of memory.

use std::sync::Arc;

use haloport_core::device::{CopyRows, IndexedCopy, Pointer};

use crate::copies::fetch::{FETCHED_LINES, LINE_BYTES, fetch};
use crate::copies::lines::{Store, for_each_line, step};

/// The rows of a tile.
const TILE: usize = 32;

/// Rows of fewer points are not combined in tiles, whose first points are not fetched ahead. In measurements, tiles took longer for
/// 3 points and less time for 80 (`docs/measurements/2026-11-28-accumulate.md`).
const POINTS: usize = 8;

/// The rows on both sides.
#[derive(Debug)]
pub(crate) struct Tiles {
    from: Arc<[u32]>,
    to: Arc<[u32]>,
}

impl Tiles {
    /// Whether tiles suit the copy: it has many short runs of bytes, at several points.
    pub(crate) fn suit(copy: &IndexedCopy) -> bool {
        let run_bytes = copy.row().run_bytes();
        let runs = copy.bytes() / run_bytes;
        runs > FETCHED_LINES && run_bytes < LINE_BYTES && runs >= POINTS * copy.rows()
    }

    /// All rows of `copy`, in its order.
    pub(crate) fn new(copy: &IndexedCopy) -> Tiles {
        let list =
            |rows: &CopyRows| rows.indices.clone().unwrap_or_else(|| (0..copy.rows() as u32).collect());
        Tiles { from: list(copy.source()), to: list(copy.target()) }
    }

    /// Copies the rows of `copy`, of which the tiles were made. `N` is the number of bytes at each point, or 0 for other
    /// numbers.
    ///
    /// # Safety
    /// As for [`run_box`](crate::copies::boxes::run_box), for every row.
    pub(crate) unsafe fn run<S: Store, const N: usize>(&self, copy: &IndexedCopy, ends: (Pointer, Pointer)) {
        let strides = (copy.source().stride, copy.target().stride);
        let bytes = copy.row().run_bytes();
        let dense = (N as isize, N as isize);
        // Adjacent rows are common; with constant strides, their addresses need no multiplication.
        if N > 0 && strides == dense {
            // SAFETY: the caller promised every row.
            self.for_each(copy, ends, dense, |from, to| unsafe { S::copy_run::<N>(from, to) });
        } else if N > 0 {
            // SAFETY: the caller promised every row.
            self.for_each(copy, ends, strides, |from, to| unsafe { S::copy_run::<N>(from, to) });
        } else {
            // SAFETY: the caller promised every row.
            self.for_each(copy, ends, strides, |from, to| unsafe { S::copy(from, to, bytes) });
        }
    }

    /// Calls `combine` with the addresses of each point of each row. `ends` are those of the first point of row 0, and
    /// `strides` the distances to row 1.
    #[inline(always)]
    fn for_each(
        &self,
        copy: &IndexedCopy,
        ends: (Pointer, Pointer),
        strides: (isize, isize),
        combine: impl Fn(*const u8, *mut u8),
    ) {
        for (from, to) in self.from.chunks(TILE).zip(self.to.chunks(TILE)) {
            for_each_line(copy.row(), ends, |source, target, line| {
                for point in 0..line.extent {
                    let (source, target) = step(source, target, line, point);
                    for (&from, &to) in from.iter().zip(to) {
                        let source = source.offset(from as isize * strides.0);
                        let target = target.offset(to as isize * strides.1);
                        fetch(source.offset(line.source_stride).as_ptr());
                        fetch(target.offset(line.target_stride).as_ptr());
                        combine(source.as_ptr(), target.as_ptr());
                    }
                }
            });
        }
    }
}
