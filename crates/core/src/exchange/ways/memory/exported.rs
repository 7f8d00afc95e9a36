//! Device memory that one process exports and another imports.
//!
//! A driver must not free memory that another process still has mapped. So the reader sets a flag, in memory that both
//! share, when it has released the memory, and the owner keeps the memory until then. Neither waits for the other:
//! memory that cannot be freed yet goes into a list, which is checked whenever an exchange is bound or dropped.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use super::segment::ReleaseFlag;

/// The owners of some memory.
type Owners = Vec<Arc<dyn Any + Send + Sync>>;

/// Memory of another process, mapped by the reader. Dropping it releases the memory.
pub(crate) struct Imported {
    memory: Owners,
    released: ReleaseFlag,
}

impl Imported {
    pub(crate) fn new(memory: Owners, released: ReleaseFlag) -> Imported {
        Imported { memory, released }
    }

    /// Adds memory that is released together with the rest.
    pub(crate) fn add(&mut self, memory: Arc<dyn Any + Send + Sync>) {
        self.memory.push(memory);
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        self.memory.clear();
        self.released.set();
    }
}

/// Memory that another process has mapped, kept by the owner. It outlives this value until the reader has released it.
pub(crate) struct Exported {
    memory: Owners,
    released: ReleaseFlag,
}

/// Memory that its owner has dropped but the reader has not yet released.
static UNRELEASED: Mutex<Vec<Exported>> = Mutex::new(Vec::new());

impl Exported {
    pub(crate) fn new(memory: Owners, released: ReleaseFlag) -> Exported {
        Exported { memory, released }
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        if self.memory.is_empty() {
            return;
        }
        let exported = Exported { memory: std::mem::take(&mut self.memory), released: self.released.clone() };
        UNRELEASED.lock().unwrap_or_else(PoisonError::into_inner).push(exported);
        free_released();
    }
}

/// Frees memory that readers have released.
pub(crate) fn free_released() {
    let mut unreleased = UNRELEASED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut released: Vec<Exported> =
        unreleased.extract_if(.., |exported| exported.released.is_set()).collect();
    drop(unreleased);
    // Freed here, so that dropping them does not add them to the list again.
    released.iter_mut().for_each(|exported| exported.memory.clear());
}
