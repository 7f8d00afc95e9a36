//! Races without repetitions.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::lock::lock;
use crate::race::Race;

/// Races without repetitions: of each two descriptions of works, in either order, the race that was found first.
pub struct Reports {
    limit: usize,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    pairs: HashSet<[Arc<str>; 2]>,
    kept: Vec<Race>,
}

impl Reports {
    /// Creates an empty report, which keeps the first `limit` races and counts the others.
    pub fn new(limit: usize) -> Reports {
        Reports { limit, found: Mutex::default() }
    }

    /// Adds a race; returns whether it is the first one of its works.
    pub fn add(&self, race: Race) -> bool {
        let mut pair = [race.earlier.work.clone(), race.later.work.clone()];
        pair.sort_unstable();
        let mut found = lock(&self.found);
        let first = found.pairs.insert(pair);
        if first && found.kept.len() < self.limit {
            found.kept.push(race);
        }
        first
    }

    /// The number of races.
    pub fn count(&self) -> usize {
        lock(&self.found).pairs.len()
    }

    /// The races that are kept, in the order in which they were found.
    pub fn kept(&self) -> Vec<Race> {
        lock(&self.found).kept.clone()
    }

    /// Forgets all races.
    pub fn clear(&self) {
        *lock(&self.found) = Found::default();
    }
}

/// A line for each race that is kept, and one with the number of the others.
impl fmt::Display for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = lock(&self.found);
        for race in &found.kept {
            writeln!(f, "{race}")?;
        }
        match found.pairs.len() - found.kept.len() {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}
