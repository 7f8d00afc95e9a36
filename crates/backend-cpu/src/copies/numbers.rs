//! Numbers, and the operations that combine them.

use std::marker::PhantomData;

use half::{bf16, f16};
use num_complex::Complex;

/// A type of numbers.
pub(crate) trait Number: Copy {
    /// Whether programs combine many of them, so that each length of a short run is worth a loop of its own.
    const IS_COMMON: bool = matches!(size_of::<Self>(), 4 | 8);

    fn sum(self, other: Self) -> Self;
    /// With the sign of each part changed.
    fn negated(self) -> Self;
}

/// A type of numbers that have an order.
pub(crate) trait Ordered: Number + PartialOrd {
    fn is_nan(self) -> bool;

    fn smaller(self, other: Self) -> Self {
        if other < self || other.is_nan() { other } else { self }
    }

    fn larger(self, other: Self) -> Self {
        if other > self || other.is_nan() { other } else { self }
    }
}

macro_rules! integers {
    ($($number:ty),+) => {
        $(
            impl Number for $number {
                fn sum(self, other: $number) -> $number {
                    self.wrapping_add(other)
                }

                fn negated(self) -> $number {
                    self.wrapping_neg()
                }
            }

            impl Ordered for $number {
                fn is_nan(self) -> bool {
                    false
                }
            }
        )+
    };
}

macro_rules! floats {
    ($($number:ty),+) => {
        $(
            impl Number for $number {
                fn sum(self, other: $number) -> $number {
                    self + other
                }

                fn negated(self) -> $number {
                    -self
                }
            }

            impl Ordered for $number {
                fn is_nan(self) -> bool {
                    <$number>::is_nan(self)
                }
            }
        )+
    };
}

integers!(i8, i16, i32, i64, i128, u8, u16, u32, u64, u128);
floats!(f16, bf16, f32, f64);

impl<T: Number> Number for Complex<T> {
    fn sum(self, other: Complex<T>) -> Complex<T> {
        Complex { re: self.re.sum(other.re), im: self.im.sum(other.im) }
    }

    fn negated(self) -> Complex<T> {
        Complex { re: self.re.negated(), im: self.im.negated() }
    }
}

/// An operation on the value at the target and the one that arrives.
pub(crate) trait Operation<T> {
    fn apply(there: T, arrived: T) -> T;
}

pub(crate) struct Sum;
pub(crate) struct Min;
pub(crate) struct Max;

impl<T: Number> Operation<T> for Sum {
    #[inline(always)]
    fn apply(there: T, arrived: T) -> T {
        there.sum(arrived)
    }
}

impl<T: Ordered> Operation<T> for Min {
    #[inline(always)]
    fn apply(there: T, arrived: T) -> T {
        there.smaller(arrived)
    }
}

impl<T: Ordered> Operation<T> for Max {
    #[inline(always)]
    fn apply(there: T, arrived: T) -> T {
        there.larger(arrived)
    }
}

/// An operation on a value that arrives with another sign.
pub(crate) struct Negated<O>(PhantomData<O>);

impl<T: Number, O: Operation<T>> Operation<T> for Negated<O> {
    #[inline(always)]
    fn apply(there: T, arrived: T) -> T {
        O::apply(there, arrived.negated())
    }
}
