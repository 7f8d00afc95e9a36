//! The progress engine: it polls all exchanges of a rank that are in flight, of any kind.
//!
//! Every call that waits for other ranks drives it, and so do `is_ready`, and the progress thread while an exchange on an
//! asynchronous device is in flight, or any if the program asks for that; `start` polls its own exchange, as does `finish`
//! first. It depends on the transport and on [`Served`] alone; fields and patterns do not depend on it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::callback::panic_text;
use crate::transport::Transport;

/// An exchange that makes progress when it is polled.
pub(crate) trait Served: Send + Sync {
    /// Makes the progress that is possible now. Does not block, unless this thread waits in `finish` of this exchange, and no
    /// other one of `engine` needs it or the progress thread polls them. Stores a failure for the call that waits.
    fn poll(&self, transport: &dyn Transport, engine: &Engine);
    /// Fails permanently, because its progress has panicked. The call that waits gets the error.
    fn give_up(&self, transport: &dyn Transport, why: String);
    /// Whether it can make progress. An exchange that has ended may stay in the engine until it starts again.
    fn is_under_way(&self) -> bool;
    /// Whether it holds up a stream by a gate.
    fn is_gated(&self) -> bool {
        false
    }
}

/// The exchanges of a rank.
#[derive(Default)]
pub(crate) struct Engine {
    /// Those in flight.
    active: Mutex<Vec<Arc<dyn Served>>>,
    count: AtomicUsize,
    /// All that were made, some of which may be gone.
    made: Mutex<Vec<Weak<dyn Served>>>,
}

impl Engine {
    /// Notes an exchange, for [`give_up_all`](Engine::give_up_all).
    pub(crate) fn note<S: Served + 'static>(&self, flight: &Arc<S>) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() == made.capacity() {
            made.retain(|other| other.strong_count() > 0);
            // So that exchanges are looked through once in as many as there are.
            let room = made.len().max(16);
            made.reserve(room);
        }
        made.push(Arc::downgrade(flight) as Weak<dyn Served>);
    }

    /// Makes all exchanges of the rank fail permanently, in flight or not: neighbours that wait for them fail, too.
    pub(crate) fn give_up_all(&self, transport: &dyn Transport, why: &str) {
        let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        made.iter().filter_map(Weak::upgrade).for_each(|flight| flight.give_up(transport, why.into()));
    }

    /// Adds an exchange, unless it is there already.
    pub(crate) fn add<S: Served + 'static>(&self, flight: &Arc<S>) {
        let mut active = self.lock();
        if !active.iter().any(|other| std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(flight))) {
            active.push(Arc::clone(flight) as Arc<dyn Served>);
        }
        self.count.store(active.len(), Ordering::Release);
    }

    /// Removes an exchange.
    pub(crate) fn remove<S: Served>(&self, flight: &Arc<S>) {
        let mut active = self.lock();
        active.retain(|other| !std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(flight)));
        self.count.store(active.len(), Ordering::Release);
    }

    /// Whether at most one exchange can make progress.
    pub(crate) fn has_one(&self) -> bool {
        let under_way = || self.lock().iter().filter(|flight| flight.is_under_way()).count();
        self.count.load(Ordering::Acquire) <= 1 || under_way() <= 1
    }

    /// Whether no exchange can make progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0 || !self.lock().iter().any(|flight| flight.is_under_way())
    }

    /// Whether any exchange holds up a stream by a gate.
    pub(crate) fn is_gated(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.lock().iter().any(|flight| flight.is_gated())
    }

    /// Makes the progress that is possible now. Does not block, except on a thread that waits in `finish`. If the progress
    /// of an exchange panics, by a fault of a device or a transport, that exchange alone fails: the thread may have others
    /// to poll.
    pub(crate) fn serve(&self, transport: &dyn Transport) {
        for index in 0..self.count.load(Ordering::Acquire) {
            // Polled without the lock: a callback may start another exchange.
            let flight = self.lock().get(index).cloned();
            let Some(flight) = flight else { continue };
            self.guard(&*flight, transport, || flight.poll(transport, self));
        }
    }

    /// Runs `poll`, which makes progress with `flight`. If it panics, makes `flight` fail and returns `None`.
    pub(crate) fn guard<R>(
        &self,
        flight: &dyn Served,
        transport: &dyn Transport,
        poll: impl FnOnce() -> R,
    ) -> Option<R> {
        // Unwind safe: the exchange that the panic leaves half changed is given up.
        let polled = catch_unwind(AssertUnwindSafe(poll));
        let fail = |panic: Box<dyn Any + Send>| {
            flight.give_up(transport, format!("its progress panicked: {}", panic_text(&*panic)));
        };
        polled.map_err(fail).ok()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<dyn Served>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
