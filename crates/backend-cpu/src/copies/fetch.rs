//! Fetching lines of memory into the caches before they are needed.
//!
//! The processor itself looks ahead only by the few dozen instructions that it works on at a time. If the source does
//! not lie in the nearest caches, asking for later runs lets the processor wait for more lines at once.

/// Copies fetch ahead only if they touch more lines than this: within the nearest caches, fetching takes longer than it saves. A block
/// of 90³ cells has more rows, since blocks of ranks that take turns on a core do not stay in its caches
/// (`docs/measurements/2026-11-27-crowds.md`).
pub(crate) const FETCHED_LINES: usize = (256 << 10) / LINE_BYTES;

/// The bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// Asks for the cache line of an address, which need not be valid.
#[inline(always)]
pub(crate) fn fetch(address: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
