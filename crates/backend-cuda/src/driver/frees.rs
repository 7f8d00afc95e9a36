//! Freeing what belongs to a context.
//!
//! The calls that free wait for all work of the context, and some drivers keep every other thread of the process out until
//! they return. If a stream of the context waits for a neighbour meanwhile, and the neighbour is such a thread, the
//! call never returns. Therefore memory and objects that are dropped during such a wait are freed later.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The deferred frees, and whether frees are deferred now.
#[derive(Default)]
pub(crate) struct Frees(Mutex<State>);

#[derive(Default)]
struct State {
    /// The number of exchanges for whose neighbours streams may wait.
    exchanges: usize,
    deferred: Vec<Box<dyn FnOnce() + Send>>,
}

impl Frees {
    /// Calls `free` once: now, or after the end of the exchanges for whose neighbours streams may wait.
    pub(crate) fn free(&self, free: impl FnOnce() + Send + 'static) {
        let mut state = self.lock();
        if state.exchanges == 0 {
            // Under the lock: no exchange begins before this call returns.
            free();
        } else {
            state.deferred.push(Box::new(free));
        }
    }

    /// See [`Device::defer_frees`](haloport_core::device::Device::defer_frees).
    pub(crate) fn defer(&self) {
        self.lock().exchanges += 1;
    }

    /// See [`Device::resume_frees`](haloport_core::device::Device::resume_frees).
    pub(crate) fn resume(&self) {
        let mut state = self.lock();
        state.exchanges = state.exchanges.saturating_sub(1);
        if state.exchanges == 0 {
            std::mem::take(&mut state.deferred).into_iter().for_each(|free| free());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Frees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { exchanges, deferred } = &*self.lock();
        write!(f, "Frees({} deferred by {exchanges} exchanges)", deferred.len())
    }
}
