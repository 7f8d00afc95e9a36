//! The loops that combine numbers: over a box, two boxes in one sweep, and listed rows.
//!
//! The two faces of a block along its fastest axis share cache lines, as those of copies do (`sweeps`).

use haloport_core::device::{Anchors, BoxCopy, CopyAxis, IndexedCopy, Pointer};

use crate::copies::fetch::{FETCHED_LINES, LINE_BYTES, fetch};
use crate::copies::lines::for_each_line;
use crate::copies::numbers::{Negated, Number, Operation};
use crate::copies::sweeps::RUNS_AHEAD;

/// A second box of the same form: the bytes from the source of the first to its own, and from target to target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Twin {
    source: isize,
    target: isize,
    /// Whether later runs are fetched into the cache ahead.
    fetched: bool,
}

/// What two boxes must share: the bytes of a run, the axes, and the blocks of memory that they are anchored to.
pub(crate) type TwinForm = (usize, Vec<CopyAxis>, Anchors);

impl Twin {
    /// The form of a box; `None` if it gains nothing from a second one, because runs of a cache line or more share none.
    pub(crate) fn form(copy: &BoxCopy) -> Option<TwinForm> {
        let short = copy.run_bytes() < LINE_BYTES && copy.sign_change().is_none() && !copy.axes().is_empty();
        short.then(|| (copy.run_bytes(), copy.axes().to_vec(), copy.anchors()))
    }

    pub(crate) fn new(first: &BoxCopy, second: &BoxCopy) -> Twin {
        let offset =
            |from: Pointer, to: Pointer| to.as_ptr().addr().wrapping_sub(from.as_ptr().addr()) as isize;
        Twin {
            source: offset(first.source(), second.source()),
            target: offset(first.target(), second.target()),
            fetched: first.bytes() / first.run_bytes() > FETCHED_LINES,
        }
    }
}

/// Combines a box of numbers, and its twin.
///
/// # Safety
/// As for [`CombineCopy::run`](super::combine::CombineCopy::run).
pub(crate) unsafe fn combine_box<T: Number, O: Operation<T>>(
    copy: &BoxCopy,
    ends: (Pointer, Pointer),
    twin: Option<Twin>,
) {
    let numbers = copy.run_bytes() / size_of::<T>();
    // The length of a run is known before the loops.
    // SAFETY: the caller's promise.
    unsafe {
        match (twin, numbers) {
            _ if copy.sign_change().is_some() => {
                for_each_run(copy, ends, |from, to| any::<T, Negated<O>>(from, to, numbers));
            }
            (Some(twin), 1) => for_each_pair(copy, ends, twin, |from, to| few::<T, O, 1>(from, to)),
            (Some(twin), 2) => for_each_pair(copy, ends, twin, |from, to| few::<T, O, 2>(from, to)),
            (Some(twin), 3) => for_each_pair(copy, ends, twin, |from, to| few::<T, O, 3>(from, to)),
            (Some(twin), _) => for_each_pair(copy, ends, twin, |from, to| any::<T, O>(from, to, numbers)),
            (None, 1) => for_each_run(copy, ends, |from, to| few::<T, O, 1>(from, to)),
            (None, _) => for_each_run(copy, ends, |from, to| any::<T, O>(from, to, numbers)),
        }
    }
}

