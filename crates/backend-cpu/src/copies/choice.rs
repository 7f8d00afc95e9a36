//! The choice between writing through the caches and past them, by timing both.
//!
//! The cost of writing a line that another core has read depends on the distance between the two cores, which a program
//! cannot know: 7 ns or 28 ns on one virtual machine, which moves its cores while programs run. Therefore the first
//! runs of a list time both ways, later runs use the faster one, and from time to time both are timed again.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crate::copies::stores::Writing;

/// The number of runs after which both ways are timed again.
const PERIOD: u32 = 1024;

/// The number of these runs that try both ways: two runs one way, two the other, and the same again. The first of each
/// two is not timed; it leaves the target in the caches where this way of writing leaves it.
const TRIED: u32 = 8;

/// Lists are written past the caches if that takes at most this part of the time: the next reader finds the target
/// further away.
const WORTH: f64 = 0.85;

/// The way to write a list: through the caches until both ways have been timed.
#[derive(Debug, Default)]
pub(crate) struct WritingChoice {
    runs: AtomicU32,
    /// The shortest time since both ways are timed again, through the caches and past them.
    nanoseconds: [AtomicU64; 2],
    past: AtomicBool,
}

impl WritingChoice {
    /// Calls `run` once, with the way to write.
    pub(crate) fn run(&self, run: impl FnOnce(Writing)) {
        let way = |past| if past { Writing::PastCaches } else { Writing::Plain };
        let number = self.runs.fetch_add(1, Relaxed) % PERIOD;
        if number >= TRIED {
            return run(way(self.past.load(Relaxed)));
        }
        if number == 0 {
            self.nanoseconds.iter().for_each(|time| time.store(u64::MAX, Relaxed));
        }
        let past = number / 2 % 2 == 1;
        let begin = Instant::now();
        run(way(past));
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

    /// Does runs that take `through` and `past` milliseconds; returns for each whether it was past the caches.
    fn runs(choice: &WritingChoice, count: u32, through: u64, past: u64) -> Vec<bool> {
        let mut ways = Vec::new();
        for _ in 0..count {
            choice.run(|writing| {
                let is_past = writing == Writing::PastCaches;
                ways.push(is_past);
                sleep(Duration::from_millis(if is_past { past } else { through }));
            });
        }
        ways
    }

    #[test]
    fn both_ways_are_tried_and_the_quicker_one_is_kept() {
        let choice = WritingChoice::default();
        let tried = runs(&choice, TRIED, 20, 1);
        assert_eq!(tried, [false, false, true, true, false, false, true, true]);
        assert_eq!(runs(&choice, PERIOD - TRIED, 0, 0), [true; (PERIOD - TRIED) as usize]);
        assert_eq!(runs(&choice, TRIED, 1, 20), tried, "tried again");
        assert_eq!(runs(&choice, 4, 0, 0), [false; 4]);
    }
}
