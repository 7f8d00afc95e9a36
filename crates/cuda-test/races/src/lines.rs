//! Lines of execution.

use std::sync::{Arc, Mutex};

use crate::clock::Clock;
use crate::lock::lock;
use crate::works::{Work, Works};

/// The lines of a run. A clone means the same lines.
///
/// It keeps about 40 bytes for each work, and its description, until it is dropped with all its lines and works.
#[derive(Clone, Default)]
pub struct Lines {
    works: Arc<Works>,
    numbers: Arc<Mutex<Numbers>>,
}

/// The numbers of lines. Clocks have a place for each number, so those of lines that have ended are given to others.
#[derive(Default)]
struct Numbers {
    given: u32,
    /// Numbers of lines that have ended, with the tick of their last works.
    free: Vec<(u32, u32)>,
}

impl Lines {
    /// Opens a line that begins after the works of `start`.
    ///
    /// It takes the number of a line that has ended if `start` has all works of that line. The works of the two lines are
    /// then ordered anyway, so no race is missed.
    ///
    /// A line that begins with an empty clock takes none of a line that has worked. If threads of the host that begin are to
    /// follow all those that have ended, join the clocks of the latter in one clock, and open the new lines with it.
    pub fn open(&self, start: &Clock) -> Line {
        let mut numbers = lock(&self.numbers);
        let number = match numbers.free.iter().position(|&(line, tick)| start.covers(line, tick)) {
            Some(at) => numbers.free.swap_remove(at).0,
            None => {
                numbers.given += 1;
                numbers.given - 1
            }
        };
        Line { lines: self.clone(), number, clock: start.clone() }
    }
}

/// A line of execution: a stream, a network adapter, or a thread of the host. Dropping it ends it.
pub struct Line {
    lines: Lines,
    number: u32,
    clock: Clock,
}

impl Line {
    /// The works of this line until now, and all that they follow.
    ///
    /// Clone it for an event, a word or a call when the last work of the line has run. Accesses after that need another
    /// work: further ones of the last work would count as made before.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Waits: the next works of this line follow the works of the clock.
    pub fn join(&mut self, clock: &Clock) {
        self.clock.join(clock);
    }

    /// Begins the next work of this line. It follows all works of its [`clock`](Line::clock).
    pub fn work(&mut self, description: impl Into<Arc<str>>) -> Work {
        self.clock.tick(self.number);
        self.lines.works.make(self.number, self.clock.clone(), description.into())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        lock(&self.lines.numbers).free.push((self.number, self.clock.last(self.number)));
    }
}
