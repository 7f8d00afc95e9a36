//! Works, and sets of works.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::clock::Clock;
use crate::lock::lock;
use crate::table::Table;

/// Set in [`Readers`] that are several works.
const SEVERAL: u32 = 1 << 31;

/// One piece of work of a line: a kernel, a copy, or accesses of the host.
#[derive(Clone)]
pub struct Work {
    works: Arc<Works>,
    number: u32,
    /// The works that have ended before, and itself.
    clock: Clock,
}

impl Work {
    /// Whether the work `other` has ended before this one begins, or is this one.
    pub(crate) fn follows(&self, other: u32) -> bool {
        other == self.number
            || self.works.made.item(other).is_none_or(|it| self.clock.covers(it.line, it.tick))
    }

    /// Its number, from 1 on.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// All works of the run.
    pub(crate) fn works(&self) -> &Works {
        &self.works
    }
}

/// Works that have read a byte, as one number: none is 0, one is its own number, several are the number of their set, and
/// [`SEVERAL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Readers(u32);

/// All works of a run, and the sets of them that have read a byte.
#[derive(Default)]
pub(crate) struct Works {
    made: Table<Made>,
    sets: Table<Arc<[u32]>>,
    numbers: Mutex<HashMap<Arc<[u32]>, u32>>,
}

/// The facts of a work that later works need.
struct Made {
    line: u32,
    tick: u32,
    description: Arc<str>,
}

impl Works {
    /// Makes a work. `clock` has it.
    pub(crate) fn make(self: &Arc<Works>, line: u32, clock: Clock, description: Arc<str>) -> Work {
        let number = self.made.push(Made { line, tick: clock.last(line), description });
        Work { works: self.clone(), number, clock }
    }

    /// The description of a work.
    pub(crate) fn description(&self, number: u32) -> Arc<str> {
        self.made.item(number).map_or_else(|| "".into(), |work| work.description.clone())
    }

    /// The numbers of readers.
    pub(crate) fn members<'a>(&'a self, readers: &'a Readers) -> &'a [u32] {
        match readers.0 {
            0 => &[],
            set if set & SEVERAL != 0 => self.sets.item(set & !SEVERAL).map_or(&[], |set| set),
            _ => std::slice::from_ref(&readers.0),
        }
    }

    /// The readers and `work`, without the readers that `work` follows: a later work that follows `work` follows
    /// those, too.
    pub(crate) fn with_reader(&self, readers: Readers, work: &Work) -> Readers {
        let mut others =
            self.members(&readers).iter().copied().filter(|&other| !work.follows(other)).peekable();
        if others.peek().is_none() {
            return Readers(work.number);
        }
        let mut set: Vec<u32> = others.chain([work.number]).collect();
        // The same readers are one set, in whatever order they have read.
        set.sort_unstable();
        let mut numbers = lock(&self.numbers);
        if let Some(number) = numbers.get(&set[..]) {
            return Readers(number | SEVERAL);
        }
        let set: Arc<[u32]> = set.into();
        let number = self.sets.push(set.clone());
        numbers.insert(set, number);
        Readers(number | SEVERAL)
    }
}
