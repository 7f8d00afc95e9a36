//! Sums without rounding, against whole numbers of any size and sums that are known.

use haloport_core::comm::ExactSum;
use haloport_core::*;
use num_bigint::BigInt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

type Failure = haloport_core::Error;

fn exact(terms: &[f64]) -> f64 {
    let mut sum = ExactSum::new();
    sum.add(terms);
    sum.to_f64()
}

/// A finite float in units of 2^-1074.
fn whole(term: f64) -> BigInt {
    let (bits, exponent) = (term.to_bits(), (term.to_bits() >> 52) & 0x7FF);
    let mantissa = (bits & ((1 << 52) - 1)) + (u64::from(exponent > 0) << 52);
    let magnitude = BigInt::from(mantissa) << exponent.saturating_sub(1);
    if term.is_sign_negative() { -magnitude } else { magnitude }
}

/// Whether no float is nearer to a sum in units of 2^(-1074 - `further`), and of two that are as near this is the even one.
fn is_nearest(found: f64, sum: &BigInt, further: u32) -> bool {
    let distance = |to: f64| {
        let distance = sum - (whole(to) << further);
        distance.magnitude().clone()
    };
    let here = distance(found);
    [found.next_up(), found.next_down()].into_iter().filter(|next| next.is_finite()).all(|next| {
        let there = distance(next);
        here < there || here == there && found.to_bits().is_multiple_of(2)
    })
}

/// Checks that a result is the sum of these terms, rounded to the nearest.
#[track_caller]
fn assert_sum(found: f64, terms: &[f64]) {
    let sum: BigInt = terms.iter().map(|term| whole(*term)).sum();
    assert!(is_nearest(found, &sum, 0), "{found:e} is not the float next to {sum}");
}

/// Terms that cancel each other to a small rest: of these exponents, each with its negative but for some.
fn terms(random: &mut StdRng, count: usize, exponents: std::ops::Range<i32>) -> Vec<f64> {
    let mut terms: Vec<f64> = (0..count / 2)
        .flat_map(|_| {
            let term = random.random_range(-1.0..1.0f64) * 2f64.powi(random.random_range(exponents.clone()));
            [term, -term]
        })
        .collect();
    terms.extend((0..8).map(|_| random.random_range(-1.0..1.0f64) * 2f64.powi(exponents.start)));
    terms.shuffle(random);
    terms
}

#[test]
fn sums_are_those_of_real_numbers_rounded_once() {
    let mut random = StdRng::seed_from_u64(1);
    for number in 0..400 {
        let count = [0, 2, 30, 517, 3000, 20_000][number % 6];
        let exponents =
            [-8..8, -60..60, -1000..1000, -900..900, -1074..-1060, 900..1023, 0..1][number / 6 % 7].clone();
        let terms = terms(&mut random, count, exponents);
        assert_sum(exact(&terms), &terms);
        // One by one, and in parts.
        assert_eq!(terms.iter().copied().collect::<ExactSum>().to_f64().to_bits(), exact(&terms).to_bits());
        let mut parts = ExactSum::new();
        for part in terms.chunks(1 + terms.len() / 3) {
            let mut sum = ExactSum::new();
            sum.add(part);
            parts.add_sum(&sum);
        }
        assert_eq!(parts.to_f64().to_bits(), exact(&terms).to_bits());
    }
    // Any bits, but of no NaN and no infinity.
    for _ in 0..200 {
        let any: Vec<f64> =
            (0..2000).map(|_| f64::from_bits(random.random())).filter(|it| it.is_finite()).collect();
        assert_sum(exact(&any), &any);
    }
}

#[test]
fn sums_of_many_equal_terms_are_exact() {
    for (term, count) in [(0.1, 100_000), (f64::MAX / 65536.0, 60_000), (5e-324, 100_000), (-1.5e300, 4096)] {
        let terms = vec![term; count];
        assert_sum(exact(&terms), &terms);
    }
}

