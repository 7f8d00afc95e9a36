//! The numbers that ranks reduce, as the words that a transport reduces.

use crate::element::Element;
use crate::transport::Reduction;

/// The values that [`Communicator::all_reduce`](crate::Communicator::all_reduce) takes: a number (`f32`, `f64`, `i64`
/// or `u64`), an array, a slice or a [`Vec`] of numbers, or a `&mut` to one of these, which is reduced in place.
///
/// It is sealed.
#[diagnostic::on_unimplemented(
    message = "ranks cannot reduce `{Self}`",
    label = "neither `f32`, `f64`, `i64` or `u64` nor an array, a slice or a `Vec` of them",
    note = "convert the values first: an `i32` to an `i64`, a `usize` to a `u64`; other types: `Communicator::gather`"
)]
pub trait Reducible: sealed::Values {}

impl<V: sealed::Values + ?Sized> Reducible for V {}

/// A number that becomes one word of a reduction.
pub trait Number: Element {
    /// The addition, if the order of the terms matters; the transport adds up the words of other numbers.
    const ORDERED_ADDITION: Option<fn(Self, Self) -> Self>;

    /// The word that takes part in a reduction. For the largest and the smallest value, words are ordered as the
    /// numbers are, and a NaN wins.
    fn to_word(self, reduction: Reduction) -> u64;

    /// The number of a reduced word.
    fn from_word(word: u64, reduction: Reduction) -> Self;
}

mod sealed {
    use super::Number;

    /// Values of one type in a row.
    pub trait Values {
        type Number: Number;

        fn numbers(&mut self) -> &mut [Self::Number];
    }

    macro_rules! numbers {
        ($($number:ty),*) => {$(
            impl Values for $number {
                type Number = $number;

                fn numbers(&mut self) -> &mut [$number] {
                    std::slice::from_mut(self)
                }
            }
        )*};
    }

    numbers!(f32, f64, i64, u64);

    impl<T: Number> Values for [T] {
        type Number = T;

        fn numbers(&mut self) -> &mut [T] {
            self
        }
    }

    impl<T: Number, const N: usize> Values for [T; N] {
        type Number = T;

        fn numbers(&mut self) -> &mut [T] {
            self
        }
    }

    impl<T: Number> Values for Vec<T> {
        type Number = T;

        fn numbers(&mut self) -> &mut [T] {
            self
        }
    }

    impl<V: Values + ?Sized> Values for &mut V {
        type Number = V::Number;

        fn numbers(&mut self) -> &mut [V::Number] {
            (**self).numbers()
        }
    }
}

impl Number for u64 {
    const ORDERED_ADDITION: Option<fn(u64, u64) -> u64> = None;

    fn to_word(self, _reduction: Reduction) -> u64 {
        self
    }

    fn from_word(word: u64, _reduction: Reduction) -> u64 {
        word
    }
}

impl Number for i64 {
    const ORDERED_ADDITION: Option<fn(i64, i64) -> i64> = None;

    fn to_word(self, reduction: Reduction) -> u64 {
        (self as u64) ^ sign(reduction)
    }

    fn from_word(word: u64, reduction: Reduction) -> i64 {
        (word ^ sign(reduction)) as i64
    }
}

/// The bit that differs between a signed integer and a word: none in a sum, which is the same modulo 2^64.
fn sign(reduction: Reduction) -> u64 {
    if reduction == Reduction::Sum { 0 } else { 1 << 63 }
}

macro_rules! float {
    ($float:ty, $bits:ty) => {
        impl Number for $float {
            const ORDERED_ADDITION: Option<fn($float, $float) -> $float> = Some(|one, other| {
                let sum = one + other;
                if sum.is_nan() { <$float>::NAN } else { sum }
            });

            fn to_word(self, reduction: Reduction) -> u64 {
                let bits = self.to_bits();
                match reduction {
                    Reduction::Sum => bits.into(),
                    Reduction::Max if self.is_nan() => <$bits>::MAX.into(),
                    Reduction::Min if self.is_nan() => 0,
                    _ if self.is_sign_negative() => (!bits).into(),
                    _ => (bits | 1 << (<$bits>::BITS - 1)).into(),
                }
            }

            fn from_word(word: u64, reduction: Reduction) -> $float {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let word = word as $bits;
                let number = <$float>::from_bits(match reduction {
                    Reduction::Sum => word,
                    _ if word & SIGN == 0 => !word,
                    _ => word & !SIGN,
                });
                // One NaN for all: its bits differ between machines.
                if number.is_nan() { <$float>::NAN } else { number }
            }
        }
    };
}

float!(f32, u32);
float!(f64, u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_ordered_as_the_numbers_and_a_nan_wins() {
        check(
            &[f64::NEG_INFINITY, -2.5, -0.0, 0.0, f64::MIN_POSITIVE, 1.0, 1e300, f64::INFINITY],
            f64::to_bits,
        );
        check(
            &[f32::NEG_INFINITY, -2.5, -0.0, 0.0, f32::MIN_POSITIVE, 1.0, 1e30, f32::INFINITY],
            f32::to_bits,
        );
        check(&[i64::MIN, -1, 0, 1, i64::MAX], |value| value);
        check(&[0, 1, u64::MAX], |value| value);
        for nan in [f64::NAN, -f64::NAN] {
            assert!(nan.to_word(Reduction::Max) > f64::INFINITY.to_word(Reduction::Max));
            assert!(nan.to_word(Reduction::Min) < f64::NEG_INFINITY.to_word(Reduction::Min));
        }
    }

    fn check<T: Number, B: PartialEq + std::fmt::Debug>(ascending: &[T], bits: impl Fn(T) -> B) {
        for reduction in [Reduction::Max, Reduction::Min] {
            for pair in ascending.windows(2) {
                assert!(pair[0].to_word(reduction) < pair[1].to_word(reduction), "{pair:?}");
            }
        }
        for reduction in [Reduction::Max, Reduction::Min, Reduction::Sum] {
            for &value in ascending {
                assert_eq!(bits(T::from_word(value.to_word(reduction), reduction)), bits(value));
            }
        }
    }
}
