//! Two strided copies of the same form in one sweep.
//!
//! The two faces of a block along its fastest axis share cache lines: the end of one row and the start of the next. If
//! the faces are copied one after the other, each line is fetched twice. If they are copied together, row by row, it is
//! fetched once, and the processor waits for twice as many lines at a time.

use haloport_core::device::{Anchors, BoxCopy, CopyAxis, Pointer};

use crate::copies::fetch::{FETCHED_LINES, LINE_BYTES, fetch};
use crate::copies::lines::{Store, for_each_line, match_run_bytes};
use crate::copies::stores::Writing;

/// The distance, in runs, at which sources and targets are fetched into the cache ahead of the copy.
pub(crate) const RUNS_AHEAD: isize = 32;

/// The properties that two copies must share: the bytes of a run, the axes, the way of writing, and the blocks of
/// memory that they are anchored to.
pub(crate) type Form = (usize, Vec<CopyAxis>, Writing, Anchors);

/// Two copies of the same form.
#[derive(Debug)]
pub(crate) struct Sweep {
    first: BoxCopy,
    /// The bytes from the source of the first to that of the second, and from target to target.
    source_offset: isize,
    target_offset: isize,
    prefetch: Prefetch,
    pub(crate) writing: Writing,
}

/// The copies whose cache lines are fetched ahead.
#[derive(Debug, Clone, Copy)]
enum Prefetch {
    Nothing,
    /// Only the second: its source lies beside the target of the first, and its target beside the source of the first.
    Second,
    Both,
}

impl Sweep {
    /// The form of a copy; `None` if it gains nothing from a partner, because runs of a cache line or more share none.
    pub(crate) fn form(copy: &BoxCopy, writing: Writing) -> Option<Form> {
        let short = copy.run_bytes() < LINE_BYTES && copy.sign_change().is_none() && !copy.axes().is_empty();
        short.then(|| (copy.run_bytes(), copy.axes().to_vec(), writing, copy.anchors()))
    }

    pub(crate) fn new(first: BoxCopy, second: &BoxCopy, writing: Writing) -> Sweep {
        let offset =
            |from: Pointer, to: Pointer| to.as_ptr().addr().wrapping_sub(from.as_ptr().addr()) as isize;
        let beside = |one: Pointer, other: Pointer| offset(one, other).unsigned_abs() <= LINE_BYTES;
        let lines = first.bytes() / first.run_bytes();
        Sweep {
            first,
            source_offset: offset(first.source(), second.source()),
            target_offset: offset(first.target(), second.target()),
            prefetch: if lines <= FETCHED_LINES {
                Prefetch::Nothing
            } else if beside(first.target(), second.source()) && beside(first.source(), second.target()) {
                Prefetch::Second
            } else {
                Prefetch::Both
            },
            writing,
        }
    }

    /// Runs both copies on the calling thread. Block `k`, to which they are anchored, begins at `bases[k]`.
    ///
    /// # Safety
    /// As for [`run_box`](crate::copies::boxes::run_box), for both.
    pub(crate) unsafe fn run<S: Store>(&self, bases: &[Pointer]) {
        let ends = self.first.ends(bases);
        macro_rules! run {
            ($copy_line:expr) => {
                // SAFETY: the line lies within both boxes, which the caller promised.
                for_each_line(&self.first, ends, |source, target, line| unsafe {
                    $copy_line(self, source, target, line)
                })
            };
        }
        match_run_bytes!(S, self.first.run_bytes(),
            N => match self.prefetch {
                Prefetch::Nothing => run!(Sweep::line::<S, N, 0>),
                Prefetch::Second => run!(Sweep::line::<S, N, 1>),
                Prefetch::Both => run!(Sweep::line::<S, N, 2>),
            },
            _bytes => run!(Sweep::any_line::<S>))
    }

    /// Copies a line of runs of `N` bytes of both copies, and fetches ahead for `FETCHED` of them.
    ///
    /// # Safety
    /// As for [`run`](Sweep::run), for the line.
    #[inline]
    unsafe fn line<S: Store, const N: usize, const FETCHED: usize>(
        &self,
        source: Pointer,
        target: Pointer,
        line: &CopyAxis,
    ) {
        let (mut from, mut to) = (source.as_ptr(), target.as_ptr());
        for _ in 0..line.extent {
            let (second_from, second_to) =
                (from.wrapping_offset(self.source_offset), to.wrapping_offset(self.target_offset));
            if FETCHED > 0 {
                fetch(second_from.wrapping_offset(RUNS_AHEAD * line.source_stride));
                if S::THROUGH_CACHES {
                    fetch(second_to.wrapping_offset(RUNS_AHEAD * line.target_stride));
                }
            }
            if FETCHED > 1 {
                fetch(from.wrapping_offset(RUNS_AHEAD * line.source_stride));
                if S::THROUGH_CACHES {
                    fetch(to.wrapping_offset(RUNS_AHEAD * line.target_stride));
                }
            }
            // SAFETY: all four lie in their lines, and no target overlaps with another range.
            unsafe { S::copy_runs::<N>([from, second_from], [to, second_to]) };
            from = from.wrapping_offset(line.source_stride);
            to = to.wrapping_offset(line.target_stride);
        }
    }

    /// Copies a line of runs of any length of both copies.
    ///
    /// # Safety
    /// As for [`run`](Sweep::run), for the line.
    unsafe fn any_line<S: Store>(&self, source: Pointer, target: Pointer, line: &CopyAxis) {
        let bytes = self.first.run_bytes();
        let (mut from, mut to) = (source.as_ptr(), target.as_ptr());
        for _ in 0..line.extent {
            let (second_from, second_to) =
                (from.wrapping_offset(self.source_offset), to.wrapping_offset(self.target_offset));
            // SAFETY: all four lie in their lines, and no target overlaps with another range.
            unsafe {
                S::copy(from, to, bytes);
                S::copy(second_from, second_to, bytes);
            }
            from = from.wrapping_offset(line.source_stride);
            to = to.wrapping_offset(line.target_stride);
        }
    }
}