/// The bits of one large term come first; those of the others are added after them, and their sum is as long as a float.
#[test]
fn bits_far_below_a_large_term_are_not_rounded() {
    let mut random = StdRng::seed_from_u64(5);
    for sign in [1.0, -1.0] {
        for power in 40..56 {
            let mut little = || sign * random.random_range(0.9..1.0f64) * 2f64.powi(-power);
            let terms: Vec<f64> = (0..1024).map(|n| if n % 256 == 0 { 1.9 } else { little() }).collect();
            // Without the large ones, whose result would hide the bits.
            let all = [&terms[..], &[-1.9; 4]].concat();
            assert_sum(exact(&all), &all);
        }
    }
}

#[test]
fn products_are_not_rounded() {
    let mut random = StdRng::seed_from_u64(2);
    for _ in 0..100 {
        let numbers = |random: &mut StdRng| -> Vec<f64> {
            (0..300)
                .map(|_| random.random_range(-1.0..1.0f64) * 2f64.powi(random.random_range(-100..100)))
                .collect()
        };
        let (a, b) = (numbers(&mut random), numbers(&mut random));
        let mut sum = ExactSum::new();
        sum.add_products(&a, &b);
        let products: BigInt = a.iter().zip(&b).map(|(a, b)| whole(*a) * whole(*b)).sum();
        assert!(is_nearest(sum.to_f64(), &products, 1074));
    }
    let products = |a: &[f64], b: &[f64]| {
        let mut sum = ExactSum::new();
        sum.add_products(a, b);
        sum.to_f64()
    };
    // Where products by themselves would be 0 or infinite.
    assert_eq!(products(&[5e-324; 3], &[0.5; 3]), 1e-323);
    assert_eq!(products(&[5e-324], &[0.5]), 0.0);
    assert_eq!(products(&[f64::MAX, f64::MAX, 1.0], &[2.0, -2.0, 7.0]), 7.0);
    assert_eq!(products(&[f64::MAX, f64::MAX], &[f64::MAX, f64::MAX]), f64::INFINITY);
    let tiny = 2f64.powi(-1000);
    assert_eq!(products(&[tiny, tiny], &[tiny, -tiny]).to_bits(), 0);
    assert!(products(&[f64::INFINITY], &[0.0]).is_nan());
    // The longer one has no partners.
    assert_eq!(products(&[2.0, 3.0], &[5.0]), 10.0);
}

#[test]
fn results_are_rounded_to_the_nearest_and_special_values_win() {
    let ulp = f64::EPSILON;
    for (terms, expected) in [
        (&[1.0, ulp / 2.0][..], 1.0),
        (&[1.0 + ulp, ulp / 2.0], 1.0 + 2.0 * ulp),
        (&[1.0, ulp / 2.0, 5e-324], 1.0 + ulp),
        (&[-1.0, -ulp / 2.0, -5e-324], -1.0 - ulp),
        (&[f64::MAX, f64::MAX, -f64::MAX], f64::MAX),
        (&[f64::MAX, f64::MAX], f64::INFINITY),
        (&[-f64::MAX, -f64::MAX], f64::NEG_INFINITY),
        (&[f64::MAX, f64::MAX * ulp / 4.0], f64::MAX),
        (&[f64::MIN_POSITIVE, -5e-324], f64::from_bits(f64::MIN_POSITIVE.to_bits() - 1)),
        (&[1e100, 1.0, -1e100], 1.0),
        (&[1.0, f64::INFINITY, -1e300], f64::INFINITY),
        (&[f64::NEG_INFINITY, f64::NEG_INFINITY], f64::NEG_INFINITY),
        (&[], 0.0),
    ] {
        assert_eq!(exact(terms).to_bits(), expected.to_bits(), "{terms:?}");
    }
    assert_eq!(exact(&[-0.0, -0.0]).to_bits(), 0);
    for terms in [&[f64::NAN, 1.0][..], &[f64::INFINITY, 1.0, f64::NEG_INFINITY], &[f64::NAN, f64::INFINITY]]
    {
        assert!(exact(terms).is_nan(), "{terms:?}");
        // In a long slice, too.
        assert!(exact(&[terms, &[1.0; 5000]].concat()).is_nan(), "{terms:?}");
    }
    assert_eq!(exact(&[&[f64::INFINITY; 3][..], &[-1.0; 5000]].concat()), f64::INFINITY);
}

