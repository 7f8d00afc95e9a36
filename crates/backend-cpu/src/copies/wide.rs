//! Rows by wide registers: listed rows of a few cache lines, copied or combined, and rows of boxes that are combined.
//!
//! The C library chooses a way by the length at each call, which takes about as long as copying such a row. Here the way
//! is chosen once for many rows.

use haloport_core::device::{BoxCopy, CopyRows, Pointer};

use crate::copies::fetch::{LINE_BYTES, fetch};
use crate::copies::lines::{Store, for_each_line};

/// The bytes that one step copies.
pub(crate) const STEP: usize = 64;

/// From this length on, rows are left to the C library, which copies them by string instructions.
const LONG: usize = 2048;

/// Whether [`copy_listed`] copies rows of this length on this processor.
pub(crate) fn suits(bytes: usize) -> bool {
    (STEP..LONG).contains(&bytes) && has_registers()
}

/// Whether [`run_box`] writes rows of this length on this processor in less time than plain loops: if the store computes.
pub(crate) fn suits_box<S: Store>(bytes: usize) -> bool {
    S::COMPUTES && bytes >= STEP && has_registers()
}

fn has_registers() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Writes the rows of a box between these addresses of its first element.
///
/// # Safety
/// The length [`suits_box`], which also says that the processor has the registers. The rest as for
/// [`run_box`](crate::copies::boxes::run_box).
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
pub(crate) unsafe fn run_box<S: Store>(copy: &BoxCopy, ends: (Pointer, Pointer)) {
    let bytes = copy.run_bytes();
    for_each_line(copy, ends, |source, target, line| {
        let (mut from, mut to) = (source.as_ptr(), target.as_ptr());
        for _ in 0..line.extent {
            // SAFETY: the run lies within the box, which the caller promised.
            unsafe { S::copy_wide(from, to, bytes) };
            from = from.wrapping_offset(line.source_stride);
            to = to.wrapping_offset(line.target_stride);
        }
    });
}

/// Writes listed rows. `source` and `target` are the addresses of row 0.
///
/// # Safety
/// The length [`suits`], which also says that the processor has the registers. The rows are readable at the source and
/// writable at the target, and do not overlap.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
pub(crate) unsafe fn copy_listed<S: Store>(
    (source, sources): (Pointer, &CopyRows),
    (target, targets): (Pointer, &CopyRows),
    rows: usize,
    bytes: usize,
) {
    let ends = |position| {
        let from = source.offset(sources.index(position) as isize * sources.stride);
        (from, target.offset(targets.index(position) as isize * targets.stride))
    };
    for position in 0..rows {
        let (from, to) = ends(position);
        if S::COMPUTES && position + 1 < rows {
            // Both sides are read, and the processor sees no later rows before it has combined this one.
            let (from, to) = ends(position + 1);
            for at in (0..bytes).step_by(LINE_BYTES) {
                fetch(from.as_ptr().wrapping_add(at));
                fetch(to.as_ptr().wrapping_add(at));
            }
        }
        // SAFETY: the caller's promise.
        unsafe { S::copy_wide(from.as_ptr(), to.as_ptr(), bytes) };
    }
}

/// Copies a row by the registers for which its caller is compiled.
///
/// # Safety
/// The row is readable at the source and writable at the target, does not overlap, and has [`STEP`] bytes or more.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    let step = |at: usize| {
        // SAFETY: the step lies within the row, as `at + STEP <= bytes`; `[u8; STEP]` has the alignment 1.
        unsafe { to.add(at).cast::<[u8; STEP]>().write(from.add(at).cast::<[u8; STEP]>().read()) };
    };
    let last = bytes - STEP;
    let mut at = 0;
    while at < last {
        step(at);
        at += STEP;
    }
    // It may overlap with the step before, with the same bytes.
    step(last);
}
