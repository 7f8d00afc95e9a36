//! Taking locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, even after a panic elsewhere. For data that no panic leaves half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
