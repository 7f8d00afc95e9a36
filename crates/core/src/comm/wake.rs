//! When a future that waits for other ranks is polled again.
//!
//! Nothing tells a rank that a message has come: polling finds out. A future asks to be polled again at once a few
//! times, since most messages come soon. Then a thread of the process wakes it after pauses that grow, so that its
//! executor has the core meanwhile. The thread calls no transport, so it may run under any thread level of MPI.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use crate::callback::panic_text;
use crate::log;

/// The polls that follow each other at once.
const AT_ONCE: u32 = 16;
/// The first pause after them.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
/// The number of times that the pause doubles: to 1.28 ms.
const DOUBLINGS: u32 = 6;
/// The number of polls with the same pause.
const POLLS_PER_PAUSE: u32 = 8;

/// The pauses of one future.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    polls: u32,
}

impl Pauses {
    /// Lets `waker` be woken after the next pause. Does not block.
    pub(crate) fn wake_later(&mut self, waker: &Waker) {
        let polls = self.polls;
        self.polls = polls.saturating_add(1);
        let Some(paused) = polls.checked_sub(AT_ONCE) else {
            waker.wake_by_ref();
            return;
        };
        let pause = FIRST_PAUSE * (1 << (paused / POLLS_PER_PAUSE).min(DOUBLINGS));
        SLEEPERS.add(Instant::now() + pause, waker);
    }
}

/// The futures that wait for the end of their pauses.
static SLEEPERS: Sleepers =
    Sleepers { state: Mutex::new(State { due: Vec::new(), running: false }), changed: Condvar::new() };

struct Sleepers {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    due: Vec<(Instant, Waker)>,
    running: bool,
}

impl Sleepers {
    fn add(&'static self, at: Instant, waker: &Waker) {
        let mut state = self.lock();
        if !state.running {
            let spawned = thread::Builder::new().name("haloport-wake".into()).spawn(|| self.run());
            if spawned.is_err() {
                // Without the thread the future is polled again at once.
                drop(state);
                waker.wake_by_ref();
                return;
            }
            state.running = true;
        }
        state.due.push((at, waker.clone()));
        self.changed.notify_one();
    }

    fn run(&self) {
        let mut now_due = Vec::new();
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            now_due.extend(state.due.extract_if(.., |(at, _)| *at <= now).map(|(_, waker)| waker));
            if !now_due.is_empty() {
                drop(state);
                now_due.drain(..).for_each(wake_safely);
                state = self.lock();
                continue;
            }
            let next = state.due.iter().map(|(at, _)| *at).min();
            state = match next {
                Some(next) => {
                    let waited = self.changed.wait_timeout(state, next.saturating_duration_since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a future. If its executor panics, the other futures are still woken.
fn wake_safely(waker: Waker) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        log::error(format_args!("the waker of a future panicked: {}", panic_text(&*panic)));
    }
}
