//! Copies that combine what they read with what is at their targets: a [`Store`] that computes.
//!
//! So the loops are those of all copies: over boxes, two boxes in one sweep, and listed rows.

use std::marker::PhantomData;

use half::{bf16, f16};
use haloport_core::ElementType;
use haloport_core::device::{BoxCopy, Combine, Pointer, SignChange};
use num_complex::Complex;

use crate::copies::lines::{Store, for_each_line};
use crate::copies::numbers::{Max, Min, Negated, Number, Operation, Sum};
use crate::copies::wide::STEP;

/// What is made of a [`Store`] whose type is chosen at run time.
pub(crate) trait ForStore {
    type Made;
    fn made<S: Store>() -> Self::Made;
}

/// What is made of the store that combines these elements; `None` if they cannot be combined so.
pub(crate) fn for_elements<F: ForStore>(combine: Combine, element: ElementType) -> Option<F::Made> {
    fn of<F: ForStore, T: Number, O: Operation<T>>() -> F::Made {
        F::made::<Combining<T, O>>()
    }
    macro_rules! of_type {
        ($number:ty) => {
            match combine {
                Combine::Sum => of::<F, $number, Sum>(),
                Combine::Min => of::<F, $number, Min>(),
                Combine::Max => of::<F, $number, Max>(),
                Combine::Replace => return None,
            }
        };
    }
    macro_rules! of_complex {
        ($number:ty) => {
            match combine {
                Combine::Sum => of::<F, Complex<$number>, Sum>(),
                _ => return None,
            }
        };
    }
    Some(match element {
        ElementType::I8 => of_type!(i8),
        ElementType::I16 => of_type!(i16),
        ElementType::I32 => of_type!(i32),
        ElementType::I64 => of_type!(i64),
        ElementType::I128 => of_type!(i128),
        ElementType::U8 => of_type!(u8),
        ElementType::U16 => of_type!(u16),
        ElementType::U32 => of_type!(u32),
        ElementType::U64 => of_type!(u64),
        ElementType::U128 => of_type!(u128),
        ElementType::F16 => of_type!(f16),
        ElementType::Bf16 => of_type!(bf16),
        ElementType::F32 => of_type!(f32),
        ElementType::F64 => of_type!(f64),
        ElementType::Complex32 => of_complex!(f32),
        ElementType::Complex64 => of_complex!(f64),
        _ => return None,
    })
}

/// Combines runs of numbers with those that are there. In addition to what a [`Store`] demands, targets are readable, both ends
/// are aligned for the numbers, and runs are whole numbers long: the caller of
/// [`Device::run_copies`](haloport_core::device::Device::run_copies) promises that for lists of
/// [`Combining`](haloport_core::device::Combining).
struct Combining<T, O>(PhantomData<(T, O)>);

/// A run of numbers, in registers.
#[repr(align(16))]
struct Run<const N: usize>([u8; N]);

impl<T: Number, O: Operation<T>> Store for Combining<T, O> {
    const THROUGH_CACHES: bool = true;
    const COMPUTES: bool = true;
    const UNIT: usize = size_of::<T>();
    const LONGEST: usize = if T::IS_COMMON { 4 * size_of::<T>() } else { 0 };

    #[inline(always)]
    unsafe fn copy_run<const N: usize>(from: *const u8, to: *mut u8) {
        // Reads all before it writes any, so that no read waits for a write to a possibly equal address.
        // SAFETY: the caller's promise; a `Run` is aligned for all numbers, and `[u8; N]` has the alignment 1.
        unsafe {
            let (arrived, mut there) = (Run(from.cast::<[u8; N]>().read()), Run(to.cast::<[u8; N]>().read()));
            combine::<T, O>(arrived.0.as_ptr(), there.0.as_mut_ptr(), N);
            to.cast::<[u8; N]>().write(there.0);
        }
    }

    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { combine::<T, O>(from, to, bytes) };
    }

    #[inline(always)]
    unsafe fn copy_wide(from: *const u8, to: *mut u8, bytes: usize) {
        let mut at = 0;
        while at + STEP <= bytes {
            // SAFETY: the step lies within the run.
            unsafe { Self::copy_run::<STEP>(from.add(at), to.add(at)) };
            at += STEP;
        }
        // SAFETY: the caller's promise, for the rest of the run.
        unsafe { combine::<T, O>(from.add(at), to.add(at), bytes - at) };
    }

    unsafe fn run_negated(copy: &BoxCopy, ends: (Pointer, Pointer), _change: SignChange) {
        for_each_line(copy, ends, |source, target, line| {
            let (mut from, mut to) = (source.as_ptr(), target.as_ptr());
            for _ in 0..line.extent {
                // SAFETY: the caller's promise.
                unsafe { combine::<T, Negated<O>>(from, to, copy.run_bytes()) };
                from = from.wrapping_offset(line.source_stride);
                to = to.wrapping_offset(line.target_stride);
            }
        });
    }

    fn finish() {}
}

/// Combines a run of numbers.
///
/// # Safety
/// As for [`Combining`].
#[inline(always)]
unsafe fn combine<T: Number, O: Operation<T>>(from: *const u8, to: *mut u8, bytes: usize) {
    let numbers = bytes / size_of::<T>();
    // SAFETY: the caller's promise.
    let (arrived, there) = unsafe {
        let arrived = std::slice::from_raw_parts(from.cast::<T>(), numbers);
        (arrived, std::slice::from_raw_parts_mut(to.cast::<T>(), numbers))
    };
    combine_slices::<T, O>(there, arrived);
}

/// Combines slices of equal lengths; the compiler knows that they do not overlap.
#[inline(always)]
fn combine_slices<T: Number, O: Operation<T>>(there: &mut [T], arrived: &[T]) {
    for (there, arrived) in there.iter_mut().zip(arrived) {
        *there = O::apply(*there, *arrived);
    }
}
