//! The thread that drives exchanges of asynchronous devices, so that the host need not wait for them.
//!
//! There is one for each process, begun when it is first needed. It sees that packing is done and sends, that messages
//! have come and opens gates; it uses no core while nothing is in flight. What happens in these steps is the engine's
//! matter: the thread does what any call that waits does.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::callback::panic_text;

/// Who drives exchanges of asynchronous devices between `start` and the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// A thread of the process where the transport may be called from it, else the caller; said once in the log.
    #[default]
    Auto,
    /// A thread of the process.
    Thread,
    /// The calls of the program alone: those that wait, and
    /// [`Communicator::progress`](crate::Communicator::progress). `finish` on a stream then waits until all messages have
    /// come, for want of somebody who opens its gate.
    Caller,
}

/// What the thread drives: the exchanges of a rank.
pub(crate) trait Driven: Send + Sync {
    /// Makes whatever progress can be made now. Does not block.
    fn drive(&self);
    /// Whether nothing is in flight.
    fn is_idle(&self) -> bool;
}

/// Rounds after the last call of a rank in which the thread only lets others run first, and how long it sleeps between
/// later ones: about what waking it up takes.
const YIELDS: u32 = 100;
const SLEEP: Duration = Duration::from_micros(50);

/// The thread's work.
static THREAD: Driver =
    Driver { state: Mutex::new(State { ranks: Vec::new(), calls: 0, running: false }), wake: Condvar::new() };

struct Driver {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    /// Those with something in flight.
    ranks: Vec<Arc<dyn Driven>>,
    /// How often a rank has come here.
    calls: u64,
    running: bool,
}

/// Has the thread drive `rank` until nothing of it is in flight. `false` where the system gives no thread.
pub(crate) fn drive(rank: Arc<dyn Driven>) -> bool {
    let mut state = THREAD.lock();
    if !state.running {
        let spawned = thread::Builder::new().name("haloport-progress".into()).spawn(run);
        if let Err(error) = spawned {
            tracing::warn!(%error, "there is no thread for progress: `finish` waits for messages");
            return false;
        }
        state.running = true;
    }
    if !state.ranks.iter().any(|known| Arc::ptr_eq(known, &rank)) {
        state.ranks.push(rank);
    }
    state.calls += 1;
    THREAD.wake.notify_one();
    true
}

thread_local! {
    /// Whether this is the thread.
    static DRIVES: Cell<bool> = const { Cell::new(false) };
}

/// Drives all ranks if this is the thread, which waits for one of them. Exchanges that are being driven already are left
/// alone.
pub(crate) fn drive_meanwhile() {
    if DRIVES.get() {
        let ranks = THREAD.lock().ranks.clone();
        ranks.iter().for_each(|rank| rank.drive());
    }
}

/// Whatever ends the thread, the next call begins another.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        THREAD.lock().running = false;
    }
}

fn run() {
    let _running = Running;
    DRIVES.set(true);
    let mut ranks = Vec::new();
    let (mut round, mut calls) = (0, 0);
    loop {
        let new_calls = THREAD.wait_for_ranks(&mut ranks, round >= YIELDS);
        round = if new_calls == calls { round.saturating_add(1) } else { 0 };
        calls = new_calls;
        ranks.iter().for_each(drive_safely);
        thread::yield_now();
    }
}

/// Drives a rank, whose exchanges fail by themselves where their progress panics. Should more than that panic, the thread
/// goes on without the rank, until that calls again.
fn drive_safely(rank: &Arc<dyn Driven>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| rank.drive())) {
        tracing::error!("the thread for progress lets go of a rank that panicked: {}", panic_text(&*panic));
        THREAD.lock().ranks.retain(|known| !Arc::ptr_eq(known, rank));
    }
}

impl Driver {
    /// Lets go of ranks that have nothing in flight, waits until one has, `at_ease` a little in any case, and gives them,
    /// with the number of calls.
    fn wait_for_ranks(&self, ranks: &mut Vec<Arc<dyn Driven>>, at_ease: bool) -> u64 {
        let mut state = self.lock();
        if at_ease {
            state = self.wake.wait_timeout(state, SLEEP).unwrap_or_else(PoisonError::into_inner).0;
        }
        loop {
            // A rank puts its exchange in flight before it comes here, so none is missed.
            state.ranks.retain(|rank| !rank.is_idle());
            if !state.ranks.is_empty() {
                break;
            }
            ranks.clear();
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        ranks.clone_from(&state.ranks);
        state.calls
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
