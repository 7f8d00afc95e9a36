//! The progress thread, which polls exchanges on asynchronous devices so that the host need not wait for them, and those in host
//! memory and rounds of messages if the program asks for that.
//!
//! There is one for each process, started when it is first needed. When packing is done it sends; when messages have
//! arrived it opens gates. It uses no core while nothing is in flight. It does what any call that waits does: it drives
//! the engine.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::callback::panic_text;
use crate::log;

/// What makes progress with an exchange, or a round of messages, between its start and its end.
///
/// If data goes over a network, ask for `Thread`, or call [`is_ready`](crate::Pending::is_ready) between parts of the work: many MPI
/// libraries transfer large messages only within their calls, otherwise in `finish`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// For fields on asynchronous devices, a thread of the process, if it may call the transport; otherwise the caller, which
    /// is logged once. For fields in host memory and rounds of messages, the caller.
    #[default]
    Auto,
    /// A thread of the process, for fields in host memory and rounds of messages as well. It takes some of the time of a core.
    Thread,
    /// The calls of the program alone: those that wait, and [`Communicator::progress`](crate::Communicator::progress).
    /// `finish` on a stream then waits until all messages have arrived, since no thread opens its gate later.
    Caller,
}

/// The exchanges of a rank, as the thread polls them.
pub(crate) trait Driven: Send + Sync {
    /// Makes the progress that is possible now. Does not block.
    fn drive(&self);
    /// Whether nothing is in flight.
    fn is_idle(&self) -> bool;
}

/// The rounds after the last call of a rank in which the thread yields its core; in later rounds it sleeps.
const YIELDS: u32 = 100;
/// The sleep of a round: about as long as waking the thread takes.
const SLEEP: Duration = Duration::from_micros(50);

/// The thread of the process.
static THREAD: Driver =
    Driver { state: Mutex::new(State { ranks: Vec::new(), calls: 0, running: false }), wake: Condvar::new() };

struct Driver {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    /// The ranks with something in flight. The thread keeps none of them alive: a rank ends with its last handle.
    ranks: Vec<Weak<dyn Driven>>,
    /// The number of calls of [`drive`].
    calls: u64,
    running: bool,
}

/// Lets the thread poll `rank` until nothing of it is in flight. Returns `false` if the system starts no thread.
pub(crate) fn drive(rank: Arc<dyn Driven>) -> bool {
    let mut state = THREAD.lock();
    if !state.running {
        let spawned = thread::Builder::new().name("haloport-progress".into()).spawn(run);
        if let Err(error) = spawned {
            log::warning(format_args!(
                "the progress thread could not be started, so `finish` waits for messages: {error}"
            ));
            return false;
        }
        state.running = true;
    }
    let rank = Arc::downgrade(&rank);
    if !state.ranks.iter().any(|known| known.ptr_eq(&rank)) {
        state.ranks.push(rank);
    }
    state.calls += 1;
    THREAD.wake.notify_one();
    true
}

thread_local! {
    /// Whether this is the progress thread.
    static DRIVES: Cell<bool> = const { Cell::new(false) };
    /// The number of calls of [`drive_meanwhile`] that this thread is in, one within another.
    static MEANWHILE: Cell<usize> = const { Cell::new(0) };
}

/// Counts a call of [`drive_meanwhile`] while it exists.
struct Meanwhile;

impl Meanwhile {
    fn new() -> Meanwhile {
        MEANWHILE.set(MEANWHILE.get() + 1);
        Meanwhile
    }
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        MEANWHILE.set(MEANWHILE.get() - 1);
    }
}

/// Whether this thread polls while it waits for an exchange, whose lock it holds: no code of the program may run now.
pub(crate) fn is_meanwhile() -> bool {
    MEANWHILE.get() > 0
}

/// Whether this is the progress thread.
pub(crate) fn drives() -> bool {
    DRIVES.get()
}

/// On the progress thread, polls all ranks while it waits for one of them, except exchanges that are being polled. On
/// any other thread, does nothing. Completion callbacks are called later.
pub(crate) fn drive_meanwhile() {
    if drives() {
        let _meanwhile = Meanwhile::new();
        let ranks = THREAD.lock().ranks.clone();
        ranks.iter().filter_map(Weak::upgrade).for_each(|rank| rank.drive());
    }
}

/// On the progress thread, polls all ranks until `done`, as [`drive_meanwhile`] does. On any other thread, does nothing: the
/// progress thread opens gates while the caller waits.
pub(crate) fn drive_until(mut done: impl FnMut() -> bool) {
    while drives() && !done() {
        drive_meanwhile();
        thread::sleep(SLEEP);
    }
}

/// Notes the end of the thread, also by a panic, so that the next call starts another one.
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

/// Polls a rank. An exchange whose progress panics fails by itself; if anything else panics, the thread goes on without
/// the rank until its next call.
fn drive_safely(rank: &Arc<dyn Driven>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| rank.drive())) {
        log::error(format_args!(
            "the progress thread stops polling a rank whose progress panicked: {}",
            panic_text(&*panic)
        ));
        let rank = Arc::downgrade(rank);
        THREAD.lock().ranks.retain(|known| !known.ptr_eq(&rank));
    }
}

impl Driver {
    /// Waits until a rank has something in flight, with `at_ease` for at least [`SLEEP`] or a call. Puts handles of the ranks that
    /// have into `ranks`, and returns the number of calls.
    fn wait_for_ranks(&self, ranks: &mut Vec<Arc<dyn Driven>>, at_ease: bool) -> u64 {
        // Without the lock, here and below: a handle may be the last one of its rank, whose end runs code of others.
        ranks.clear();
        let mut state = self.lock();
        if at_ease {
            state = self.wake.wait_timeout(state, SLEEP).unwrap_or_else(PoisonError::into_inner).0;
        }
        loop {
            // A rank puts its exchange in flight before it comes here, so none is missed.
            state.ranks.retain(|rank| {
                let Some(rank) = rank.upgrade() else { return false };
                let goes_on = !rank.is_idle();
                ranks.push(rank);
                goes_on
            });
            if !state.ranks.is_empty() {
                return state.calls;
            }
            if ranks.is_empty() {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                drop(state);
                ranks.clear();
                state = self.lock();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
