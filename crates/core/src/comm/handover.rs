//! The distance between the cores of two ranks of a node, which they measure once.
//!
//! A cache line that one core writes and another one reads goes back to its writer before the next write. That takes 4
//! to 12 ns between cores that share a cache, and 25 to 40 ns between others (`docs/measurements`, 2026-11-27), and
//! systems and virtual machines need not tell which cores are which. Whether cells arrive sooner packed or copied
//! directly depends on it.
//!
//! A rank invites others ([`Invitations`]) with a token of memory that both reach. Then each pair meets: the lower rank
//! writes lines that the other one reads in turn, 15 times, and both learn the median time of a write. Nobody waits for
//! long: if one of them does not come or is interrupted, for example because there are fewer cores than ranks, nothing is
//! known of this pair.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::transport::{Lease, Reach, SharedMemory, Transport, TransportError};

/// Lines that are written and read: with 128, some measurements between far cores found a third of the time.
const LINES: usize = 512;

/// Words of 8 bytes in a line.
const WORDS: usize = 8;

/// How often they are written.
const TIMES: u64 = 15;

/// The words of a meeting, each on two lines of its own: whether both ranks are there, whose turn it is, and the result.
const PRESENCE: usize = 0;
const TURN: usize = 16;
const RESULT: usize = 32;

/// The first word that is written and read, and the number of all words.
const FIRST: usize = 48;
const ALL: usize = FIRST + LINES * WORDS;

/// How long a rank waits for the other one to come, and how long a measurement may take, which takes about 0.1 to 0.4 ms.
const PATIENCE: Duration = Duration::from_millis(2);

/// The values of the word of presence; 0 at first.
const NOBODY: u64 = 0;
const ONE: u64 = 1;
const BOTH: u64 = 2;
const LEFT: u64 = 3;

/// For other ranks of the node, the time in nanoseconds in which a line that one of the two has read is written by the
/// other; `None` if it could not be measured.
#[derive(Default)]
pub(crate) struct Handovers(Mutex<BTreeMap<usize, Option<f64>>>);

impl Handovers {
    /// The time for `peer`; `None` if it is not known.
    pub(crate) fn of(&self, peer: usize) -> Option<f64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&peer).copied().flatten()
    }

    /// Whether nobody has tried to measure it for `peer`.
    fn is_new(&self, peer: usize) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&peer)
    }

    fn set(&self, peer: usize, time: Option<f64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(peer, time);
    }
}

/// The ranks that this rank has invited, each with the memory for the meeting, and what keeps its token valid.
#[derive(Default)]
pub(crate) struct Invitations(BTreeMap<usize, (Memory, Box<dyn Any + Send + Sync>)>);

impl Invitations {
    /// Invites `peer`, another thread of this process or another process of this node, unless there was a meeting or no memory
    /// is left. Returns the token that it needs.
    pub(crate) fn invite(
        &mut self,
        known: &Handovers,
        transport: &dyn Transport,
        peer: usize,
    ) -> Option<Vec<u8>> {
        if !known.is_new(peer) {
            return None;
        }
        let (memory, token, valid) = if are_threads(transport) {
            let (words, token, listed) = Words::listed();
            (Memory::OfThreads(words), token, Box::new(listed) as _)
        } else {
            let Lease { memory, token, name } = transport.share(ALL * size_of::<u64>())?;
            (Memory::OfProcesses(memory), token, name)
        };
        self.0.insert(peer, (memory, valid));
        Some(token)
    }

    /// Meets the ranks that were invited, and those that have invited this rank with `tokens`. All ranks do so at about the
    /// same time. Takes below 0.5 ms for each rank that comes, and at most twice [`PATIENCE`] for any other.
    ///
    /// # Errors
    /// A token from a rank that does not exist.
    pub(crate) fn meet(
        mut self,
        known: &Handovers,
        transport: &dyn Transport,
        mut tokens: BTreeMap<usize, Vec<u8>>,
    ) -> Result<(), TransportError> {
        let me = transport.rank();
        let peers: BTreeSet<usize> = self.0.keys().chain(tokens.keys()).copied().collect();
        let mut peers: Vec<usize> = peers.into_iter().collect();
        // Ranks whose numbers differ in the same bits form pairs, so that hardly any waits for two that meet each other.
        peers.sort_by_key(|peer| peer ^ me);
        for peer in peers {
            // Kept until both have met, as long as the token has to be valid.
            let own = self.0.remove(&peer);
            // Of two invitations, that of the lower rank counts.
            let token = tokens.remove(&peer).filter(|_| own.is_none() || peer < me);
            let theirs = token.map(|token| Memory::of_token(transport, peer, &token)).transpose()?;
            let memory = theirs.as_ref().map_or(own.as_ref().map(|(memory, _)| memory), Option::as_ref);
            let time = memory.and_then(|memory| measure(memory, me < peer));
            tracing::debug!(rank = me, peer, nanoseconds = ?time, "the time in which a cache line comes back");
            known.set(peer, time);
        }
        Ok(())
    }
}