#[test]
fn sums_of_f32_are_rounded_once() {
    let of = |terms: &[f64]| terms.iter().copied().collect::<ExactSum>().to_f32();
    // To an f64 first, the last term would be lost, and of the two nearest f32 the even one taken.
    assert_eq!(of(&[1.0, 2f64.powi(-24), 2f64.powi(-60)]), 1.0 + f32::EPSILON);
    assert_eq!(of(&[1.0, 2f64.powi(-24)]), 1.0);
    assert_eq!(of(&[f64::from(f32::MAX), 2f64.powi(103)]), f32::INFINITY);
    assert_eq!(of(&[f64::from(f32::MAX), 2f64.powi(102)]), f32::MAX);
    assert_eq!(of(&[1e300]), f32::INFINITY);
    assert_eq!(of(&[-1e-300]), 0.0);
    assert_eq!(of(&[-3.0 * 2f64.powi(-150)]), -2f32.powi(-148));
    let mut random = StdRng::seed_from_u64(3);
    let terms: Vec<f32> =
        (0..5000).map(|_| f32::from_bits(random.random())).filter(|it| it.is_finite()).collect();
    let mut sum = ExactSum::new();
    sum.add(&terms);
    let wide: Vec<f64> = terms.iter().map(|term| f64::from(*term)).collect();
    assert_sum(sum.to_f64(), &wide);
}

#[test]
fn sums_have_the_same_bits_on_any_number_of_ranks() {
    let mut random = StdRng::seed_from_u64(4);
    for case in 0..6 {
        let all = terms(&mut random, 4000, -40..40);
        let (expected, ranks) = (exact(&all).to_bits(), 1 + case);
        assert_sum(f64::from_bits(expected), &all);
        let mut cuts: Vec<usize> = (1..ranks).map(|_| random.random_range(0..=all.len())).collect();
        cuts.extend([0, all.len()]);
        cuts.sort_unstable();
        let sums = run_ranks(ranks, |comm| -> Result<_, Failure> {
            let mine = &all[cuts[comm.rank()]..cuts[comm.rank() + 1]];
            // Several in one message: the second is empty on most ranks, the third has a NaN on one.
            let mut sums = [ExactSum::new(), ExactSum::new(), ExactSum::new()];
            sums[0].add_products(mine, &vec![1.0; mine.len()]);
            if comm.rank() == 0 {
                sums[1].add_one(7.0);
            }
            sums[2].add_one(if comm.rank() + 1 == ranks { f64::NAN } else { 1.0 });
            comm.all_reduce_exact(&mut sums)?;
            Ok((comm.sum_exact(mine)?.to_bits(), sums.map(|sum| sum.to_f64())))
        })
        .unwrap();
        for (sum, [products, seven, nan]) in sums {
            assert_eq!((sum, products.to_bits(), seven), (expected, expected, 7.0));
            assert!(nan.is_nan());
        }
    }
}

#[test]
fn another_number_of_sums_is_an_error_on_all_ranks() {
    let failed = run_ranks(2, |comm| -> Result<_, Failure> {
        let mut sums = vec![ExactSum::new(); 1 + comm.rank()];
        sums[0].add_one(1.0);
        let error = comm.all_reduce_exact(&mut sums).unwrap_err();
        assert_eq!(sums[0].to_f64(), 1.0);
        Ok(error.to_string())
    })
    .unwrap();
    assert!(failed.iter().all(|text| text.contains("values")), "{failed:?}");
}
