//! Memory of devices that processes reach in each other.
//!
//! A driver must not be asked to free memory that another process still reaches. So the reader says, in memory that both
//! share, when it has let go, and the owner keeps what it has exported until then: where it would have to wait, in a list
//! that is looked through whenever an exchange is bound or dropped. Neither waits for the other.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use crate::exchange::layout::segment::ReleaseFlag;

/// What owns some memory.
type Owners = Vec<Arc<dyn Any + Send + Sync>>;

/// The reader's memory of another process: it is let go of on drop.
pub(crate) struct Imported {
    memory: Owners,
    released: ReleaseFlag,
}

impl Imported {
    pub(crate) fn new(memory: Owners, released: ReleaseFlag) -> Imported {
        Imported { memory, released }
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        self.memory.clear();
        self.released.set();
    }
}

/// The owner's memory that another process reaches: it outlives this until that has let go of it.
pub(crate) struct Exported {
    memory: Owners,
    released: ReleaseFlag,
}

/// What was exported and is wanted here no more.
static KEPT: Mutex<Vec<Exported>> = Mutex::new(Vec::new());

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
        let kept = Exported { memory: std::mem::take(&mut self.memory), released: self.released.clone() };
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        free_released();
    }
}

/// Frees what is kept for nobody any more.
pub(crate) fn free_released() {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut done: Vec<Exported> = kept.extract_if(.., |kept| kept.released.is_set()).collect();
    drop(kept);
    // Here, and not kept a second time.
    done.iter_mut().for_each(|exported| exported.memory.clear());
}
