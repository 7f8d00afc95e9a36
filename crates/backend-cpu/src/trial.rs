//! Which of two ways to write is quicker, found by trying both.
//!
//! What it costs to write a line that another core has read depends on where the two cores are, which is not the program's to
//! know: 7 ns or 28 ns on one virtual machine, which moves its cores while programs run. So the first runs of a list try both
//! ways, the quicker one is kept, and after a while both are tried again.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// After so many runs both ways are tried again.
const PERIOD: u32 = 1024;

/// So many of them try: two one way, two the other, and the same again. The first of two is not timed, it leaves the target
/// as this way of writing does.
const TRIED: u32 = 8;

/// Past the caches is taken where it takes at most this part of the time: who reads the target next finds it further away.
const WORTH: f64 = 0.85;

/// How a list is written: through the caches until the first trial has ended.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    runs: AtomicU32,
    /// The shortest time of this trial, through the caches and past them.
    nanoseconds: [AtomicU64; 2],
    past: AtomicBool,
}

impl Trial {
    /// Calls `run` once, with whether to write past the caches.
    pub(crate) fn run(&self, run: impl FnOnce(bool)) {
        let number = self.runs.fetch_add(1, Relaxed) % PERIOD;
        if number >= TRIED {
            return run(self.past.load(Relaxed));
        }
        if number == 0 {
            self.nanoseconds.iter().for_each(|time| time.store(u64::MAX, Relaxed));
        }
        let past = number / 2 % 2 == 1;
        let begin = Instant::now();
        run(past);
        if number % 2 == 1 {
            let time = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.nanoseconds[usize::from(past)].fetch_min(time, Relaxed);
        }
        if number + 1 == TRIED {
            let [through, past] = self.nanoseconds.each_ref().map(|time| time.load(Relaxed) as f64);
            self.past.store(past < WORTH * through, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;
    use std::time::Duration;

    /// Runs that take so many milliseconds through the caches and past them; whether each was past them.
    fn runs(trial: &Trial, count: u32, through: u64, past: u64) -> Vec<bool> {
        let mut ways = Vec::new();
        for _ in 0..count {
            trial.run(|is_past| {
                ways.push(is_past);
                sleep(Duration::from_millis(if is_past { past } else { through }));
            });
        }
        ways
    }

    #[test]
    fn both_ways_are_tried_and_the_quicker_one_is_kept() {
        let trial = Trial::default();
        let tried = runs(&trial, TRIED, 20, 1);
        assert_eq!(tried, [false, false, true, true, false, false, true, true]);
        assert_eq!(runs(&trial, PERIOD - TRIED, 0, 0), [true; (PERIOD - TRIED) as usize]);
        assert_eq!(runs(&trial, TRIED, 1, 20), tried, "tried again");
        assert_eq!(runs(&trial, 4, 0, 0), [false; 4]);
    }
}
