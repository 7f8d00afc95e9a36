//! Reductions and gathers of random values on threads, against a serial oracle.

use std::fmt::Debug;

use haloport_core::{Reducible, Reduction, TransportError, run_ranks};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const CASES: u64 = 60;

/// A number as the oracle has it.
trait Oracle: Copy + Send + Sync + Debug + PartialEq {
    /// Some value, a special one now and then.
    fn random(random: &mut StdRng) -> Self;
    fn reduced(one: Self, other: Self, reduction: Reduction) -> Self;
    /// Different for values that differ in any bit.
    fn bits(self) -> u64;
}

macro_rules! integer {
    ($integer:ty) => {
        impl Oracle for $integer {
            fn random(random: &mut StdRng) -> $integer {
                match random.random_range(0..8) {
                    0 => <$integer>::MIN,
                    1 => <$integer>::MAX,
                    2 => 0,
                    _ => random.random(),
                }
            }

            fn reduced(one: $integer, other: $integer, reduction: Reduction) -> $integer {
                match reduction {
                    Reduction::Max => one.max(other),
                    Reduction::Min => one.min(other),
                    Reduction::Sum => one.wrapping_add(other),
                }
            }

            fn bits(self) -> u64 {
                self as u64
            }
        }
    };
}

macro_rules! float {
    ($float:ty) => {
        impl Oracle for $float {
            fn random(random: &mut StdRng) -> $float {
                match random.random_range(0..20) {
                    0 => 0.0,
                    1 => -0.0,
                    2 => <$float>::INFINITY,
                    3 => <$float>::NEG_INFINITY,
                    4 => [<$float>::NAN, -<$float>::NAN][random.random_range(0..2)],
                    // Of many sizes, so that another order of the terms gives another sum.
                    _ => {
                        (random.random::<$float>() - 0.5)
                            * (10.0 as $float).powi(random.random_range(-20..20))
                    }
                }
            }

            fn reduced(one: $float, other: $float, reduction: Reduction) -> $float {
                let is_less = one.total_cmp(&other).is_lt();
                match reduction {
                    _ if one.is_nan() || other.is_nan() => <$float>::NAN,
                    Reduction::Max => {
                        if is_less {
                            other
                        } else {
                            one
                        }
                    }
                    Reduction::Min => {
                        if is_less {
                            one
                        } else {
                            other
                        }
                    }
                    Reduction::Sum => one + other,
                }
            }

            fn bits(self) -> u64 {
                if self.is_nan() { <$float>::NAN.to_bits().into() } else { self.to_bits().into() }
            }
        }
    };
}

integer!(u64);
integer!(i64);
float!(f32);
float!(f64);

fn check<T: Oracle>()
where
    Vec<T>: Reducible,
    for<'v> &'v mut [T]: Reducible,
{
    for case in 0..CASES {
        let mut random = StdRng::seed_from_u64(case);
        let ranks = random.random_range(1..7);
        // Also longer than one piece of a sum.
        let count = if case == 0 { 70_000 / ranks } else { random.random_range(0..20) };
        let brought: Vec<Vec<T>> =
            (0..ranks).map(|_| (0..count).map(|_| T::random(&mut random)).collect()).collect();
        for reduction in [Reduction::Max, Reduction::Min, Reduction::Sum] {
            let expected: Vec<u64> = (0..count)
                .map(|at| {
                    let values = brought.iter().map(|values| values[at]);
                    values.reduce(|one, other| T::reduced(one, other, reduction)).unwrap().bits()
                })
                .collect();
            run_ranks(ranks, |comm| {
                let mut values = brought[comm.rank()].clone();
                let reduced = comm.all_reduce(values.clone(), reduction)?;
                comm.all_reduce(&mut values[..], reduction)?;
                for values in [reduced, values] {
                    let found: Vec<u64> = values.into_iter().map(T::bits).collect();
                    assert!(found == expected, "case {case}, {reduction:?} on {ranks} ranks: {brought:?}");
                }
                Ok(())
            })
            .unwrap();
        }
    }
}

#[test]
fn reductions_of_any_values_are_those_of_the_oracle() {
    check::<u64>();
    check::<i64>();
    check::<f32>();
    check::<f64>();
}

#[test]
fn every_rank_has_the_same_bits_of_a_nan() {
    let bits = run_ranks(3, |comm| {
        let mine = if comm.rank() == 1 { f64::from_bits(0xfff0_0000_0000_0123) } else { f64::INFINITY };
        let mut bits = Vec::new();
        for reduction in [Reduction::Max, Reduction::Min, Reduction::Sum] {
            bits.push(comm.all_reduce(mine, reduction)?.to_bits());
        }
        bits.push(
            comm.all_reduce(if comm.rank() == 1 { -mine.abs() } else { mine }, Reduction::Sum)?.to_bits(),
        );
        Ok(bits)
    });
    assert_eq!(bits.unwrap().concat(), [f64::NAN.to_bits(); 12]);
}

#[test]
fn a_gather_has_the_values_of_all_ranks_in_their_order() {
    for case in 0..CASES {
        let mut random = StdRng::seed_from_u64(case);
        let ranks = random.random_range(1..7);
        let root = random.random_range(0..ranks);
        let brought: Vec<(usize, Vec<String>)> = (0..ranks)
            .map(|rank| (rank, (0..random.random_range(0..4)).map(|at| format!("{at}")).collect()))
            .collect();
        run_ranks(ranks, |comm| {
            let gathered = comm.gather(root, &brought[comm.rank()])?;
            assert_eq!(gathered, (comm.rank() == root).then(|| brought.clone()), "case {case}");
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn ranks_that_reduce_other_types_are_told_which() {
    let texts = run_ranks(2, |comm| {
        let error = match comm.rank() {
            0 => comm.all_reduce(1.0, Reduction::Sum).unwrap_err(),
            _ => comm.all_reduce(1u64, Reduction::Sum).unwrap_err(),
        };
        assert!(matches!(error, TransportError::OutOfStep { .. }), "{error}");
        Ok(error.to_string())
    });
    let text = "the ranks are out of step: rank 1 has come to a reduction (Sum) of 1 values, 64-bit unsigned integers, and rank 0 to a \
                reduction (Sum) of 1 values, 64-bit floats; all ranks make the same collective calls in the same order";
    assert_eq!(texts.unwrap(), [text, text]);
}

#[test]
fn values_behind_a_reference_are_as_they_were_after_ranks_were_out_of_step() {
    run_ranks(2, |comm| {
        let mut values = vec![1.5; 1 + comm.rank()];
        assert!(comm.all_reduce(&mut values, Reduction::Sum).is_err());
        assert_eq!(values, vec![1.5; 1 + comm.rank()]);
        assert_eq!(comm.all_reduce([1.5], Reduction::Sum)?, [3.0]);
        Ok(())
    })
    .unwrap();
}
