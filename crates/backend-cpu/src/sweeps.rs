//! Two strided copies of the same form in one sweep.
//!
//! The two faces of a block along its fastest axis lie in the same lines of the cache: the end of one row and the begin of
//! the next. Copied one after the other, each line is fetched twice; copied row by row together, once, and the processor
//! waits for twice as many lines at a time.

use std::collections::HashMap;

use haloport_core::device::{BoxCopy, CopyAxis, Pointer};

use crate::copies::{Item, for_each_line, match_run_bytes};
use crate::stores::{Gatherer, Writing};

/// Runs as long as a line of the cache, or longer, share none.
const LINE_BYTES: usize = 64;

/// So many runs ahead what they are copied from and to is fetched into the cache.
const RUNS_AHEAD: isize = 32;

/// Lines are fetched ahead where the sweep touches more of them than the caches next to the processor hold; within those,
/// it would take longer than it spares.
const FETCHED_LINES: usize = (512 << 10) / LINE_BYTES;

/// What two copies must have in common: the bytes of a run, the axes, and how they are written.
type Form = (usize, Vec<CopyAxis>, Writing);

/// Two copies of the same form.
#[derive(Debug)]
pub(crate) struct Sweep {
    first: BoxCopy,
    /// Bytes from the source of the first to that of the second, and from target to target.
    source_offset: isize,
    target_offset: isize,
    ahead: Ahead,
    writing: Writing,
}

/// Of what lines of the cache are fetched ahead.
#[derive(Debug, Clone, Copy)]
enum Ahead {
    Nothing,
    /// Of the second copy; its source lies beside the target of the first, and its target beside that one's source.
    Second,
    Both,
}

/// Joins short copies of the same form, two and two.
pub(crate) fn pair_up(items: Vec<Item>) -> Vec<Item> {
    let mut waiting: HashMap<Form, usize> = HashMap::new();
    let mut paired: Vec<Item> = Vec::with_capacity(items.len());
    for item in items {
        let Item::Box(copy, writing) = item else {
            paired.push(item);
            continue;
        };
        let form = Sweep::form(&copy, writing);
        match form.as_ref().and_then(|form| waiting.remove(form)) {
            Some(place) => {
                if let Item::Box(first, writing) = paired[place] {
                    paired[place] = Item::Sweep(Sweep::new(first, &copy, writing));
                }
            }
            None => {
                waiting.extend(form.map(|form| (form, paired.len())));
                paired.push(Item::Box(copy, writing));
            }
        }
    }
    paired
}

impl Sweep {
    /// What two copies must have in common; `None` for a copy that gains nothing from another one.
    fn form(copy: &BoxCopy, writing: Writing) -> Option<Form> {
        let short = copy.run_bytes() < LINE_BYTES && copy.sign_change().is_none() && !copy.axes().is_empty();
        short.then(|| (copy.run_bytes(), copy.axes().to_vec(), writing))
    }

    fn new(first: BoxCopy, second: &BoxCopy, writing: Writing) -> Sweep {
        let offset =
            |from: Pointer, to: Pointer| to.as_ptr().addr().wrapping_sub(from.as_ptr().addr()) as isize;
        let beside = |one: Pointer, other: Pointer| offset(one, other).unsigned_abs() <= LINE_BYTES;
        let lines = first.bytes() / first.run_bytes();
        Sweep {
            first,
            source_offset: offset(first.source(), second.source()),
            target_offset: offset(first.target(), second.target()),
            ahead: if lines <= FETCHED_LINES {
                Ahead::Nothing
            } else if beside(first.target(), second.source()) && beside(first.source(), second.target()) {
                Ahead::Second
            } else {
                Ahead::Both
            },
            writing,
        }
    }

