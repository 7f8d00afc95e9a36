//! How copies write: through the caches, or past them.
//!
//! A buffer that another core reads after each time it is written lies in that core's cache as well. Writing a line of
//! it again means to fetch it and to take it away from there first, which for messages between processes can be most of
//! the time of packing. Stores past the caches (non-temporal ones) need neither, where they write whole lines: a line
//! that is written in both ways, or piece by piece, costs more than it spares. `cargo bench -p haloport-cpu --bench
//! stores` measures both.

use haloport_core::device::{BoxCopy, NextReader};

/// Runs of at least this many bytes, a line of the cache, are written past the caches if another core reads them next.
const RUN_BYTES: usize = 64;

/// Shorter lists are written through the caches: the memory behind them is further away than the other core's.
pub(crate) const LIST_BYTES: usize = 16384;

/// How runs of bytes of any length are written.
pub(crate) trait Store {
    /// Copies them.
    ///
    /// # Safety
    /// They are readable at `from` and writable at `to`, and do not overlap. Before any other access to what was
    /// written, the same thread calls [`finish`](Store::finish).
    unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize);

    /// Orders all that was written before whatever this thread does next.
    fn finish();
}

/// Through the caches.
pub(crate) struct Plain;

/// Past the caches, where the processor can.
pub(crate) struct PastCaches;

/// Whether a copy, each run of which has the form of `row`, is written past the caches. It is so for all of it or for
/// nothing: its runs lie side by side.
pub(crate) fn goes_past_caches(row: &BoxCopy, reader: NextReader) -> bool {
    let words = row.run_bytes().is_multiple_of(4) && row.target().as_ptr().addr().is_multiple_of(4);
    let aligned = row.axes().iter().all(|axis| axis.target_stride % 4 == 0);
    reader == NextReader::Elsewhere && row.run_bytes() >= RUN_BYTES && words && aligned
}

impl Store for Plain {
    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    }

    fn finish() {}
}

#[cfg(target_arch = "x86_64")]
impl Store for PastCaches {
    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si32, _mm_stream_si128};
        if !bytes.is_multiple_of(4) || !to.addr().is_multiple_of(4) {
            // SAFETY: the caller's promise.
            return unsafe { Plain::copy(from, to, bytes) };
        }
        let mut at = 0;
        // SAFETY: the caller's promise, for words of 4 aligned bytes up to the first and from the last aligned block of
        // 16 bytes on, and for the blocks between.
        unsafe {
            while at < bytes && !to.addr().wrapping_add(at).is_multiple_of(16) {
                _mm_stream_si32(to.add(at).cast(), from.add(at).cast::<i32>().read_unaligned());
                at += 4;
            }
            while at + 16 <= bytes {
                _mm_stream_si128(to.add(at).cast::<__m128i>(), _mm_loadu_si128(from.add(at).cast()));
                at += 16;
            }
            while at < bytes {
                _mm_stream_si32(to.add(at).cast(), from.add(at).cast::<i32>().read_unaligned());
                at += 4;
            }
        }
    }

    fn finish() {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Store for PastCaches {
    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { Plain::copy(from, to, bytes) };
    }

    fn finish() {}
}
