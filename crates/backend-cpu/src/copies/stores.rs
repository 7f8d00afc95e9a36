//! Ways to write runs of bytes: through the caches or past them. `combine.rs` has another one, which computes.
//!
//! If another core reads a buffer each time it is written, the buffer also lies in that core's cache. To write a line
//! again, this core first fetches it and takes it away from there. For messages between processes, that can be most of
//! the time of packing. Stores past the caches (non-temporal stores) avoid both if they write whole lines; a line that
//! is written in both ways, or in pieces with other lines between, costs more than it saves. Therefore runs shorter
//! than a line are written past the caches only if they fill the target one after the other. `choice.rs` measures which
//! way is faster; `cargo bench -p haloport-cpu --bench stores` shows the difference.

use haloport_core::device::{BoxCopy, Pointer, SignChange};

use crate::copies::boxes::run_negated;
use crate::copies::fetch::LINE_BYTES;
use crate::copies::lines::Store;
use crate::copies::wide;

/// The bytes of a word: stores past the caches write whole, aligned words.
const WORD: usize = 4;

/// Lists of fewer bytes are always written through the caches: memory is further away than the other core's cache.
pub(crate) const LIST_BYTES: usize = 8192;

/// Through the caches.
pub(crate) struct Plain;

/// Past the caches.
#[cfg(target_arch = "x86_64")]
pub(crate) struct PastCaches;

/// Other processors have no such stores here.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) type PastCaches = Plain;

/// The way to write the runs of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Writing {
    /// Through the caches.
    Plain,
    /// Past the caches.
    PastCaches,
}

impl Writing {
    /// The way to write a copy for which this way is wanted: this way if it suits the copy, else through the caches.
    /// Each run has the form of `row`; `gapless` means that the runs lie side by side in the target, in the order of
    /// copying.
    pub(crate) fn of(self, row: &BoxCopy, gapless: bool) -> Writing {
        let words = row.run_bytes().is_multiple_of(WORD) && row.target().as_ptr().addr().is_multiple_of(WORD);
        let aligned = row.axes().iter().all(|axis| axis.target_stride % WORD as isize == 0);
        // A target that moves may become unaligned.
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

/// The bytes of all runs of a copy, if they lie side by side in its target, in the order of copying.
pub(crate) fn gapless_bytes(copy: &BoxCopy) -> Option<usize> {
    copy.axes().iter().rev().try_fold(copy.run_bytes(), |bytes, axis| {
        (axis.target_stride == bytes as isize).then(|| bytes * axis.extent)
    })
}

impl Store for Plain {
    const THROUGH_CACHES: bool = true;

    #[inline(always)]
    unsafe fn copy_run<const N: usize>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise; `[u8; N]` has the alignment 1.
        unsafe { to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read()) };
    }

    /// Reads both before it writes either, so that no read waits for a write to a possibly equal address.
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

    #[inline(always)]
    unsafe fn copy_wide(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { wide::copy(from, to, bytes) };
    }

    unsafe fn run_negated(copy: &BoxCopy, ends: (Pointer, Pointer), change: SignChange) {
        // SAFETY: the caller's promise.
        unsafe { run_negated(copy, ends, change) };
    }

    fn finish() {}
}

#[cfg(target_arch = "x86_64")]
impl Store for PastCaches {
    const THROUGH_CACHES: bool = false;

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
        // SAFETY: the caller's promise, for aligned words of 4 bytes before the first and after the last aligned block
        // of 16 bytes, and for the blocks between.
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

    #[inline(always)]
    unsafe fn copy_wide(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { PastCaches::copy(from, to, bytes) };
    }

    unsafe fn run_negated(copy: &BoxCopy, ends: (Pointer, Pointer), change: SignChange) {
        // SAFETY: the caller's promise.
        unsafe { run_negated(copy, ends, change) };
    }

    fn finish() {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }
}
