//! Listed rows of a few cache lines, copied or combined by wide registers.
//!
//! The C library chooses a way by the length at each call, which takes about as long as copying such a row. Here the way
//! is chosen once for many rows.

use haloport_core::device::{CopyRows, Pointer};

use crate::copies::lines::Store;

/// The bytes that one step copies.
pub(crate) const STEP: usize = 64;

/// From this length on, rows are left to the C library, which copies them by string instructions.
const LONG: usize = 2048;

/// Whether [`copy_listed`] copies rows of this length on this processor.
pub(crate) fn suits(bytes: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    let has_registers = std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    let has_registers = false;
    (STEP..LONG).contains(&bytes) && has_registers
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
    for position in 0..rows {
        let from = source.offset(sources.index(position) as isize * sources.stride);
        let to = target.offset(targets.index(position) as isize * targets.stride);
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
