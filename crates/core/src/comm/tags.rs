//! The tags by which transports tell the messages of exchanges apart.
//!
//! All ranks together take a block of tags for each exchange, the same on every rank. Each rank gives it back when it drops
//! the exchange. The first blocks are new ones, which need no message. Later, ranks agree on a block that all of them have
//! given back, and only if there is none they take a new one, as long as the transport has tags.
//!
//! A block is used again only if each rank has begun as many exchanges with it, and none has failed: then no message with
//! its tags is left on the way. Other blocks are lost.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::lock::lock;
use crate::transport::TransportError;

/// The tags for callers of [`Communicator::raw_transport`](super::Communicator::raw_transport); no exchange uses them.
pub const FREE_TAGS: Range<u32> = 0..100;

/// A block of tags, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Tags {
    blocks: Arc<Mutex<Blocks>>,
    range: Range<u32>,
    end: End,
}

/// How the exchanges with a block have ended on this rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// All is well, after this number of exchanges.
    After(u64),
    /// One has failed, or was not completed.
    Failed,
}

/// The blocks of one rank.
#[derive(Debug)]
pub(super) struct Blocks {
    /// The first tag that was never taken.
    next: u32,
    /// The largest tag of the transport.
    largest: u32,
    /// The blocks that were given back, by their first tag.
    free: BTreeMap<u32, Free>,
    /// The number of blocks that are taken.
    taken: usize,
}

#[derive(Debug, Clone, Copy)]
struct Free {
    count: u32,
    end: End,
}

/// The tags that are taken before any is used again.
const FIRST_TAGS: u32 = 1 << 17;

impl Tags {
    /// The first of them.
    pub(crate) fn first(&self) -> u32 {
        self.range.start
    }

    /// Notes how the exchanges with them have ended: the number of those that were begun, if all are complete; `None` if
    /// one has failed.
    pub(crate) fn end(&mut self, exchanges: Option<u64>) {
        self.end = exchanges.map_or(End::Failed, End::After);
    }
}

impl Drop for Tags {
    fn drop(&mut self) {
        let mut blocks = lock(&self.blocks);
        blocks.taken -= 1;
        let count = self.range.end - self.range.start;
        blocks.free.insert(self.range.start, Free { count, end: self.end });
    }
}

impl Blocks {
    pub(super) fn new(largest: u32) -> Blocks {
        Blocks { next: FREE_TAGS.end, largest, free: BTreeMap::new(), taken: 0 }
    }

    /// New tags, if there are as many up to `last`.
    fn new_block(&mut self, count: u32, last: u32) -> Option<u32> {
        let end = self.next.checked_add(count).filter(|end| *end - 1 <= last.min(self.largest))?;
        Some(std::mem::replace(&mut self.next, end))
    }

    /// The first block of `count` tags that was given back, from `from` on.
    fn find(&self, count: u32, from: u32) -> Option<(u32, End)> {
        let mut free = self.free.range(from..);
        free.find(|(_, block)| block.count == count).map(|(begin, block)| (*begin, block.end))
    }
}

/// Reduces words of all ranks to the largest of each.
type Reduce<'r> = &'r mut dyn FnMut([u64; 5]) -> Result<[u64; 5], TransportError>;

/// Collective: takes `count` tags, at least 1.
///
/// # Errors
/// [`TransportError::NoTags`], on all ranks; that of `reduce`.
pub(super) fn take(
    blocks: &Arc<Mutex<Blocks>>,
    count: u32,
    reduce: Reduce<'_>,
) -> Result<Tags, TransportError> {
    // The same on all ranks, as are all tags that were taken.
    let early = lock(blocks).new_block(count, FIRST_TAGS);
    let begin = match early {
        Some(begin) => Some(begin),
        None => agree_on_block(blocks, count, reduce)?.or_else(|| lock(blocks).new_block(count, u32::MAX)),
    };
    let mut known = lock(blocks);
    let Some(begin) = begin else {
        return Err(TransportError::NoTags { largest: known.largest, exchanges: known.taken });
    };
    known.taken += 1;
    Ok(Tags { blocks: Arc::clone(blocks), range: begin..begin + count, end: End::After(0) })
}

/// Collective: a block of `count` tags that all ranks have given back, if there is one.
fn agree_on_block(
    blocks: &Mutex<Blocks>,
    count: u32,
    reduce: Reduce<'_>,
) -> Result<Option<u32>, TransportError> {
    const NONE: u64 = u64::MAX;
    let mut from = 0;
    loop {
        let mine = lock(blocks).find(count, from);
        let begin = mine.map_or(NONE, |(begin, _)| u64::from(begin));
        let (exchanges, failed) = match mine {
            Some((_, End::After(exchanges))) => (exchanges, false),
            _ => (0, mine.is_some()),
        };
        let words = [begin, !begin, exchanges, !exchanges, u64::from(failed)];
        let [largest, smallest, most, least, any_failed] = reduce(words)?;
        let Ok(agreed) = u32::try_from(largest) else { return Ok(None) };
        if largest != !smallest {
            // Some ranks have not given back the first ones of others.
            from = agreed;
            continue;
        }
        lock(blocks).free.remove(&agreed);
        if most == !least && any_failed == 0 {
            return Ok(Some(agreed));
        }
    }
}
