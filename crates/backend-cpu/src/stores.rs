//! How copies write: through the caches, or past them.
//!
//! A buffer that another core reads after each time it is written lies in that core's cache as well. Writing a line of
//! it again means to fetch it and to take it away from there first, about 30 ns for every 64 bytes, which for messages
//! between processes is most of the time of packing. Stores past the caches (non-temporal ones) need neither:
//! `cargo bench -p haloport-cpu` measures both.

/// Lists with fewer bytes are written through the caches: a transport copies short messages at once.
pub(crate) const PAST_CACHES_BYTES: usize = 4096;

/// How a copy writes.
pub(crate) trait Store {
    /// Copies `N` bytes.
    ///
    /// # Safety
    /// They are readable at `from` and writable at `to`, and do not overlap. Before any other access to what was
    /// written, the same thread calls [`finish`](Store::finish).
    unsafe fn fixed<const N: usize>(from: *const u8, to: *mut u8);

    /// Copies any number of bytes.
    ///
    /// # Safety
    /// As for [`fixed`](Store::fixed).
    unsafe fn any(from: *const u8, to: *mut u8, bytes: usize);

    /// Orders all that was written before whatever this thread does next.
    fn finish();
}

/// Through the caches.
pub(crate) struct Plain;

impl Store for Plain {
    #[inline(always)]
    unsafe fn fixed<const N: usize>(from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise; `[u8; N]` has the alignment 1.
        unsafe { to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read()) };
    }

    #[inline(always)]
    unsafe fn any(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    }

    fn finish() {}
}

/// Past the caches, where the processor can.
#[cfg(target_arch = "x86_64")]
pub(crate) struct PastCaches;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use Plain as PastCaches;

#[cfg(target_arch = "x86_64")]
impl Store for PastCaches {
    #[inline(always)]
    unsafe fn fixed<const N: usize>(from: *const u8, to: *mut u8) {
        use std::arch::x86_64::{_mm_stream_si32, _mm_stream_si64};
        // SAFETY: the caller's promise, for each of the words. Only aligned words are written past the caches.
        unsafe {
            if N.is_multiple_of(8) && to.addr().is_multiple_of(8) {
                for word in 0..N / 8 {
                    let value = from.cast::<i64>().add(word).read_unaligned();
                    _mm_stream_si64(to.cast::<i64>().add(word), value);
                }
            } else if N.is_multiple_of(4) && to.addr().is_multiple_of(4) {
                for word in 0..N / 4 {
                    let value = from.cast::<i32>().add(word).read_unaligned();
                    _mm_stream_si32(to.cast::<i32>().add(word), value);
                }
            } else {
                Plain::fixed::<N>(from, to);
            }
        }
    }

    #[inline(always)]
    unsafe fn any(from: *const u8, to: *mut u8, bytes: usize) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let head = to.align_offset(16).min(bytes);
        let blocks = (bytes - head) / 16;
        let tail = head + 16 * blocks;
        // SAFETY: the caller's promise, for the head, the blocks of 16 aligned bytes, and the tail.
        unsafe {
            Plain::any(from, to, head);
            let (source, target) = (from.add(head).cast::<__m128i>(), to.add(head).cast::<__m128i>());
            for block in 0..blocks {
                _mm_stream_si128(target.add(block), _mm_loadu_si128(source.add(block)));
            }
            Plain::any(from.add(tail), to.add(tail), bytes - tail);
        }
    }

    fn finish() {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }
}
