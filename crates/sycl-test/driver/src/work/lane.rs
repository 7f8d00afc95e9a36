//! A queue of the device, with the thread that does its work.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::event::{Ring, now, until};
use super::job::Job;
use crate::lock::locked;
use crate::settings::{Fault, settings};
use crate::status::{DEVICE_LOST, NOT_READY, Status};

/// A queue. Its thread ends when it is dropped and its work has been done.
#[derive(Debug)]
pub(crate) struct Lane(Arc<Bell>);

/// What a queue and its thread share. The thread is woken by ringing.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    /// For the thread.
    rung: Condvar,
    /// For the host.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pending: VecDeque<Arc<Job>>,
    running: bool,
    rung: bool,
    closed: bool,
    failed: Option<Status>,
}

impl Lane {
    pub(crate) fn new() -> Lane {
        static NUMBER: AtomicU64 = AtomicU64::new(0);

        let bell = Arc::<Bell>::default();
        let (shared, number) = (Arc::clone(&bell), NUMBER.fetch_add(1, Ordering::Relaxed));
        // Each queue of a seed has numbers of its own.
        let seed = settings().seed ^ number.rotate_left(32);
        thread::spawn(move || serve(&shared, &mut StdRng::seed_from_u64(seed)));
        Lane(bell)
    }

    pub(crate) fn push(&self, job: Arc<Job>) {
        if settings().has(Fault::Events)
            && let Some(signal) = &job.signal
        {
            signal.reach([now(); 2]);
        }
        locked(&self.0.state).pending.push_back(job);
        self.0.ring();
    }

    /// Waits for that number of nanoseconds until all work has been done.
    pub(crate) fn wait(&self, nanoseconds: u64) -> Result<(), Status> {
        let end = until(nanoseconds);
        let mut state = locked(&self.0.state);
        while state.running || !state.pending.is_empty() {
            let left =
                end.map_or(Duration::from_secs(1), |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(NOT_READY);
            }
            state = self.0.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.failed.map_or(Ok(()), Err)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        locked(&self.0.state).closed = true;
        self.0.ring();
    }
}

impl Ring for Bell {
    fn ring(&self) {
        locked(&self.state).rung = true;
        self.rung.notify_one();
    }
}

/// Does the work of a queue until it is closed.
fn serve(bell: &Arc<Bell>, random: &mut StdRng) {
    let ring: Arc<dyn Ring> = Arc::clone(bell) as _;
    let mut opencl = None;
    let mut state = locked(&bell.state);
    loop {
        state.rung = false;
        if let Some(job) = state.choose(random) {
            state.running = true;
            drop(state);
            let delay = settings().delay;
            if !delay.is_zero() {
                thread::sleep(random.random_range(Duration::ZERO..delay));
            }
            let done =
                catch_unwind(AssertUnwindSafe(|| job.work.run(&mut opencl))).unwrap_or(Err(DEVICE_LOST));
            if let Some(signal) = &job.signal {
                signal.reach(done.unwrap_or_else(|_| [now(); 2]));
            }
            // A launch keeps its kernel alive, whose end takes time.
            drop(job);
            state = locked(&bell.state);
            state.running = false;
            if done.is_err() {
                state.failed = Some(DEVICE_LOST);
            }
            if state.pending.is_empty() {
                bell.done.notify_all();
            }
        } else if state.pending.is_empty() && state.closed {
            return;
        } else {
            let waits: Vec<_> = state.eligible().flat_map(|(_, job)| job.waits.iter().cloned()).collect();
            // A point that is reached rings the bell, which takes the lock.
            drop(state);
            waits.iter().filter(|wait| wait.reached().is_none()).for_each(|wait| wait.tell(&ring));
            state = locked(&bell.state);
            // Points that were reached before have not rung the bell.
            while !state.rung && state.ready().is_empty() {
                state = bell.rung.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl State {
    /// Takes one of the commands that may be done now.
    fn choose(&mut self, random: &mut StdRng) -> Option<Arc<Job>> {
        let ready = self.ready();
        let number = match ready.as_slice() {
            [] => return None,
            [only] => *only,
            several => several[random.random_range(0..several.len())],
        };
        self.pending.remove(number)
    }

    /// The numbers of the commands that may be done now.
    fn ready(&self) -> Vec<usize> {
        let without = settings().has(Fault::Waits);
        self.eligible()
            .filter(|(_, job)| without || job.waits.iter().all(|wait| wait.reached().is_some()))
            .map(|(number, _)| number)
            .collect()
    }

    /// The commands that no earlier one holds back, with their numbers: the first one, and those up to the next one that
    /// is ordered.
    fn eligible(&self) -> impl Iterator<Item = (usize, &Arc<Job>)> {
        let unordered = self.pending.iter().take_while(|job| !job.ordered).count();
        self.pending.iter().enumerate().take(unordered.max(1))
    }
}
