//! Work between the start of an exchange and its end that is not the same on all ranks.

use std::time::{Duration, Instant};

use super::contestant::Contestant;
use crate::command::failure::Failure;

/// The work of one rank: ranks with even numbers have it in every second exchange, those with odd numbers in the others.
#[derive(Debug, Clone)]
pub(super) struct Uneven {
    time: Duration,
    /// Whether this rank works in the next exchange.
    works: bool,
}

impl Uneven {
    /// `microseconds` of work on rank `rank`.
    pub(super) fn new(microseconds: u64, rank: usize) -> Uneven {
        Uneven { time: Duration::from_micros(microseconds), works: rank.is_multiple_of(2) }
    }

    /// Works in one exchange, or does not.
    pub(super) fn work(&mut self) {
        let begin = Instant::now();
        while self.works && begin.elapsed() < self.time {
            std::hint::spin_loop();
        }
        self.works = !self.works;
    }
}

/// The work alone, without an exchange.
impl Contestant for Uneven {
    fn run(&mut self, batch: usize) -> Result<(), Failure> {
        (0..batch).for_each(|_| self.work());
        Ok(())
    }
}
