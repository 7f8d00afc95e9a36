//! Sums that do not depend on the distribution of the numbers, and bitwise comparison.

/// A compensated sum (Neumaier 1974), so that its change over a run is that of the numbers, not of rounding. The
/// caller adds numbers in an order that does not depend on the ranks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    total: f64,
    carry: f64,
}

impl Sum {
    pub(crate) fn add(&mut self, value: f64) {
        let total = self.total + value;
        let lost = if self.total.abs() >= value.abs() {
            (self.total - total) + value
        } else {
            (value - total) + self.total
        };
        self.carry += lost;
        self.total = total;
    }

    pub(crate) fn value(self) -> f64 {
        self.total + self.carry
    }
}

impl FromIterator<f64> for Sum {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Sum {
        let mut sum = Sum::default();
        values.into_iter().for_each(|value| sum.add(value));
        sum
    }
}

/// The larger of two numbers; NaN if either is NaN.
pub fn larger(one: f64, other: f64) -> f64 {
    if other <= one || one.is_nan() { one } else { other }
}

/// The smaller of two numbers; NaN if either is NaN.
pub fn smaller(one: f64, other: f64) -> f64 {
    -larger(-one, -other)
}

/// The number of values that differ in any bit; values that one list lacks count, too.
pub fn differing(one: &[f64], other: &[f64]) -> usize {
    let common = one.iter().zip(other).filter(|(one, other)| one.to_bits() != other.to_bits()).count();
    common + one.len().abs_diff(other.len())
}

/// The largest difference between two lists over the largest magnitude in the second. NaN if a difference is NaN or
/// the lengths differ.
pub fn largest_difference(one: &[f64], other: &[f64]) -> f64 {
    let largest = other.iter().map(|number| number.abs()).fold(0.0, larger);
    let difference = one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, larger);
    match (one.len() == other.len(), difference == 0.0) {
        (false, _) => f64::NAN,
        (true, true) => 0.0,
        (true, false) => difference / largest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_not_lost_among_large_ones() {
        let values = [1.0, 1e100, 1.0, -1e100];
        assert_eq!(values.into_iter().collect::<Sum>().value(), 2.0);
        assert_eq!(Sum::default().value(), 0.0);
    }

    #[test]
    fn differences_are_parts_of_the_largest_number() {
        assert_eq!(largest_difference(&[1.0, -4.0], &[1.5, -4.0]), 0.125);
        assert_eq!(largest_difference(&[0.0], &[-0.0]), 0.0);
        assert_eq!(largest_difference(&[1.0], &[0.0]), f64::INFINITY);
        assert!(largest_difference(&[f64::NAN, 1.0], &[1.0, 1.0]).is_nan());
        assert!(largest_difference(&[1.0, 1.0], &[1.0]).is_nan());
    }

    #[test]
    fn what_is_no_number_is_not_lost_among_numbers() {
        assert_eq!((larger(1.0, 2.0), smaller(1.0, 2.0)), (2.0, 1.0));
        for pair in [[f64::NAN, 1.0], [1.0, f64::NAN]] {
            assert!(larger(pair[0], pair[1]).is_nan() && smaller(pair[0], pair[1]).is_nan());
        }
    }

    #[test]
    fn every_bit_counts() {
        assert_eq!(differing(&[1.0, 2.0], &[1.0, 2.0]), 0);
        assert_eq!(differing(&[0.0], &[-0.0]), 1);
        assert_eq!(differing(&[f64::NAN], &[f64::NAN]), 0);
        assert_eq!(differing(&[1.0, 2.0, 3.0], &[1.0]), 2);
    }
}
