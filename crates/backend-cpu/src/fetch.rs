//! Fetching lines of memory into the caches before they are needed.
//!
//! Runs that lie apart are found by the processor's own look-ahead only within the few dozen instructions that it works on at
//! a time. Where what is copied does not lie in the caches next to the processor, asking for runs further on lets it wait for
//! more lines at once.

/// Lines are fetched ahead where a copy touches more of them than the caches next to the processor hold; within those, it
/// would take longer than it spares.
pub(crate) const FETCHED_LINES: usize = (512 << 10) / LINE_BYTES;

/// A line of the cache.
pub(crate) const LINE_BYTES: usize = 64;

/// Asks for a line of the cache; any address will do.
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
