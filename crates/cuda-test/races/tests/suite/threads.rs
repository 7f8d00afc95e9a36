//! Works that run on several threads at the same time.

use std::sync::Barrier;
use std::thread;

use haloport_cuda_races::{Clock, Lines, Reports, Shadow};

#[test]
fn of_two_accesses_at_the_same_time_one_finds_the_race() {
    const ROUNDS: usize = 20_000;
    let lines = Lines::default();
    for (first, second) in [(true, true), (true, false)] {
        let shadow = Shadow::new("block", 8 * ROUNDS);
        let barrier = Barrier::new(2);
        let run = |writes: bool| {
            let mut line = lines.open(&Clock::default());
            let work = line.work(if writes { "writer" } else { "reader" });
            let mut found = Vec::new();
            barrier.wait();
            for round in 0..ROUNDS {
                found.push(shadow.access(8 * round..8 * round + 8, writes, &work).is_some());
            }
            found
        };
        let (left, right) = thread::scope(|scope| {
            let other = scope.spawn(|| run(second));
            (run(first), other.join().expect("a thread that ends"))
        });
        let wrong = left.iter().zip(&right).filter(|(left, right)| left == right).count();
        assert_eq!(wrong, 0, "{first} {second}");
    }
}

#[test]
fn works_are_made_on_many_threads() {
    let lines = Lines::default();
    let shadow = Shadow::new("block", 1 << 16);
    let reports = Reports::new(20);
    thread::scope(|scope| {
        for number in 0..4 {
            let (lines, shadow, reports) = (&lines, &shadow, &reports);
            scope.spawn(move || {
                let mut line = lines.open(&Clock::default());
                for step in 0..5_000 {
                    let work = line.work(format!("step {step} of line {number}"));
                    let begin = number << 14 | (step % 256) << 6;
                    for race in [
                        shadow.access(begin..begin + 64, true, &work),
                        shadow.access(begin..begin + 8, false, &work),
                    ] {
                        race.map(|race| reports.add(race));
                    }
                }
            });
        }
    });
    assert_eq!(reports.to_string(), "");
    let mut last = lines.open(&Clock::default());
    for number in 0..4 {
        let byte = number << 14 | 8;
        let race = shadow.access(byte..byte + 1, false, &last.work("last")).expect("a race");
        assert_eq!(&*race.earlier.work, format!("step 4864 of line {number}"));
    }
}
