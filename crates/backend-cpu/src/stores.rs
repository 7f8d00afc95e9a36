//! How copies write: through the caches, or past them.
//!
//! A buffer that another core reads after each time it is written lies in that core's cache as well. Writing a line of
//! it again means to fetch it and to take it away from there first, which for messages between processes can be most of
//! the time of packing. Stores past the caches (non-temporal ones) need neither, where they write whole lines: a line
//! that is written in both ways, or piece by piece, costs more than it spares. So short runs are gathered in a small
//! buffer, which stays in the cache, where the target has no gaps. `cargo bench -p haloport-cpu --bench stores` measures
//! both.

use haloport_core::device::{BoxCopy, NextReader};

/// Runs of at least this many bytes, a line of the cache, are written past the caches if another core reads them next.
const RUN_BYTES: usize = 64;

/// Of so many bytes are words that are written past the caches.
const WORD: usize = 4;

/// So many bytes are gathered before they are written.
const GATHERED_BYTES: usize = 2048;

/// Shorter lists are written through the caches: the memory behind them is further away than the other core's.
pub(crate) const LIST_BYTES: usize = 8192;

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

/// How the runs of a copy are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Writing {
    /// Through the caches.
    Plain,
    /// Past them, run by run.
    PastCaches,
    /// Past them, gathered: the target has no gaps.
    Gathered,
}

impl Writing {
    /// How to write a copy of runs, each of the form of `row`, where `gapless` says that all of them lie side by side in the
    /// target in the order in which they are copied.
    pub(crate) fn of(row: &BoxCopy, gapless: bool, reader: NextReader) -> Writing {
        let words = row.run_bytes().is_multiple_of(WORD) && row.target().as_ptr().addr().is_multiple_of(WORD);
        let aligned = row.axes().iter().all(|axis| axis.target_stride % WORD as isize == 0);
        if reader == NextReader::Here || !words || !aligned {
            Writing::Plain
        } else if row.run_bytes() >= RUN_BYTES {
            Writing::PastCaches
        } else if gapless && row.sign_change().is_none() {
            Writing::Gathered
        } else {
            Writing::Plain
        }
    }
}

/// Whether the runs of a copy lie side by side in its target, in the order in which they are copied, each row of them
/// `bytes` long; `None` where they do not, else the bytes of all.
pub(crate) fn gapless_bytes(copy: &BoxCopy) -> Option<usize> {
    copy.axes().iter().rev().try_fold(copy.run_bytes(), |bytes, axis| {
        (axis.target_stride == bytes as isize).then(|| bytes * axis.extent)
    })
}

/// Gathers runs and writes them past the caches, one after the other.
pub(crate) struct Gatherer {
    buffer: [u8; GATHERED_BYTES + RUN_BYTES],
    filled: usize,
    to: *mut u8,
}

impl Gatherer {
    /// Writes from `to` on.
    pub(crate) fn new(to: *mut u8) -> Gatherer {
        Gatherer { buffer: [0; GATHERED_BYTES + RUN_BYTES], filled: 0, to }
    }

    /// Takes a run of `N` bytes, fewer than [`RUN_BYTES`], or of `bytes` where `N` is 0.
    ///
    /// # Safety
    /// They are readable at `from`, and there is room for them in the target after all that were taken before.
    #[inline(always)]
    pub(crate) unsafe fn take<const N: usize>(&mut self, from: *const u8, bytes: usize) {
        let bytes = if N > 0 { N } else { bytes };
        // SAFETY: at most GATHERED_BYTES are filled before, so the run ends within the buffer; the rest is the caller's
        // promise.
        unsafe { std::ptr::copy_nonoverlapping(from, self.buffer.as_mut_ptr().add(self.filled), bytes) };
        self.filled += bytes;
        if self.filled >= GATHERED_BYTES {
            // SAFETY: as many bytes were taken, for which there is room.
            unsafe { PastCaches::copy(self.buffer.as_ptr(), self.to, GATHERED_BYTES) };
            self.to = self.to.wrapping_add(GATHERED_BYTES);
            self.buffer.copy_within(GATHERED_BYTES..self.filled, 0);
            self.filled -= GATHERED_BYTES;
        }
    }

    /// Writes what is left.
    ///
    /// # Safety
    /// There is room for all that was taken.
    pub(crate) unsafe fn end(self) {
        // SAFETY: the caller's promise.
        unsafe { PastCaches::copy(self.buffer.as_ptr(), self.to, self.filled) };
    }
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
