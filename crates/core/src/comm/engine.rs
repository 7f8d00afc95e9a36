//! The progress engine: it serves all exchanges of a rank that are in flight, of whatever kind.
//!
//! It is driven by every call that waits and by `start`, `finish` and `is_ready`, and by the thread of `progress` while
//! something of an asynchronous device is in flight. It knows what can be polled and the transport; fields, patterns and
//! futures know nothing of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::callback::panic_text;
use crate::transport::Transport;

/// What makes progress when it is polled.
pub(crate) trait Served: Send + Sync {
    /// Makes whatever progress can be made now. Does not block. A failure is kept for whoever waits.
    fn poll(&self, transport: &dyn Transport);
    /// Fails for ever, as its progress cannot go on. Whoever waits gets the error.
    fn give_up(&self, transport: &dyn Transport, why: String);
    /// Whether there is progress to be made. What has ended by itself may stay with the engine until it is begun again.
    fn is_under_way(&self) -> bool;
    /// Whether it holds back a stream by a gate.
    fn is_closing(&self) -> bool {
        false
    }
}

/// The exchanges of a rank that are in flight.
#[derive(Default)]
pub(crate) struct Engine {
    active: Mutex<Vec<Arc<dyn Served>>>,
    count: AtomicUsize,
}

impl Engine {
    /// Takes a flight into care, unless it is there.
    pub(crate) fn add<S: Served + 'static>(&self, flight: &Arc<S>) {
        let mut active = self.lock();
        if !active.iter().any(|other| std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(flight))) {
            active.push(Arc::clone(flight) as Arc<dyn Served>);
        }
        self.count.store(active.len(), Ordering::Release);
    }

    /// Releases a flight.
    pub(crate) fn remove<S: Served>(&self, flight: &Arc<S>) {
        let mut active = self.lock();
        active.retain(|other| !std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(flight)));
        self.count.store(active.len(), Ordering::Release);
    }

    /// Whether there is no progress to be made.
    pub(crate) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0 || !self.lock().iter().any(|flight| flight.is_under_way())
    }

    /// Whether any holds back a stream by a gate.
    pub(crate) fn is_closing(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.lock().iter().any(|flight| flight.is_closing())
    }

    /// Makes whatever progress can be made now. Does not block. A flight that panics, by a fault of a device or a transport,
    /// fails alone: the thread may have others to drive.
    pub(crate) fn serve(&self, transport: &dyn Transport) {
        for index in 0..self.count.load(Ordering::Acquire) {
            // The lock is not held while a flight is polled: its callback may start another exchange.
            let flight = self.lock().get(index).cloned();
            let Some(flight) = flight else { continue };
            // What the panic leaves half changed is given up.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| flight.poll(transport))) {
                flight.give_up(transport, format!("its progress panicked: {}", panic_text(&*panic)));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<dyn Served>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
