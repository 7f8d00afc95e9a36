//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what stays whole even if a thread has panicked.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