/// Meets the other rank that has this memory. Returns the median time in nanoseconds in which the rank that `writes` has
/// written one line, the same for both; `None` if one of them came too late or was interrupted for too long.
fn measure(memory: &Memory, writes: bool) -> Option<f64> {
    let meeting = Meeting { words: memory.words()?, until: Instant::now() + PATIENCE };
    if !meeting.begin() {
        return None;
    }
    let meeting = Meeting { until: Instant::now() + PATIENCE, ..meeting };
    if writes { meeting.write() } else { meeting.read() }
}

/// Whether the ranks are threads of this process.
fn are_threads(transport: &dyn Transport) -> bool {
    transport.info().reach == Reach::Process
}

/// The memory of one meeting.
enum Memory {
    OfThreads(Arc<Words>),
    OfProcesses(SharedMemory),
}

/// The words of a meeting of threads.
#[repr(align(128))]
struct Words([AtomicU64; ALL]);

/// The words of meetings of threads that begin now, by number, and the next number.
static LISTED: Mutex<(BTreeMap<u64, Arc<Words>>, u64)> = Mutex::new((BTreeMap::new(), 0));

/// Words are listed as long as this exists.
struct Listed(u64);

impl Words {
    /// New words, a token by which other threads find them, and what keeps it valid.
    fn listed() -> (Arc<Words>, Vec<u8>, Listed) {
        let words = Arc::new(Words([const { AtomicU64::new(0) }; ALL]));
        let mut listed = LISTED.lock().unwrap_or_else(PoisonError::into_inner);
        let number = listed.1;
        listed.1 += 1;
        listed.0.insert(number, Arc::clone(&words));
        (words, number.to_ne_bytes().to_vec(), Listed(number))
    }

    /// The words that have this token; `None` if they are listed no more.
    fn of_token(token: &[u8]) -> Option<Arc<Words>> {
        let number = u64::from_ne_bytes(token.try_into().ok()?);
        LISTED.lock().unwrap_or_else(PoisonError::into_inner).0.get(&number).cloned()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        LISTED.lock().unwrap_or_else(PoisonError::into_inner).0.remove(&self.0);
    }
}

impl Memory {
    /// The memory to which `peer` has invited this rank; `None` if it is gone.
    fn of_token(
        transport: &dyn Transport,
        peer: usize,
        token: &[u8],
    ) -> Result<Option<Memory>, TransportError> {
        if are_threads(transport) {
            return Ok(Words::of_token(token).map(Memory::OfThreads));
        }
        Ok(transport.map(peer, token)?.map(Memory::OfProcesses))
    }

    /// The words of the meeting, which were all 0; `None` if the memory is too short.
    fn words(&self) -> Option<&[AtomicU64]> {
        match self {
            Memory::OfThreads(words) => Some(&words.0),
            Memory::OfProcesses(memory) => {
                let begin = memory.pointer().as_ptr().cast::<AtomicU64>();
                // SAFETY: the length is checked, so the bytes are shared, initialised, readable, writable and aligned as
                // long as the memory lives. Both processes access them as atomics alone.
                let words = || unsafe { std::slice::from_raw_parts(begin, ALL) };
                memory.covers(0..ALL * size_of::<u64>()).then(words)
            }
        }
    }
}

/// One rank at a meeting, and the time until which it waits.
struct Meeting<'m> {
    words: &'m [AtomicU64],
    until: Instant,
}

