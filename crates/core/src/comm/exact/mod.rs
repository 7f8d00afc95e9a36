//! Sums of floats without rounding, whose bits depend neither on the order of the terms nor on how ranks share them.

mod blocks;

use std::fmt;

use super::Communicator;
use crate::transport::{Reduction, TransportError};

/// Bits of a limb. A limb has twice as many, so that many terms are added before carries are passed on.
const LIMB_BITS: usize = 32;

/// The lowest bit of an `f64` and of an `f32`. Bit 0 is the product of the two smallest `f64`, 2^-2148.
const LOWEST_OF_F64: usize = 1074;
const LOWEST_OF_F32: usize = 1999;

/// Enough for 2^63 products of the largest floats, 2^2048 each.
const LIMBS: usize = (2148 + 2048 + 63usize).div_ceil(LIMB_BITS) + 1;

/// The terms after which carries are passed on. Each adds less than 2^33 to a limb.
const TERMS_BEFORE_CARRY: u32 = 1 << 29;

/// A sum of floats that is exact until it is read: terms are added as whole numbers of 4,320 bits (a superaccumulator; R. M.
/// Neal, "Fast exact summation using small and large superaccumulators", 2015).
///
/// So the result is that of the sum in real numbers, rounded once, to the nearest float and of two to the even one. It does not
/// depend on the order of the terms, on how they are shared among ranks and sums, on the number of ranks or on the machine.
///
/// - A NaN, or infinities of both signs, make the result a NaN; infinities of one sign make it that infinity.
/// - A result beyond the largest float is infinite. Partial sums may exceed it.
/// - A sum of nothing, or one that is exactly 0, is +0.0, also if all terms are -0.0.
///
/// ```
/// use haloport::comm::ExactSum;
///
/// let mut sum = ExactSum::new();
/// sum.add(&[1e100, 1.0, -1e100]);
/// sum.add_products(&[3.0], &[0.1]);
/// assert_eq!(sum.to_f64(), 1.3);
/// ```
#[derive(Clone)]
pub struct ExactSum {
    /// The sum, in units of 2^-2148: limb `k` counts 2^(32 k) of them.
    limbs: [i64; LIMBS],
    /// The terms since carries were passed on.
    terms: u32,
    /// The numbers of NaNs, of positive and of negative infinities.
    special: [i64; 3],
}

/// The floats that an [`ExactSum`] adds: `f32` and `f64`. It is sealed.
pub trait ExactTerm: Copy + Into<f64> + sealed::Sealed {}

impl ExactTerm for f32 {}
impl ExactTerm for f64 {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

impl ExactSum {
    /// A sum of nothing.
    pub fn new() -> ExactSum {
        ExactSum { limbs: [0; LIMBS], terms: 0, special: [0; 3] }
    }

    /// Adds all `terms`.
    pub fn add<T: ExactTerm>(&mut self, terms: &[T]) {
        blocks::add(terms, self);
    }

    /// Adds one term.
    pub fn add_one(&mut self, term: f64) {
        match Whole::of(term) {
            Some(Whole { negative, mantissa, lowest }) => {
                self.add_bits(negative, mantissa.into(), LOWEST_OF_F64 + lowest);
            }
            None => self.add_special(term),
        }
    }

    /// Adds the products of `a` and `b`, pair by pair, without rounding them. If one is longer, the rest of it has no partner
    /// and is left out.
    pub fn add_products<T: ExactTerm>(&mut self, a: &[T], b: &[T]) {
        for (a, b) in a.iter().zip(b) {
            let (a, b): (f64, f64) = ((*a).into(), (*b).into());
            match (Whole::of(a), Whole::of(b)) {
                (Some(x), Some(y)) => {
                    let mantissa = u128::from(x.mantissa) * u128::from(y.mantissa);
                    self.add_bits(x.negative != y.negative, mantissa, x.lowest + y.lowest);
                }
                _ => self.add_special(a * b),
            }
        }
    }

    /// Adds another sum.
    pub fn add_sum(&mut self, other: &ExactSum) {
        let mut other = other.clone();
        other.carry();
        self.carry();
        self.limbs.iter_mut().zip(other.limbs).for_each(|(limb, other)| *limb += other);
        self.terms = 1;
        self.special.iter_mut().zip(other.special).for_each(|(number, other)| *number += other);
    }

