//! A point in a stream.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use haloport_cuda_races::Clock;

/// A point in a stream, when it was reached, and the works before it.
#[derive(Debug, Default)]
pub(crate) struct Point {
    reached_at: Mutex<Option<(Instant, Clock)>>,
    reached: Condvar,
}

impl Point {
    pub(crate) fn new() -> Arc<Point> {
        Arc::default()
    }

    pub(crate) fn reach(&self, before: &Clock) {
        *self.lock() = Some((Instant::now(), before.clone()));
        self.reached.notify_all();
    }

    /// When it was reached, if it was.
    pub(crate) fn time(&self) -> Option<Instant> {
        self.lock().as_ref().map(|(time, _)| *time)
    }

    /// The works before it, if it was reached.
    pub(crate) fn before(&self) -> Option<Clock> {
        self.lock().as_ref().map(|(_, before)| before.clone())
    }

    /// Waits for it; returns the works before it.
    pub(crate) fn wait(&self) -> Clock {
        let wait = self.reached.wait_while(self.lock(), |reached| reached.is_none());
        let reached = wait.unwrap_or_else(PoisonError::into_inner);
        reached.as_ref().map(|(_, before)| before.clone()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Instant, Clock)>> {
        self.reached_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
