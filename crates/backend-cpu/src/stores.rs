//! How copies write: through the caches, or past them.
//!
//! A buffer that another core reads after each time it is written lies in that core's cache as well. Writing a line of
//! it again means to fetch it and to take it away from there first, which for messages between processes can be most of
//! the time of packing. Stores past the caches (non-temporal ones) need neither, where they write whole lines: a line
//! that is written in both ways, or in pieces with others between, costs more than it spares. So runs shorter than a line are
//! written past the caches only where they fill the target one after the other. Which way is quicker is found by trial
//! (`trial.rs`); `cargo bench -p haloport-cpu --bench stores` measures it.

use haloport_core::device::BoxCopy;

use crate::fetch::LINE_BYTES;

/// What is written past the caches consists of whole words of so many bytes.
const WORD: usize = 4;

/// Shorter lists are written through the caches: the memory behind them is further away than the other core's.
pub(crate) const LIST_BYTES: usize = 8192;

/// How runs of bytes of any length are written.
pub(crate) trait Store {
    /// Whether the lines that are written come into the caches first, so that fetching them ahead helps.
    const FETCHES: bool;

    /// Copies a run of `N` bytes.
    ///
    /// # Safety
    /// As for [`copy`](Store::copy).
    unsafe fn copy_run<const N: usize>(from: *const u8, to: *mut u8);

    /// Copies two runs of `N` bytes.
    ///
    /// # Safety
    /// As for [`copy`](Store::copy), for both.
    #[inline(always)]
    unsafe fn copy_runs<const N: usize>(from: [*const u8; 2], to: [*mut u8; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            Self::copy_run::<N>(from[0], to[0]);
            Self::copy_run::<N>(from[1], to[1]);
        }
    }

    /// Copies a run of any length.
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
    /// Past them.
    PastCaches,
}

impl Writing {
    /// How to write a copy of runs that is to be written in this way if it suits it. Each run is of the form of `row`;
    /// `gapless` says that all of them lie side by side in the target in the order in which they are copied.
    pub(crate) fn of(self, row: &BoxCopy, gapless: bool) -> Writing {
        let words = row.run_bytes().is_multiple_of(WORD) && row.target().as_ptr().addr().is_multiple_of(WORD);
        let aligned = row.axes().iter().all(|axis| axis.target_stride % WORD as isize == 0);
        // A target that moves may come to lie between words.
        let moves = row.anchors().target.is_some();
        if self == Writing::Plain || !words || !aligned || moves {
            Writing::Plain
        } else if row.sign_change().is_none() && (gapless || row.run_bytes() >= LINE_BYTES) {
            Writing::PastCaches
        } else {
            Writing::Plain
        }
    }
}

/// The bytes of all runs of a copy, if they lie side by side in its target in the order in which they are copied.
pub(crate) fn gapless_bytes(copy: &BoxCopy) -> Option<usize> {
    copy.axes().iter().rev().try_fold(copy.run_bytes(), |bytes, axis| {
        (axis.target_stride == bytes as isize).then(|| bytes * axis.extent)
    })
}

impl Store for Plain {
    const FETCHES: bool = true;

    #[inline(always)]
    unsafe fn copy_run<const N: usize>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise; `[u8; N]` has the alignment 1.
        unsafe { to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read()) };
    }

    /// Reads both before it writes either: no read then waits to see whether the write before was to the same place.
    #[inline(always)]
    unsafe fn copy_runs<const N: usize>(from: [*const u8; 2], to: [*mut u8; 2]) {
        // SAFETY: the caller's promise; `[u8; N]` has the alignment 1.
        unsafe {
            let (first, second) = (from[0].cast::<[u8; N]>().read(), from[1].cast::<[u8; N]>().read());
            to[0].cast::<[u8; N]>().write(first);
            to[1].cast::<[u8; N]>().write(second);
        }
    }

    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    }

    fn finish() {}
}

#[cfg(target_arch = "x86_64")]
impl Store for PastCaches {
    const FETCHES: bool = false;

    #[inline(always)]
    unsafe fn copy_run<const N: usize>(from: *const u8, to: *mut u8) {
        use std::arch::x86_64::{_mm_stream_si32, _mm_stream_si64};
        if !N.is_multiple_of(WORD) {
            // SAFETY: the caller's promise.
            return unsafe { Plain::copy_run::<N>(from, to) };
        }
        let mut at = 0;
        // SAFETY: the caller's promise, for words within the run; the instructions take any address.
        unsafe {
            while at + 8 <= N {
                _mm_stream_si64(to.add(at).cast(), from.add(at).cast::<i64>().read_unaligned());
                at += 8;
            }
            if at < N {
                _mm_stream_si32(to.add(at).cast(), from.add(at).cast::<i32>().read_unaligned());
            }
        }
    }

    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si32, _mm_stream_si128};
        if !bytes.is_multiple_of(WORD) || !to.addr().is_multiple_of(WORD) {
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
    const FETCHES: bool = true;

    #[inline(always)]
    unsafe fn copy_run<const N: usize>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { Plain::copy_run::<N>(from, to) };
    }

    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { Plain::copy(from, to, bytes) };
    }

    fn finish() {}
}