    /// The sum, rounded to the nearest `f64`.
    pub fn to_f64(&self) -> f64 {
        self.special_value().unwrap_or_else(|| {
            let (negative, bits) = self.rounded(f64::MANTISSA_DIGITS as usize, LOWEST_OF_F64);
            let value = f64::from_bits(bits.min(f64::INFINITY.to_bits()));
            if negative { -value } else { value }
        })
    }

    /// The sum, rounded to the nearest `f32`: once, not first to an `f64`.
    pub fn to_f32(&self) -> f32 {
        self.special_value().map_or_else(
            || {
                let (negative, bits) = self.rounded(f32::MANTISSA_DIGITS as usize, LOWEST_OF_F32);
                let value = f32::from_bits(bits.min(f32::INFINITY.to_bits().into()) as u32);
                if negative { -value } else { value }
            },
            |value| value as f32,
        )
    }

    /// The result that NaNs and infinities make; `None` if all terms are finite.
    fn special_value(&self) -> Option<f64> {
        match self.special {
            [0, 0, 0] => None,
            [0, _, 0] => Some(f64::INFINITY),
            [0, 0, _] => Some(f64::NEG_INFINITY),
            _ => Some(f64::NAN),
        }
    }

    fn add_special(&mut self, term: f64) {
        let which = if term.is_nan() {
            0
        } else if term > 0.0 {
            1
        } else {
            2
        };
        self.special[which] += 1;
    }

    /// Adds a number of at most 106 bits, times 2^`position` units.
    fn add_bits(&mut self, negative: bool, mantissa: u128, position: usize) {
        if self.terms == TERMS_BEFORE_CARRY {
            self.carry();
        }
        self.terms += 1;
        let (first, shift) = (position / LIMB_BITS, position % LIMB_BITS);
        // Parts that still fit when they are shifted.
        let low = (mantissa & ((1 << 96) - 1)) << shift;
        let high = (mantissa >> 96) << shift;
        let of = |bits: u128, limb: usize| i64::from((bits >> (LIMB_BITS * limb)) as u32);
        let parts = [of(low, 0), of(low, 1), of(low, 2), of(low, 3) + of(high, 0), of(high, 1)];
        for (limb, part) in self.limbs[first..].iter_mut().zip(parts) {
            *limb += if negative { -part } else { part };
        }
    }

    /// Passes carries on: then each limb but the highest is at least 0 and below 2^32.
    fn carry(&mut self) {
        let mut carry = 0;
        for limb in &mut self.limbs[..LIMBS - 1] {
            let sum = *limb + carry;
            *limb = sum & ((1 << LIMB_BITS) - 1);
            carry = sum >> LIMB_BITS;
        }
        self.limbs[LIMBS - 1] += carry;
        self.terms = 0;
    }

    /// Whether the sum is negative, and the bits of its magnitude as a float with a mantissa of `digits` bits, whose lowest bit
    /// is `lowest`; beyond those of infinity if it is too large.
    fn rounded(&self, digits: usize, lowest: usize) -> (bool, u64) {
        let mut sum = self.clone();
        sum.carry();
        let negative = sum.limbs[LIMBS - 1] < 0;
        if negative {
            sum.limbs.iter_mut().for_each(|limb| *limb = -*limb);
            sum.carry();
        }
        let Some(top) = sum.limbs.iter().rposition(|limb| *limb != 0) else { return (false, 0) };
        let highest = LIMB_BITS * top + sum.limbs[top].ilog2() as usize;
        // The lowest bit that is kept.
        let last = (highest + 1).saturating_sub(digits).max(lowest);
        if last - lowest >= 0x7FF {
            return (negative, u64::MAX);
        }
        let mut mantissa = sum.bits_from(last);
        let half = sum.bits_from(last - 1) & 1 == 1;
        if half && (mantissa & 1 == 1 || sum.any_below(last - 1)) {
            mantissa += 1;
        }
        // The leading bit of the mantissa adds 1 to the exponent, as it does where rounding makes a new one.
        (negative, (((last - lowest) as u64) << (digits - 1)) + mantissa)
    }

    /// The bits from this one on, of which there are at most 64, after carries were passed on.
    fn bits_from(&self, bit: usize) -> u64 {
        let (first, shift) = (bit / LIMB_BITS, bit % LIMB_BITS);
        let limbs = self.limbs[first..].iter().take(3).enumerate();
        let bits = limbs.fold(0u128, |bits, (k, limb)| bits | (*limb as u128) << (LIMB_BITS * k));
        (bits >> shift) as u64
    }

