//! A list that grows while others read it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The size of the first chunk; each further one has twice the size of the one before.
const FIRST: u64 = 256;
/// The number of chunks: with them the list has fewer than 2³¹ items.
const CHUNKS: usize = 23;

/// A list that grows while others read it. Items stay where they are, and reading one takes no lock.
pub(crate) struct Table<T> {
    chunks: [OnceLock<Box<[OnceLock<T>]>>; CHUNKS],
    len: AtomicU32,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { chunks: [const { OnceLock::new() }; CHUNKS], len: AtomicU32::new(0) }
    }
}

impl<T> Table<T> {
    /// Adds an item; returns its number, counted from 1.
    pub(crate) fn push(&self, item: T) -> u32 {
        let number = self.len.fetch_add(1, Ordering::Relaxed) + 1;
        let (chunk, at, size) = place(number);
        let chunk = self.chunks[chunk].get_or_init(|| (0..size).map(|_| OnceLock::new()).collect());
        // The number was given out once, so the place is empty.
        chunk[at].get_or_init(|| item);
        number
    }

    /// The item of a number that [`push`](Table::push) has returned.
    pub(crate) fn item(&self, number: u32) -> Option<&T> {
        let (chunk, at, _) = place(number);
        self.chunks.get(chunk)?.get()?.get(at)?.get()
    }
}

/// The chunk of a number, the place in it, and the size of the chunk.
fn place(number: u32) -> (usize, usize, usize) {
    let shifted = u64::from(number) + FIRST - 1;
    let chunk = (shifted / FIRST).ilog2();
    let size = FIRST << chunk;
    (chunk as usize, (shifted - size) as usize, size as usize)
}
