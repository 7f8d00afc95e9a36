//! Copies between strided boxes, with or without a change of sign.

use haloport_core::device::{BoxCopy, Pointer, SignChange};

use crate::copies::lines::{Store, copy_line, copy_rows, for_each_line, match_run_bytes, step};
use crate::copies::wide;

/// Runs a box copy on the calling thread, between the given `ends`: the addresses of its first element in the source
/// and in the target.
///
/// # Safety
/// As for [`List::run`](crate::copies::list::List::run), and the caller finishes the store.
pub(crate) unsafe fn run_box<S: Store>(copy: &BoxCopy, ends: (Pointer, Pointer)) {
    if let Some(change) = copy.sign_change() {
        // SAFETY: the caller's promise.
        return unsafe { S::run_negated(copy, ends, change) };
    }
    if wide::suits_box::<S>(copy.run_bytes()) {
        // SAFETY: the length suits; the caller's promise.
        return unsafe { wide::run_box::<S>(copy, ends) };
    }
    // The size of a run is known before the loops.
    macro_rules! run {
        ($copy_line:expr) => {
            // SAFETY: the line lies within the box, which the caller promised.
            for_each_line(copy, ends, |source, target, line| unsafe { $copy_line(source, target, line) })
        };
    }
    match_run_bytes!(S, copy.run_bytes(), N => run!(copy_line::<S, N>),
        bytes => run!(|source, target, line| copy_rows::<S>(source, target, line, bytes)))
}

/// Copies a box of numbers with other signs, through the caches.
///
/// # Safety
/// As for [`run_box`].
pub(crate) unsafe fn run_negated(copy: &BoxCopy, ends: (Pointer, Pointer), change: SignChange) {
    macro_rules! run {
        ($number:ty, $negated:expr) => {
            // SAFETY: the caller's promise.
            unsafe {
                negate(copy, ends, |bytes| {
                    let negated: fn($number) -> $number = $negated;
                    negated(<$number>::from_ne_bytes(bytes)).to_ne_bytes()
                })
            }
        };
    }
    match change {
        SignChange::Float16 => run!(u16, |bits| bits ^ (1 << 15)),
        SignChange::Float32 => run!(u32, |bits| bits ^ (1 << 31)),
        SignChange::Float64 => run!(u64, |bits| bits ^ (1 << 63)),
        SignChange::Int8 => run!(i8, i8::wrapping_neg),
        SignChange::Int16 => run!(i16, i16::wrapping_neg),
        SignChange::Int32 => run!(i32, i32::wrapping_neg),
        SignChange::Int64 => run!(i64, i64::wrapping_neg),
        SignChange::Int128 => run!(i128, i128::wrapping_neg),
    }
}

/// Copies number by number; each has `N` bytes.
///
/// # Safety
/// As for [`run_negated`].
#[inline(always)]
unsafe fn negate<const N: usize>(
    copy: &BoxCopy,
    ends: (Pointer, Pointer),
    negated: impl Fn([u8; N]) -> [u8; N],
) {
    let numbers = copy.run_bytes() / N;
    for_each_line(copy, ends, |source, target, line| {
        for point in 0..line.extent {
            let (source, target) = step(source, target, line, point);
            let (from, to) = (source.as_ptr().cast::<[u8; N]>(), target.as_ptr().cast::<[u8; N]>());
            for number in 0..numbers {
                // SAFETY: both lie in the run of bytes at this point; `[u8; N]` has the alignment 1.
                unsafe { to.add(number).write(negated(from.add(number).read())) };
            }
        }
    });
}
