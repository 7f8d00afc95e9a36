//! How the locks here are taken.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks even after a panic elsewhere: what the locks here guard is never left half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
