//! The memory that exchanges in flight use, so that no two of them use the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

/// The extent of one block of cells around its first element, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// The lowest byte and the one past the highest, from the first element. Only extents that no memory has exceed half
    /// of the address space; they are cut off there.
    low: isize,
    high: isize,
    element: isize,
    /// The extent and the stride in bytes of each axis of more than one element.
    axes: SmallVec<[(isize, isize); 6]>,
}

/// The most steps of a search for two elements at one address. Blocks of usual layouts need a few.
const MOST_STEPS: u32 = 10_000;

impl Footprint {
    /// The footprint of elements of `element` bytes along axes with these extents and strides in bytes.
    pub(crate) fn new(element: usize, axes: impl IntoIterator<Item = (usize, isize)>) -> Footprint {
        let element = element as isize;
        let mut made = Footprint { low: 0, high: element, element, axes: SmallVec::new() };
        for (extent, stride) in axes {
            if extent == 0 {
                return Footprint { low: 0, high: 0, element, axes: SmallVec::new() };
            }
            let extent = isize::try_from(extent).unwrap_or(isize::MAX);
            let reach = (extent - 1).saturating_mul(stride);
            made.low = made.low.saturating_add(reach.min(0));
            made.high = made.high.saturating_add(reach.max(0));
            if extent > 1 {
                made.axes.push((extent, stride));
            }
        }
        made
    }

    fn is_empty(&self) -> bool {
        self.high == self.low
    }

    /// Whether sums of the offsets of two such blocks may exceed their type.
    fn is_huge(&self) -> bool {
        const MOST: isize = isize::MAX / 8;
        self.low < -MOST || self.high > MOST
    }

    /// Whether this block at the address `mine` and `other` at `theirs` may have an element in common. `true` also if
    /// the search takes too long.
    pub(crate) fn meets(&self, mine: usize, other: &Footprint, theirs: usize) -> bool {
        if self.is_empty() || other.is_empty() {
            return false;
        }
        let apart = theirs as i128 - mine as i128;
        let hulls_meet = apart + (other.low as i128) < self.high as i128
            && (self.low as i128) < apart + other.high as i128;
        if !hulls_meet || self.is_huge() || other.is_huge() {
            return hulls_meet;
        }
        // Less than the size of both hulls.
        let apart = apart as isize;
        // The distance from an element of this block to one of the other is `apart` and a multiple of each stride.
        let mut terms: SmallVec<[Term; 12]> = SmallVec::new();
        let mut add = |stride: isize, steps: isize| {
            let (stride, steps) = (stride.abs(), if stride < 0 { -steps } else { steps });
            let (least, most) = (steps.min(0), steps.max(0));
            match terms.iter_mut().find(|term| term.stride == stride) {
                Some(term) => {
                    term.least += least;
                    term.most += most;
                }
                None => terms.push(Term { stride, least, most }),
            }
        };
        for &(extent, stride) in &other.axes {
            add(stride, extent - 1);
        }
        for &(extent, stride) in &self.axes {
            add(stride, 1 - extent);
        }
        terms.sort_unstable_by_key(|term| -term.stride);
        let mut steps = MOST_STEPS;
        reaches(apart, &terms, (1 - other.element, self.element - 1), &mut steps)
    }
}

/// Multiples of a stride.
struct Term {
    stride: isize,
    least: isize,
    most: isize,
}

/// Whether `from`, with a multiple of each term, can be within `range`.
fn reaches(from: isize, terms: &[Term], range: (isize, isize), steps: &mut u32) -> bool {
    let Some((term, others)) = terms.split_first() else { return (range.0..=range.1).contains(&from) };
    let least: isize = others.iter().map(|term| term.least * term.stride).sum();
    let most: isize = others.iter().map(|term| term.most * term.stride).sum();
    if term.stride == 0 {
        return reaches(from, others, range, steps);
    }
    // The multiples after which the others can still get there.
    let first = (range.0 - from - most).div_euclid(term.stride).max(term.least - 1);
    let last = (range.1 - from - least).div_euclid(term.stride).min(term.most);
    for multiple in first.max(term.least)..=last {
        *steps = steps.saturating_sub(1);
        if *steps == 0 || reaches(from + multiple * term.stride, others, range, steps) {
            return true;
        }
    }
    false
}

/// The addresses of the first elements of blocks.
pub(crate) type Addresses = SmallVec<[usize; 24]>;

static IN_FLIGHT: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

struct Entry {
    number: u64,
    blocks: Arc<Blocks>,
}

/// Blocks of cells where they are in memory.
#[derive(Debug)]
pub(crate) struct Blocks {
    pub(crate) addresses: Addresses,
    pub(crate) footprints: Arc<[Footprint]>,
}

/// The memory of one exchange in flight, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    number: u64,
}

impl Claim {
    /// Claims the memory of these blocks. `Err` is the number of a block that an exchange in flight uses.
    pub(crate) fn new(blocks: &Arc<Blocks>) -> Result<Claim, usize> {
        let mut entries = in_flight();
        for entry in entries.iter() {
            for (index, (mine, footprint)) in blocks.each().enumerate() {
                if entry.blocks.each().any(|(theirs, other)| footprint.meets(mine, other, theirs)) {
                    return Err(index);
                }
            }
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        entries.push(Entry { number, blocks: Arc::clone(blocks) });
        Ok(Claim { number })
    }
}

impl Blocks {
    fn each(&self) -> impl Iterator<Item = (usize, &Footprint)> {
        self.addresses.iter().copied().zip(self.footprints.iter())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut entries = in_flight();
        if let Some(place) = entries.iter().position(|entry| entry.number == self.number) {
            entries.swap_remove(place);
        }
    }
}

fn in_flight() -> MutexGuard<'static, Vec<Entry>> {
    IN_FLIGHT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two of these blocks that have an element in common, the lower number first.
pub(crate) fn first_overlap(addresses: &Addresses, footprints: &[Footprint]) -> Option<(usize, usize)> {
    // By the lowest byte: usually each block ends before the next one begins.
    let mut hulls: SmallVec<[(i128, i128, u32); 24]> = addresses
        .iter()
        .zip(footprints)
        .enumerate()
        .filter(|(_, (_, footprint))| !footprint.is_empty())
        .map(|(index, (&address, footprint))| {
            (address as i128 + footprint.low as i128, address as i128 + footprint.high as i128, index as u32)
        })
        .collect();
    hulls.sort_unstable_by_key(|&(low, ..)| low);
    let mut highest = i128::MIN;
    for (place, &(low, high, index)) in hulls.iter().enumerate() {
        let before = if highest > low { &hulls[..place] } else { &[] };
        highest = highest.max(high);
        for &(_, _, other) in before.iter().filter(|(_, end, _)| *end > low) {
            let (one, other) = (index.min(other) as usize, index.max(other) as usize);
            if footprints[one].meets(addresses[one], &footprints[other], addresses[other]) {
                return Some((one, other));
            }
        }
    }
    None
}
