//! Words of memory by which lines wait for each other.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

use crate::clock::Clock;
use crate::lock::lock;

/// Words of memory by which lines wait for each other: one line writes a number, another waits until it is there. These
/// accesses are none to a [`Shadow`](crate::Shadow).
#[derive(Default)]
pub struct Words {
    words: Mutex<BTreeMap<u64, Word>>,
}

#[derive(Default)]
struct Word {
    /// The number that a line has written last.
    number: u32,
    clock: Clock,
}

impl Words {
    /// Adds the works of the clock to those that the word stands for. Call it before a line writes `number`.
    ///
    /// They are added to those of earlier numbers, since a line that waits may see the number before or the number after. If
    /// several lines write a word in no order, a line that has seen one of the numbers follows the works before the others
    /// too: races of these are missed.
    pub fn release(&self, address: u64, number: u32, clock: &Clock) {
        let mut words = lock(&self.words);
        let word = words.entry(address).or_default();
        word.number = number;
        word.clock.join(clock);
    }

    /// The works that the word stands for: those that a line follows whose wait for the number has ended.
    pub fn acquire(&self, address: u64) -> Clock {
        lock(&self.words).get(&address).map(|word| word.clock.clone()).unwrap_or_default()
    }

    /// Whether a line has written this number last. If not, what has written it is no line.
    pub fn is_from_line(&self, address: u64, number: u32) -> bool {
        lock(&self.words).get(&address).is_some_and(|word| word.number == number)
    }

    /// Forgets the words at these addresses, whose memory is freed.
    pub fn forget(&self, addresses: Range<u64>) {
        lock(&self.words).retain(|address, _| !addresses.contains(address));
    }
}
