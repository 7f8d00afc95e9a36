//! Blocks of terms. Each is split into levels: the sum of the highest bits of all its terms is a float, without a rounding error,
//! and so is that of the bits below them. So an exact sum gets a few floats for each block instead of all terms (S. M. Rump,
//! T. Ogita and S. Oishi, "Accurate floating-point summation, part I: faithful rounding", 2008, `ExtractVector`).

use super::{EXPONENT, ExactSum, ExactTerm, FRACTION_BITS, parts};

/// The most terms of a block.
const BLOCK: usize = 1 << BLOCK_BITS;
const BLOCK_BITS: u32 = 9;

/// Terms that are added at once.
const LANES: usize = 8;

/// The bits that one level takes: those of a float, but for the carries of a sum of a block.
const LEVEL_BITS: usize = (f64::MANTISSA_DIGITS - BLOCK_BITS) as usize;

/// The exponent, as it is stored, of 2^-970. Blocks hold no smaller numbers but 0: then each bit of a term is at least the smallest
/// normal float, and nothing is lost where a program, such as one of some Fortran compilers, has the processor take smaller ones for 0.
const LEAST_EXPONENT: i64 = f64::MANTISSA_DIGITS as i64;

/// In cache lines, so that no register's worth lies in two of them.
#[repr(align(64))]
struct Values([[f64; LANES]; BLOCK / LANES]);

/// Adds all `terms` to `sum`.
pub(super) fn add<T: ExactTerm>(terms: &[T], sum: &mut ExactSum) {
    if terms.len() < LANES || !rounds_to_nearest() {
        return add_each(terms, sum);
    }
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the registers.
            return unsafe { add_widest(terms, sum) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { add_wide(terms, sum) };
        }
    }
    add_blocks(terms, sum);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn add_widest<T: ExactTerm>(terms: &[T], sum: &mut ExactSum) {
    add_blocks(terms, sum);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_wide<T: ExactTerm>(terms: &[T], sum: &mut ExactSum) {
    add_blocks(terms, sum);
}

#[inline(always)]
fn add_blocks<T: ExactTerm>(terms: &[T], sum: &mut ExactSum) {
    let mut values = Values([[0.0; LANES]; BLOCK / LANES]);
    for block in terms.chunks(BLOCK) {
        let values = &mut values.0[..block.len().div_ceil(LANES)];
        let extent = Extent::of(block, values);
        if !add_block(values, extent, block.as_ptr_range().end.cast(), sum) {
            add_each(block, sum);
        }
    }
}

fn add_each<T: ExactTerm>(terms: &[T], sum: &mut ExactSum) {
    terms.iter().for_each(|term| sum.add_one((*term).into()));
}

/// Whether sums are rounded to the nearest float: a library may have asked the processor for another one.
fn rounds_to_nearest() -> bool {
    let [one, little] = std::hint::black_box([1.0, f64::EPSILON / 8.0]);
    one + little == one && one - little == one
}

/// Adds the values of a block, which are lost. `next` is the address of the values that are read after it.
///
/// `false`, with nothing added, if they can't be split: there is a NaN or an infinity, or they are too large or too small.
#[inline(always)]
fn add_block(values: &mut [[f64; LANES]], extent: Extent, next: *const f64, sum: &mut ExactSum) -> bool {
    // Of 512 times a power of two that no value exceeds.
    let mut exponent = extent.exponent() + 1 + BLOCK_BITS as usize;
    if exponent >= EXPONENT || !extent.suits(values) {
        return false;
    }
    let (mut level, mut left) = take_level(values, power_of_two(exponent), next);
    // With a NaN among the values, which `extent` leaves out, so is the sum.
    if !level.is_finite() {
        return false;
    }
    sum.add_one(level);
    while left {
        exponent -= LEVEL_BITS;
        (level, left) = take_level(values, power_of_two(exponent), next);
        sum.add_one(level);
    }
    true
}

/// What is known of the values of a block, for each lane.
struct Extent {
    /// The largest magnitude that is a number.
    highest: [f64; LANES],
    /// Negative if a value, maybe 0, is below the least.
    below: [i64; LANES],
}

impl Extent {
    const LEAST: i64 = LEAST_EXPONENT << FRACTION_BITS;

    /// Copies terms into the values of a block, with 0 after them.
    #[inline(always)]
    fn of<T: ExactTerm>(terms: &[T], values: &mut [[f64; LANES]]) -> Extent {
        let mut extent = Extent { highest: [0.0; LANES], below: [0; LANES] };
        let (lines, rest) = terms.as_chunks();
        for (values, line) in values.iter_mut().zip(lines) {
            *values = line.map(Into::into);
            extent.extend(values);
        }
        if let Some(values) = values.get_mut(lines.len()) {
            *values = [0.0; LANES];
            values.iter_mut().zip(rest).for_each(|(value, term)| *value = (*term).into());
            extent.extend(values);
        }
        extent
    }

    #[inline(always)]
    fn extend(&mut self, values: &[f64; LANES]) {
        for ((value, highest), below) in values.iter().zip(&mut self.highest).zip(&mut self.below) {
            let magnitude = value.abs();
            *highest = if magnitude > *highest { magnitude } else { *highest };
            *below |= magnitude.to_bits() as i64 - Self::LEAST;
        }
    }

    /// The exponent, as it is stored, of the largest value.
    fn exponent(&self) -> usize {
        parts(self.highest.into_iter().fold(0.0, f64::max)).0
    }

    /// Whether no value but 0 is below the least.
    fn suits(&self, values: &[[f64; LANES]]) -> bool {
        let magnitude = |value: &f64| value.abs().to_bits() as i64;
        self.below.iter().all(|below| *below >= 0)
            || values.as_flattened().iter().map(magnitude).all(|value| value == 0 || value >= Self::LEAST)
    }
}

/// Takes from each value its nearest multiple of the last bit of `power`, and leaves the rest. The sum of what was taken, and
/// whether a rest is not 0.
///
/// All of it is exact if each value is at most `power` / 512: then no sum of the multiples exceeds `power`. Rests are at most
/// `power` / 2^53.
#[inline(always)]
fn take_level(values: &mut [[f64; LANES]], power: f64, next: *const f64) -> (f64, bool) {
    let mut sums = [0.0; LANES];
    let mut left = [0; LANES];
    for (place, line) in values.iter_mut().enumerate() {
        fetch(next.wrapping_add(LANES * place));
        for ((value, sum), left) in line.iter_mut().zip(&mut sums).zip(&mut left) {
            let taken = (power + *value) - power;
            *sum += taken;
            *value -= taken;
            *left |= value.to_bits();
        }
    }
    // Without signs: -0.0 is nothing.
    let left = left.into_iter().fold(0, |all, left| all | left) << 1;
    (sums.iter().sum(), left != 0)
}

fn power_of_two(exponent: usize) -> f64 {
    f64::from_bits((exponent as u64) << FRACTION_BITS)
}

/// Asks for a cache line, whose address need not be valid.
#[inline(always)]
fn fetch(address: *const f64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
