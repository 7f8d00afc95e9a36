//! Measures exact sums beside plain ones of the same floats: added one after the other, and in eight sums at once.
//!
//! Every round runs each contestant once. Prints medians and ratios; sums are compared. Run it with
//! `cargo bench -p haloport-core --bench exact`.
#![allow(missing_docs, reason = "a benchmark has no users")]

use std::hint::black_box;
use std::time::Instant;

use haloport_core::comm::ExactSum;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const ROUNDS: usize = 21;

type Contestant = (&'static str, fn(&[f64]) -> f64);

const CONTESTANTS: [Contestant; 4] = [
    ("one after the other", |terms| terms.iter().sum()),
    ("eight at once", |terms| {
        let (lines, rest) = terms.as_chunks::<8>();
        let mut sums = [0.0; 8];
        for line in lines {
            sums.iter_mut().zip(line).for_each(|(sum, term)| *sum += term);
        }
        sums.iter().chain(rest).sum()
    }),
    ("exact", |terms| {
        let mut sum = ExactSum::new();
        sum.add(terms);
        sum.to_f64()
    }),
    ("exact, of squares", |terms| {
        let mut sum = ExactSum::new();
        sum.add_products(terms, terms);
        sum.to_f64()
    }),
];

fn main() {
    println!("| terms | exponents | contestant | ns for a term | ÷ one after the other |");
    println!("| --- | --- | --- | --- | --- |");
    for (count, exponents) in [(100, 4), (10_000, 4), (1_000_000, 4), (1_000_000, 60)] {
        run(count, exponents);
    }
}

fn run(count: usize, exponents: i32) {
    let mut random = StdRng::seed_from_u64(1);
    let terms: Vec<f64> = (0..count)
        .map(|_| random.random_range(-1.0..1.0) * 2f64.powi(random.random_range(-exponents..=exponents)))
        .collect();
    let mut times: [Vec<f64>; CONTESTANTS.len()] = Default::default();
    let repeated = (1_000_000 / count).max(1);
    for _ in 0..ROUNDS {
        for ((_, sum), times) in CONTESTANTS.iter().zip(&mut times) {
            let begun = Instant::now();
            for _ in 0..repeated {
                black_box(sum(black_box(&terms)));
            }
            times.push(begun.elapsed().as_secs_f64() / (repeated * count) as f64);
        }
    }
    let [plain, _, exact, _] = CONTESTANTS.map(|(_, sum)| sum(&terms));
    let scale: f64 = terms.iter().map(|term| term.abs()).sum();
    assert!((plain - exact).abs() <= scale * 1e-10, "{plain} and {exact}");
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    });
    for ((name, _), median) in CONTESTANTS.iter().zip(medians) {
        println!("| {count} | ±{exponents} | {name} | {:.2} | {:.2} |", median * 1e9, median / medians[0]);
    }
}
