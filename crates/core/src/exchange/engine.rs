//! The progress engine: it serves all exchanges of a rank that are in flight.
//!
//! It is driven by every call that waits and by `start`, `finish` and `is_ready`. It knows exchanges and the
//! transport; fields, patterns and futures know nothing of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::flight::Flight;
use crate::transport::Transport;

/// The exchanges of a rank that are in flight.
#[derive(Default)]
pub(crate) struct Engine {
    active: Mutex<Vec<Arc<Flight>>>,
    count: AtomicUsize,
}

impl Engine {
    /// Takes a flight into care.
    pub(crate) fn add(&self, flight: &Arc<Flight>) {
        let mut active = self.lock();
        active.push(Arc::clone(flight));
        self.count.store(active.len(), Ordering::Release);
    }

    /// Releases a flight.
    pub(crate) fn remove(&self, flight: &Arc<Flight>) {
        let mut active = self.lock();
        active.retain(|other| !Arc::ptr_eq(other, flight));
        self.count.store(active.len(), Ordering::Release);
    }

    /// Makes whatever progress can be made now. Does not block.
    pub(crate) fn serve(&self, transport: &dyn Transport) {
        for index in 0..self.count.load(Ordering::Acquire) {
            // The lock is not held while a flight is polled: its callback may start another exchange.
            let flight = self.lock().get(index).cloned();
            if let Some(flight) = flight {
                flight.poll(transport);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Flight>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
