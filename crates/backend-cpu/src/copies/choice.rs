//! The choice between writing through the caches and past them, by timing both.
//!
//! The cost of writing a line that another core has read depends on the distance between the two cores, which a program
//! cannot know: 7 ns or 28 ns on one virtual machine, which moves its cores while programs run. Therefore the first
//! runs of a list time both ways, later runs use the faster one, and from time to time both are timed again.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crate::copies::stores::Writing;

/// The shortest and the longest number of runs between two trials of both ways. The number is the shortest after a
/// trial has changed the way, because a disturbed run may have been the reason, and doubles after each trial that
/// confirms the way.
const PERIODS: (u32, u32) = (64, 1024);

/// The number of these runs that try both ways: two runs one way, two the other, and the same again. The first of each
/// two is not timed; it leaves the target in the caches where this way of writing leaves it.
const TRIED: u32 = 8;

/// Lists are written past the caches if that takes at most this part of the time: the next reader finds the target
/// further away.
const WORTH: f64 = 0.85;

/// The way to write a list: through the caches until both ways have been timed.
#[derive(Debug)]
pub(crate) struct WritingChoice {
    /// The number of runs since the last trial began, and the number of runs between two trials.
    runs: AtomicU32,
    period: AtomicU32,
    /// The shortest time of the latest trial, through the caches and past them.
    nanoseconds: [AtomicU64; 2],
    past: AtomicBool,
}

impl Default for WritingChoice {
    fn default() -> WritingChoice {
        WritingChoice {
            runs: AtomicU32::new(0),
            period: AtomicU32::new(PERIODS.0),
            nanoseconds: Default::default(),
            past: AtomicBool::new(false),
        }
    }
}

impl WritingChoice {
    /// Calls `run` once, with the way to write.
    pub(crate) fn run(&self, run: impl FnOnce(Writing)) {
        let way = |past| if past { Writing::PastCaches } else { Writing::Plain };
        let number = self.runs.fetch_add(1, Relaxed);
        if number >= TRIED {
            if number + 1 >= self.period.load(Relaxed) {
                self.runs.store(0, Relaxed);
            }
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
            let is_past = past < WORTH * through;
            let is_same = self.past.swap(is_past, Relaxed) == is_past;
            let period = if is_same { 2 * self.period.load(Relaxed) } else { PERIODS.0 };
            self.period.store(period.min(PERIODS.1), Relaxed);
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

    /// Does the runs until both ways are tried again; returns their number.
    fn kept(choice: &WritingChoice, past: bool) -> u32 {
        let mut count = TRIED;
        while choice.runs.load(Relaxed) != 0 {
            assert_eq!(runs(choice, 1, 0, 0), [past]);
            count += 1;
        }
        count
    }

    #[test]
    fn both_ways_are_tried_and_the_quicker_one_is_kept() {
        let choice = WritingChoice::default();
        let tried = [false, false, true, true, false, false, true, true];
        let (first, last) = PERIODS;
        for (past, period) in
            [(true, first), (false, first), (false, 2 * first), (true, first), (true, 2 * first)]
        {
            let (through, past_caches) = if past { (20, 1) } else { (1, 20) };
            assert_eq!(runs(&choice, TRIED, through, past_caches), tried);
            assert_eq!(kept(&choice, past), period);
        }
        for _ in 0..6 {
            runs(&choice, TRIED, 20, 1);
            assert!(kept(&choice, true) <= last);
        }
        runs(&choice, TRIED, 20, 1);
        assert_eq!(kept(&choice, true), last);
    }
}
