//! The data that the ranks of one process share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::collective::Collective;
use super::mail::Mail;
use super::pipe::{Outcome, Pipe};
use crate::device::MemoryRange;
use crate::lock::lock;
use crate::transport::{Direction, TransportError, Window};

/// The rounds of a wait in which a rank with a core of its own spins, and the later ones in which it yields its core. A
/// round takes about 0.1 µs, with the polling in it.
const OWN_CORE: (u32, u32) = (200, 400);
/// The same for ranks that share cores. A rank that spins delays the others; beside another program, each yield may
/// last as long as that program's turn, so the rank soon sleeps.
const SHARED_CORE: (u32, u32) = (1, 24);
/// The time for which a rank with a core of its own then sleeps in each round, unless another rank wakes it; devices
/// wake no rank. If several ranks share a core, the time is longer: polling takes at most a tenth of a core's time.
const NAP: Duration = Duration::from_micros(50);

/// The key of channels and windows of two ranks: sender, receiver and tag.
pub(super) type Address = (usize, usize, u32);

#[derive(Debug)]
pub(crate) struct World {
    wakeups: Vec<CachePadded<Wakeup>>,
    /// At least the number of ranks that sleep.
    sleepers: CachePadded<AtomicUsize>,
    /// The first rank that failed, and why.
    failed: OnceLock<(usize, String)>,
    /// The ranks whose transport was dropped.
    ended: Vec<AtomicBool>,
    ended_count: AtomicUsize,
    pipes: Mutex<HashMap<Address, Arc<Pipe>>>,
    windows: Mutex<HashMap<Address, Arc<Window>>>,
    pub(super) collective: Collective,
    pub(super) mail: Mail,
    /// Whether ranks outnumber the cores that this process may use.
    pub(super) crowded: bool,
    /// The rounds of a wait in which a rank spins, and those in which it then yields.
    rounds: (u32, u32),
    /// The longest sleep in a later round.
    nap: Duration,
}

/// Wakes a rank that sleeps.
#[derive(Debug, Default)]
struct Wakeup {
    /// Whether the rank sleeps, or polls for the last time before it sleeps. A call that finds the flag set resets it.
    asleep: AtomicBool,
    lock: Mutex<()>,
    woken: Condvar,
}

impl World {
    pub(crate) fn new(size: usize) -> World {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let crowded = size > cores;
        World {
            wakeups: (0..size).map(|_| CachePadded::default()).collect(),
            sleepers: CachePadded::default(),
            failed: OnceLock::new(),
            ended: (0..size).map(|_| AtomicBool::new(false)).collect(),
            ended_count: AtomicUsize::new(0),
            pipes: Mutex::default(),
            windows: Mutex::default(),
            collective: Collective::new(size),
            mail: Mail::new(size),
            crowded,
            rounds: if crowded { SHARED_CORE } else { OWN_CORE },
            nap: NAP * size.div_ceil(cores) as u32,
        }
    }

    pub(super) fn size(&self) -> usize {
        self.wakeups.len()
    }

    /// Marks a rank as failed, unless another failed before, and wakes all ranks.
    pub(crate) fn fail(&self, rank: usize, why: String) {
        // A later failure is a consequence of the first, or its own rank reports it.
        let _ = self.failed.set((rank, why));
        self.wake_all();
    }

    pub(crate) fn failure(&self) -> Option<&(usize, String)> {
        self.failed.get()
    }

    /// Marks a rank as ended, once, and wakes all ranks. The rank sends nothing after this.
    pub(super) fn end(&self, rank: usize) {
        if !self.ended[rank].swap(true, Ordering::SeqCst) {
            self.ended_count.fetch_add(1, Ordering::SeqCst);
            self.wake_all();
        }
    }

    /// Whether a rank has ended. If so, all that it sent can be received.
    pub(super) fn has_ended(&self, rank: usize) -> bool {
        self.ended[rank].load(Ordering::SeqCst)
    }

    /// The ranks that have ended, in ascending order.
    pub(super) fn ended(&self) -> Vec<usize> {
        if self.ended_count.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        (0..self.size()).filter(|&rank| self.has_ended(rank)).collect()
    }

    pub(super) fn wake(&self, rank: usize) {
        self.wakeups[rank].call(&self.sleepers);
    }

    pub(super) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        // A rank that is not counted yet polls once more.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            (0..self.size()).for_each(|rank| self.wake(rank));
        }
    }

    /// Waits a little, or until `rank` is woken.
    pub(super) fn relax(&self, rank: usize, round: u32) -> Result<(), TransportError> {
        if let Some((failed, why)) = self.failure()
            && *failed != rank
        {
            return Err(TransportError::PeerFailed { rank: *failed, why: why.clone() });
        }
        let (spins, yields) = self.rounds;
        if round < spins {
            std::hint::spin_loop();
        } else if round - spins < yields {
            std::thread::yield_now();
        } else {
            self.wakeups[rank].sleep(&self.sleepers, self.nap);
        }
        Ok(())
    }

    /// Opens one end of the pipe at `address`, which exists until both ends are closed.
    pub(super) fn open_pipe(
        &self,
        address: Address,
        direction: Direction,
        parts: &[MemoryRange],
    ) -> (Arc<Pipe>, Outcome) {
        let mut pipes = lock(&self.pipes);
        let pipe = Arc::clone(pipes.entry(address).or_default());
        let outcome = pipe.open(direction, parts);
        (pipe, outcome)
    }

    /// Closes one end of a pipe, under the lock that opening takes, so that a pipe is not opened while it is removed.
    pub(super) fn close_pipe(&self, address: Address, direction: Direction, pipe: &Pipe) {
        let mut pipes = lock(&self.pipes);
        if pipe.close(direction) {
            pipes.remove(&address);
        }
    }

    pub(super) fn publish(&self, address: Address, window: Arc<Window>) {
        lock(&self.windows).insert(address, window);
    }

    pub(super) fn attach(&self, address: Address) -> Option<Arc<Window>> {
        lock(&self.windows).remove(&address)
    }
}

impl Wakeup {
    /// Sleeps until the next call, but at most for `nap`. The first time, and the first time after each call, it returns at
    /// once: what happened before the flag was set is found by the poll that follows, and what happens later resets it.
    /// Counts among the sleepers from then until a call.
    fn sleep(&self, sleepers: &AtomicUsize, nap: Duration) {
        if !self.asleep.load(Ordering::SeqCst) {
            // Counted first: a call that finds no sleeper comes before the poll that follows. Two threads of a rank may
            // both count; too many do no harm.
            sleepers.fetch_add(1, Ordering::SeqCst);
            self.asleep.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            return;
        }
        let guard = lock(&self.lock);
        if self.asleep.load(Ordering::SeqCst) {
            // Woken by a call or by the clock: the caller polls again in both cases.
            let _ = self.woken.wait_timeout(guard, nap);
        }
    }

    /// Wakes the rank, after the change that it waits for.
    fn call(&self, sleepers: &AtomicUsize) {
        fence(Ordering::SeqCst);
        // Most ranks are awake: a read alone leaves the line in their caches.
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            sleepers.fetch_sub(1, Ordering::SeqCst);
            let _guard = lock(&self.lock);
            self.woken.notify_all();
        }
    }
}
