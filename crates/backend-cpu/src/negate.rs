//! Copies that change signs.

use haloport_core::device::{BoxCopy, SignChange};

use crate::copies::{for_each_line, step};

/// Runs a box copy that changes signs on the calling thread.
///
/// # Safety
/// As for [`run_box`](crate::copies::run_box).
pub(crate) unsafe fn run_negated(copy: &BoxCopy, change: SignChange) {
    macro_rules! run {
        ($number:ty, $negated:expr) => {
            // SAFETY: the caller's promise.
            unsafe {
                negate(copy, |bytes| {
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

/// Copies number by number, of `N` bytes each.
///
/// # Safety
/// As for [`run_negated`].
#[inline(always)]
unsafe fn negate<const N: usize>(copy: &BoxCopy, negated: impl Fn([u8; N]) -> [u8; N]) {
    let numbers = copy.run_bytes() / N;
    for_each_line(copy, |source, target, line| {
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