    /// Whether any bit below this one is set.
    fn any_below(&self, bit: usize) -> bool {
        let (first, shift) = (bit / LIMB_BITS, bit % LIMB_BITS);
        self.limbs[..first].iter().any(|limb| *limb != 0) || self.limbs[first] & ((1 << shift) - 1) != 0
    }

    /// The words that ranks add up.
    fn words(&mut self) -> impl Iterator<Item = i64> {
        self.carry();
        self.limbs.into_iter().chain(self.special)
    }
}

impl Default for ExactSum {
    fn default() -> ExactSum {
        ExactSum::new()
    }
}

impl fmt::Debug for ExactSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExactSum({:e})", self.to_f64())
    }
}

impl<T: ExactTerm> Extend<T> for ExactSum {
    fn extend<I: IntoIterator<Item = T>>(&mut self, terms: I) {
        terms.into_iter().for_each(|term| self.add_one(term.into()));
    }
}

impl<T: ExactTerm> FromIterator<T> for ExactSum {
    fn from_iter<I: IntoIterator<Item = T>>(terms: I) -> ExactSum {
        let mut sum = ExactSum::new();
        sum.extend(terms);
        sum
    }
}

impl Communicator {
    /// Collective: the exact sum of the terms of all ranks, rounded once: the same bits on any number of ranks, however they
    /// share the terms. A rank may bring none.
    ///
    /// ```
    /// use haloport::run_ranks;
    ///
    /// run_ranks(2, |comm| {
    ///     let cells = if comm.rank() == 0 { [1e100, 1.0] } else { [1.0, -1e100] };
    ///     assert_eq!(comm.sum_exact(&cells)?, 2.0);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), haloport::comm::RanksError>(())
    /// ```
    ///
    /// Several sums in one message, of products, masked or in `f32`: [`all_reduce_exact`](Communicator::all_reduce_exact).
    ///
    /// # Errors
    /// As for [`all_reduce`](Communicator::all_reduce).
    pub fn sum_exact<T: ExactTerm>(&self, terms: &[T]) -> Result<f64, TransportError> {
        let mut sum = ExactSum::new();
        sum.add(terms);
        self.all_reduce_exact(std::slice::from_mut(&mut sum))?;
        Ok(sum.to_f64())
    }

    /// Collective: makes each of the `sums` that of all ranks, 1.1 KB for each in one [`all_reduce`](Communicator::all_reduce). All
    /// ranks pass the same number.
    ///
    /// # Errors
    /// As for [`all_reduce`](Communicator::all_reduce); the sums are then as they were.
    pub fn all_reduce_exact(&self, sums: &mut [ExactSum]) -> Result<(), TransportError> {
        let words: Vec<i64> = sums.iter_mut().flat_map(ExactSum::words).collect();
        let words = self.all_reduce(words, Reduction::Sum)?;
        for (sum, words) in sums.iter_mut().zip(words.chunks_exact(LIMBS + 3)) {
            let (limbs, special) = words.split_at(LIMBS);
            sum.limbs.copy_from_slice(limbs);
            sum.special.copy_from_slice(special);
            sum.carry();
        }
        Ok(())
    }
}

/// A finite float as a whole number: `mantissa` times 2^(`lowest` - 1074).
struct Whole {
    negative: bool,
    mantissa: u64,
    lowest: usize,
}

impl Whole {
    /// `None` for a NaN or an infinity.
    fn of(term: f64) -> Option<Whole> {
        let (head, fraction) = parts(term);
        let exponent = head & EXPONENT;
        (exponent != EXPONENT).then(|| Whole {
            negative: head > EXPONENT,
            mantissa: fraction + (u64::from(exponent > 0) << FRACTION_BITS),
            lowest: exponent.saturating_sub(1),
        })
    }
}

/// The sign and the exponent of a float as one number, and its fraction, without the leading bit.
fn parts(term: f64) -> (usize, u64) {
    let bits = term.to_bits();
    ((bits >> FRACTION_BITS) as usize, bits & ((1 << FRACTION_BITS) - 1))
}

const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;

/// All bits of an exponent, which are those of a NaN and of infinity; the sign is the bit above them.
const EXPONENT: usize = 0x7FF;
