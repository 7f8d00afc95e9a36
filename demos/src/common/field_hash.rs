//! A hash of fields that are spread over ranks: the same for the same bits, whatever the ranks and their cells.

use haloport::comm::TransportError;
use haloport::{Communicator, Reduction};

/// A hash of all values of some fields, for comparing runs by one number.
///
/// Each value contributes a word of 64 bits, mixed from the number of its field, the number of its element in the whole
/// field, and its bits. The hash is the sum of the words modulo 2^64. So it does not depend on the order in which values are
/// added, nor on the rank that adds them. No values are gathered: the ranks add up one word each.
///
/// Two runs whose fields differ in any bit have different hashes, but for one case in about 2^64. It finds differences by
/// accident, not by intent: another field with the same hash is easily made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldHash {
    words: u64,
}

impl FieldHash {
    /// Adds values of field number `field`: the elements from number `first` on in the whole field.
    pub fn add(&mut self, field: usize, first: usize, values: &[f64]) {
        let of_field = mix(field as u64);
        for (element, value) in (first as u64..).zip(values) {
            let place = mix(of_field ^ element);
            self.words = self.words.wrapping_add(mix(place ^ value.to_bits()));
        }
    }

    /// Collective: the hash of the values that all ranks have added, the same on every rank. Blocks until all ranks have
    /// called it.
    ///
    /// # Errors
    /// [`TransportError`].
    pub fn of_all_ranks(self, comm: &Communicator) -> Result<u64, TransportError> {
        comm.all_reduce(self.words, Reduction::Sum)
    }
}

/// A word from which each bit of the result depends on each bit of `word`, without collisions: the output function of
/// SplitMix64 (G. L. Steele Jr., D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), whose
/// constants are D. Stafford's 13th variant.
fn mix(word: u64) -> u64 {
    // 0 would stay 0.
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use haloport::run_ranks;

    use super::*;

    fn hash(fields: &[&[f64]]) -> u64 {
        let mut hash = FieldHash::default();
        fields.iter().enumerate().for_each(|(field, values)| hash.add(field, 0, values));
        hash.words
    }

    #[test]
    fn any_other_bit_place_or_field_gives_another_hash() {
        let values = [1.0, 2.0, 0.0, f64::NAN];
        let one = hash(&[&values, &[5.0]]);
        assert_eq!(one, hash(&[&values, &[5.0]]));
        let others = [
            hash(&[&[2.0, 1.0, 0.0, f64::NAN], &[5.0]]),
            hash(&[&[1.0, 2.0, -0.0, f64::NAN], &[5.0]]),
            hash(&[&[1.0, f64::from_bits(2.0_f64.to_bits() + 1), 0.0, f64::NAN], &[5.0]]),
            hash(&[&values, &[6.0]]),
            hash(&[&values, &[]]),
            hash(&[&[5.0], &values]),
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(*other != one && !others[..at].contains(other), "number {at}: {other:x}, {one:x}");
        }
    }

    #[test]
    fn it_is_the_same_on_any_ranks_and_in_any_order() {
        let values: Vec<f64> = (0..60).map(|element| (element as f64).sin()).collect();
        let whole = hash(&[&values, &values]);
        for ranks in [1, 2, 3, 5] {
            let hashes = run_ranks(ranks, |comm| {
                let mut hash = FieldHash::default();
                // Pieces of 4 values, dealt out in turns, the last ones first.
                for first in (0..60).step_by(4).rev().filter(|first| first / 4 % ranks == comm.rank()) {
                    (0..2).for_each(|field| hash.add(field, first, &values[first..first + 4]));
                }
                Ok(hash.of_all_ranks(&comm)?)
            });
            assert_eq!(hashes.unwrap(), vec![whole; ranks]);
        }
    }
}
