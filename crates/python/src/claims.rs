//! The memory that exchanges in flight use, so that none uses what another one writes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

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
    /// Whether exchanges only read it.
    is_read: bool,
}

/// The most steps of a search for two elements at one address. Blocks of usual layouts need a few.
const MOST_STEPS: u32 = 10_000;

impl Footprint {
    /// The footprint of elements of `element` bytes along axes with these extents and strides in bytes. `is_read`: exchanges
    /// only read it.
    pub(crate) fn new(
        element: usize,
        axes: impl IntoIterator<Item = (usize, isize)>,
        is_read: bool,
    ) -> Footprint {
        let element = element as isize;
        let mut made = Footprint { low: 0, high: element, element, axes: SmallVec::new(), is_read };
        for (extent, stride) in axes {
            if extent == 0 {
                return Footprint { low: 0, high: 0, element, axes: SmallVec::new(), is_read };
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

    /// Whether this block at the address `mine` and `other` at `theirs` may have an element in common that one of them
    /// writes. `true` also if the search takes too long.
    pub(crate) fn meets(&self, mine: usize, other: &Footprint, theirs: usize) -> bool {
        if self.is_empty() || other.is_empty() || (self.is_read && other.is_read) {
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

/// The claims of a plan, as many as it has exchanges in flight.
#[derive(Debug)]
pub(crate) struct Claims {
    footprints: Arc<[Footprint]>,
    /// Where the blocks of each lie, and the claim.
    made: Vec<(Addresses, Arc<Blocks>)>,
}

/// Blocks that no exchange may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Two of the same exchange have an element in common: their numbers, the lower one first.
    Overlap(usize, usize),
    /// An exchange in flight uses the block with this number.
    InFlight(usize),
}

/// The memory of one exchange in flight, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    blocks: Arc<Blocks>,
}

/// The blocks of one claim.
#[derive(Debug)]
struct Blocks {
    footprints: Arc<[Footprint]>,
    /// They change only while the blocks are not in flight.
    addresses: Mutex<Addresses>,
    in_flight: AtomicBool,
}

/// The number of exchanges in flight.
static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);
/// The blocks that exchanges can use.
static ALL: Mutex<Vec<Weak<Blocks>>> = Mutex::new(Vec::new());

impl Claims {
    pub(crate) fn new(footprints: Arc<[Footprint]>) -> Claims {
        Claims { footprints, made: Vec::new() }
    }

    /// Claims the blocks at these addresses.
    pub(crate) fn claim(&mut self, addresses: &Addresses) -> Result<Claim, Refused> {
        let at_rest = |(_, blocks): &(_, Arc<Blocks>)| !blocks.in_flight.load(Ordering::Acquire);
        let (known, blocks) = match self.made.iter().position(at_rest) {
            Some(place) => &mut self.made[place],
            None => {
                self.made.push((Addresses::new(), Blocks::listed(&self.footprints)));
                let last = self.made.len() - 1;
                &mut self.made[last]
            }
        };
        if known != addresses {
            if let Some((one, other)) = first_overlap(addresses, &self.footprints) {
                return Err(Refused::Overlap(one, other));
            }
            known.clone_from(addresses);
            lock(&blocks.addresses).clone_from(addresses);
        }
        blocks.take_off().map_err(Refused::InFlight)?;
        Ok(Claim { blocks: Arc::clone(blocks) })
    }
}

impl Blocks {
    fn listed(footprints: &Arc<[Footprint]>) -> Arc<Blocks> {
        let made = Blocks {
            footprints: Arc::clone(footprints),
            addresses: Mutex::default(),
            in_flight: AtomicBool::new(false),
        };
        let (made, mut all) = (Arc::new(made), lock(&ALL));
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&made));
        made
    }

    /// Marks the blocks as in flight. `Err` is the number of a block that another exchange in flight uses.
    fn take_off(&self) -> Result<(), usize> {
        // Usually nothing else is in flight. The mark comes first, so that a thread that finds the number above 0 also
        // finds the mark.
        self.in_flight.store(true, Ordering::Release);
        if IN_FLIGHT.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Ok(());
        }
        self.in_flight.store(false, Ordering::Release);
        // From here on, no thread takes the short way.
        let all = lock(&ALL);
        IN_FLIGHT.fetch_add(1, Ordering::AcqRel);
        let others = all.iter().filter_map(Weak::upgrade);
        match others
            .filter(|other| other.in_flight.load(Ordering::Acquire))
            .find_map(|other| self.first_in(&other))
        {
            Some(block) => {
                IN_FLIGHT.fetch_sub(1, Ordering::Release);
                Err(block)
            }
            None => {
                self.in_flight.store(true, Ordering::Release);
                Ok(())
            }
        }
    }

    /// The number of the first block that has an element in common with `other`.
    fn first_in(&self, other: &Blocks) -> Option<usize> {
        // One after the other: never both at once.
        let theirs = lock(&other.addresses).clone();
        let theirs = || theirs.iter().zip(other.footprints.iter());
        let addresses = lock(&self.addresses);
        let mut mine = addresses.iter().zip(self.footprints.iter());
        mine.position(|(&here, footprint)| {
            theirs().any(|(&there, other)| footprint.meets(here, other, there))
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.blocks.in_flight.store(false, Ordering::Release);
        IN_FLIGHT.fetch_sub(1, Ordering::Release);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