    /// Runs both copies on the calling thread.
    ///
    /// # Safety
    /// As for [`CpuCopies::run`](crate::CpuCopies).
    pub(crate) unsafe fn run(&self) {
        if self.writing == Writing::Gathered {
            // SAFETY: the caller's promise.
            return unsafe { self.gather() };
        }
        macro_rules! run {
            ($copy_line:expr) => {
                // SAFETY: the line lies within both boxes, which the caller promised.
                for_each_line(&self.first, |source, target, line| unsafe {
                    $copy_line(self, source, target, line)
                })
            };
        }
        match_run_bytes!(self.first.run_bytes(),
            N => match self.ahead {
                Ahead::Nothing => run!(Sweep::line::<N, 0>),
                Ahead::Second => run!(Sweep::line::<N, 1>),
                Ahead::Both => run!(Sweep::line::<N, 2>),
            },
            _bytes => run!(Sweep::any_line))
    }

    /// Runs both copies, the runs of which are gathered: neither has gaps in its target.
    ///
    /// # Safety
    /// As for [`run`](Sweep::run).
    unsafe fn gather(&self) {
        let target = self.first.target().as_ptr();
        let (mut first, mut second) =
            (Gatherer::new(target), Gatherer::new(target.wrapping_offset(self.target_offset)));
        macro_rules! run {
            ($n:expr, $bytes:expr) => {
                for_each_line(&self.first, |source, _target, line| {
                    let mut from = source.as_ptr();
                    for _ in 0..line.extent {
                        let second_from = from.wrapping_offset(self.source_offset);
                        fetch(from.wrapping_offset(RUNS_AHEAD * line.source_stride));
                        fetch(second_from.wrapping_offset(RUNS_AHEAD * line.source_stride));
                        // SAFETY: the line lies within both boxes, which the caller promised, and is the next in both
                        // targets.
                        unsafe {
                            first.take::<$n>(from, $bytes);
                            second.take::<$n>(second_from, $bytes);
                        }
                        from = from.wrapping_offset(line.source_stride);
                    }
                })
            };
        }
        match_run_bytes!(self.first.run_bytes(), N => run!(N, N), bytes => run!(0, bytes));
        // SAFETY: all was taken that the boxes have room for.
        unsafe {
            first.end();
            second.end();
        }
    }

    /// Copies a line of runs of `N` bytes of both, and fetches ahead for `FETCHED` of them.
    ///
    /// # Safety
    /// As for [`run`](Sweep::run), for the line.
    #[inline]
    unsafe fn line<const N: usize, const FETCHED: usize>(
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
                fetch(second_to.wrapping_offset(RUNS_AHEAD * line.target_stride));
            }
            if FETCHED > 1 {
                fetch(from.wrapping_offset(RUNS_AHEAD * line.source_stride));
                fetch(to.wrapping_offset(RUNS_AHEAD * line.target_stride));
            }
            // SAFETY: all four lie in their lines; `[u8; N]` has the alignment 1.
            unsafe {
                let (first, second) = (from.cast::<[u8; N]>().read(), second_from.cast::<[u8; N]>().read());
                to.cast::<[u8; N]>().write(first);
                second_to.cast::<[u8; N]>().write(second);
            }
            from = from.wrapping_offset(line.source_stride);
            to = to.wrapping_offset(line.target_stride);
        }
    }

    /// Copies a line of runs of any length of both.
    ///
    /// # Safety
    /// As for [`run`](Sweep::run), for the line.
    unsafe fn any_line(&self, source: Pointer, target: Pointer, line: &CopyAxis) {
        let bytes = self.first.run_bytes();
        let (mut from, mut to) = (source.as_ptr(), target.as_ptr());
        for _ in 0..line.extent {
            let (second_from, second_to) =
                (from.wrapping_offset(self.source_offset), to.wrapping_offset(self.target_offset));
            // SAFETY: all four lie in their lines, and what is written does not overlap with anything.
            unsafe {
                std::ptr::copy_nonoverlapping(from, to, bytes);
                std::ptr::copy_nonoverlapping(second_from, second_to, bytes);
            }
            from = from.wrapping_offset(line.source_stride);
            to = to.wrapping_offset(line.target_stride);
        }
    }
}

/// Asks for a line of the cache; any address will do.
#[inline(always)]
fn fetch(address: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