/// Combines listed rows of numbers.
///
/// # Safety
/// As for [`CombineCopy::run`](super::combine::CombineCopy::run).
pub(crate) unsafe fn combine_rows<T: Number, O: Operation<T>>(copy: &IndexedCopy, ends: (Pointer, Pointer)) {
    let (row, sources, targets) = (copy.row(), copy.source(), copy.target());
    let numbers = row.run_bytes() / size_of::<T>();
    let in_rows = |position: usize, source: Pointer, target: Pointer| {
        let source = source.offset(sources.index(position) as isize * sources.stride);
        (source, target.offset(targets.index(position) as isize * targets.stride))
    };
    let within = row.axes().iter().map(|axis| axis.source_stride.unsigned_abs());
    let rows_are_apart = within.max().is_none_or(|within| within < sources.stride.unsigned_abs());
    let has_many = numbers > 1 || !row.axes().is_empty();
    if row.sign_change().is_some() || rows_are_apart && has_many {
        for position in 0..copy.rows() {
            // SAFETY: the caller promised every row.
            unsafe { combine_box::<T, O>(row, in_rows(position, ends.0, ends.1), None) };
        }
        return;
    }
    // Point by point, all rows: the runs of a row lie further apart than the rows, or there is one number in each.
    for_each_run(row, ends, |from, to| {
        for position in 0..copy.rows() {
            let (source, target) = in_rows(position, Pointer::new(from), Pointer::new(to));
            // SAFETY: the caller promised every row.
            unsafe {
                match numbers {
                    1 => few::<T, O, 1>(source.as_ptr(), target.as_ptr()),
                    _ => any::<T, O>(source.as_ptr(), target.as_ptr(), numbers),
                }
            }
        }
    });
}

/// Calls `combine` with the addresses of every run of a box.
#[inline(always)]
fn for_each_run(copy: &BoxCopy, ends: (Pointer, Pointer), combine: impl Fn(*mut u8, *mut u8)) {
    for_each_line(copy, ends, |source, target, line| {
        let (mut from, mut to) = (source.as_ptr(), target.as_ptr());
        for _ in 0..line.extent {
            combine(from, to);
            from = from.wrapping_offset(line.source_stride);
            to = to.wrapping_offset(line.target_stride);
        }
    });
}

/// Calls `combine` with the addresses of every run of a box and of its twin.
#[inline(always)]
fn for_each_pair(copy: &BoxCopy, ends: (Pointer, Pointer), twin: Twin, combine: impl Fn(*mut u8, *mut u8)) {
    for_each_line(copy, ends, |source, target, line| {
        let (mut from, mut to) = (source.as_ptr(), target.as_ptr());
        for _ in 0..line.extent {
            let (second_from, second_to) =
                (from.wrapping_offset(twin.source), to.wrapping_offset(twin.target));
            if twin.fetched {
                fetch(second_from.wrapping_offset(RUNS_AHEAD * line.source_stride));
                fetch(second_to.wrapping_offset(RUNS_AHEAD * line.target_stride));
            }
            combine(from, to);
            combine(second_from, second_to);
            from = from.wrapping_offset(line.source_stride);
            to = to.wrapping_offset(line.target_stride);
        }
    });
}

/// Combines a run of `N` numbers, for small `N`.
///
/// # Safety
/// Both runs are aligned numbers, and do not overlap; nothing else uses the target.
#[inline(always)]
unsafe fn few<T: Number, O: Operation<T>, const N: usize>(from: *mut u8, to: *mut u8) {
    let (from, to) = (from.cast::<[T; N]>(), to.cast::<[T; N]>());
    // SAFETY: the caller's promise.
    unsafe {
        let (arrived, mut there) = (from.read(), to.read());
        for number in 0..N {
            there[number] = O::apply(there[number], arrived[number]);
        }
        to.write(there);
    }
}

/// Combines a run of numbers of any length.
///
/// # Safety
/// As for [`few`].
#[inline(always)]
unsafe fn any<T: Number, O: Operation<T>>(from: *mut u8, to: *mut u8, numbers: usize) {
    // SAFETY: the caller's promise.
    let (arrived, there) = unsafe {
        let arrived = std::slice::from_raw_parts(from.cast::<T>().cast_const(), numbers);
        (arrived, std::slice::from_raw_parts_mut(to.cast::<T>(), numbers))
    };
    combine_slices::<T, O>(there, arrived);
}

/// Combines slices of equal lengths; the compiler knows that they do not overlap.
#[inline]
fn combine_slices<T: Number, O: Operation<T>>(there: &mut [T], arrived: &[T]) {
    for (there, arrived) in there.iter_mut().zip(arrived) {
        *there = O::apply(*there, *arrived);
    }
}