impl Meeting<'_> {
    /// Waits for the other rank. Returns `false` if it does not come, or has left.
    fn begin(&self) -> bool {
        let presence = &self.words[PRESENCE];
        let change = |from, to| presence.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        match change(NOBODY, ONE) {
            Ok(_) => self.wait(|| presence.load(Ordering::Acquire) == BOTH) || change(ONE, LEFT) == Err(BOTH),
            Err(_) => change(ONE, BOTH).is_ok(),
        }
    }

    /// Writes the lines whenever it is this rank's turn.
    fn write(&self) -> Option<f64> {
        let mut nanoseconds = Vec::with_capacity(TIMES as usize);
        for time in 0..TIMES {
            self.await_turn(2 * time)?;
            let begin = Instant::now();
            self.words[FIRST..].iter().for_each(|word| word.store(time, Ordering::Relaxed));
            // No write is under way any more.
            fence(Ordering::SeqCst);
            nanoseconds.push(begin.elapsed().as_nanos() as f64 / LINES as f64);
            self.end_turn(2 * time);
        }
        nanoseconds.sort_by(f64::total_cmp);
        let median = nanoseconds[nanoseconds.len() / 2];
        self.await_turn(2 * TIMES)?;
        self.words[RESULT].store(median.to_bits(), Ordering::Relaxed);
        self.end_turn(2 * TIMES);
        Some(median)
    }

    /// Reads the lines whenever it is this rank's turn, and then the result.
    fn read(&self) -> Option<f64> {
        for time in 0..TIMES {
            self.await_turn(2 * time + 1)?;
            self.words[FIRST..].iter().step_by(WORDS).for_each(|word| {
                std::hint::black_box(word.load(Ordering::Relaxed));
            });
            self.end_turn(2 * time + 1);
        }
        self.await_turn(2 * TIMES + 1)?;
        Some(f64::from_bits(self.words[RESULT].load(Ordering::Relaxed)))
    }

    /// Waits for this turn; `None` if it does not come.
    fn await_turn(&self, turn: u64) -> Option<()> {
        self.wait(|| self.words[TURN].load(Ordering::Acquire) == turn).then_some(())
    }

    /// Gives the next turn to the other rank.
    fn end_turn(&self, turn: u64) {
        self.words[TURN].store(turn + 1, Ordering::Release);
    }

    /// Waits until `done`; returns `false` if that takes too long.
    fn wait(&self, done: impl Fn() -> bool) -> bool {
        let mut round = 0_u32;
        while !done() {
            std::hint::spin_loop();
            round = round.wrapping_add(1);
            if round.is_multiple_of(64) {
                if Instant::now() > self.until {
                    return false;
                }
                // Where the other rank has the same core.
                std::thread::yield_now();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Pointer;

    #[test]
    fn both_ranks_learn_one_time() {
        // On a busy machine, single meetings may fail.
        let met = (0..200).any(|_| {
            let (ours, token, _listed) = Words::listed();
            let theirs = Words::of_token(&token).expect("listed");
            let reader = std::thread::spawn(move || measure(&Memory::OfThreads(theirs), false));
            let written = measure(&Memory::OfThreads(ours), true);
            let read = reader.join().expect("no panic");
            written.is_some_and(|time| {
                assert!(time > 0.0 && read.is_none_or(|read| read == time), "{read:?} and {time}");
                read.is_some()
            })
        });
        assert!(met, "no meeting in 200 attempts");
    }

    #[test]
    fn nobody_waits_long_for_a_rank_that_stays_away() {
        let memory = Memory::OfThreads(Words::listed().0);
        assert_eq!(measure(&memory, true), None);
        // The other one comes too late, and does not wait at all.
        assert_eq!(measure(&memory, false), None);
        assert_eq!(memory.words().expect("long enough")[PRESENCE].load(Ordering::Relaxed), LEFT);
    }

    #[test]
    fn memory_that_is_gone_or_too_short_is_refused() {
        let (words, token, listed) = Words::listed();
        drop(listed);
        assert!(Words::of_token(&token).is_none() && Words::of_token(&[]).is_none());
        let (begin, bytes) = (Pointer::new(words.0.as_ptr().cast_mut().cast()), 4096);
        // SAFETY: the first of the words, which are initialised and aligned and live as long as their owner.
        let short = unsafe { SharedMemory::new(begin, bytes, std::iter::once(0..bytes), Box::new(words)) };
        assert_eq!(measure(&Memory::OfProcesses(short), true), None);
    }
}
