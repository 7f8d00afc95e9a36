//! The works that must have ended at some point of a run.

use std::sync::Arc;

/// The works that must have ended at some point of a run: a vector clock. The default has none.
///
/// A clone shares its memory until one of the two changes.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// By line, the tick of the last of its works; lines beyond the end have 0, the tick before their first work.
    ticks: Arc<Vec<u32>>,
}

impl Clock {
    /// Adds the works of another clock.
    pub fn join(&mut self, other: &Clock) {
        let covered = |(line, &tick): (usize, &u32)| self.covers(line as u32, tick);
        if Arc::ptr_eq(&self.ticks, &other.ticks) || other.ticks.iter().enumerate().all(covered) {
            return;
        }
        let ticks = Arc::make_mut(&mut self.ticks);
        if ticks.len() < other.ticks.len() {
            ticks.resize(other.ticks.len(), 0);
        }
        for (tick, other) in ticks.iter_mut().zip(other.ticks.iter()) {
            *tick = (*tick).max(*other);
        }
    }

    /// Adds the next work of a line; returns its tick.
    pub(crate) fn tick(&mut self, line: u32) -> u32 {
        let ticks = Arc::make_mut(&mut self.ticks);
        if ticks.len() <= line as usize {
            ticks.resize(line as usize + 1, 0);
        }
        ticks[line as usize] += 1;
        ticks[line as usize]
    }

    /// The tick of the last work of a line.
    pub(crate) fn last(&self, line: u32) -> u32 {
        self.ticks.get(line as usize).copied().unwrap_or(0)
    }

    /// Whether it has the work of this line and tick.
    pub(crate) fn covers(&self, line: u32, tick: u32) -> bool {
        self.last(line) >= tick
    }
}
