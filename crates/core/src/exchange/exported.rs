//! Memory of devices that processes reach in each other.
//!
//! A driver must not be asked to free memory that another process still reaches. So the reader says, in memory that both
//! share, when it has let go, and the owner keeps what it has exported until then: where it would have to wait, in a list
//! that is looked through whenever an exchange is bound or dropped. Neither waits for the other.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::transport::SharedMemory;

/// What owns some memory.
type Owners = Vec<Arc<dyn Any + Send + Sync>>;

/// Where the reader says that it has let go: a word of shared memory, 0 until then.
#[derive(Clone)]
pub(super) struct LetGo {
    memory: Arc<SharedMemory>,
    at: usize,
}

impl LetGo {
    /// The word at `at` of memory that was all 0; `None` where it is not shared.
    pub(super) fn new(memory: &Arc<SharedMemory>, at: usize) -> Option<LetGo> {
        let is_there = at.is_multiple_of(4) && memory.covers(at..at.checked_add(4)?);
        is_there.then(|| LetGo { memory: Arc::clone(memory), at })
    }

    fn say(&self) {
        self.word().store(1, Ordering::Release);
    }

    fn is_said(&self) -> bool {
        self.word().load(Ordering::Acquire) != 0
    }

    fn word(&self) -> &AtomicU32 {
        let place = self.memory.pointer().offset(self.at as isize);
        // SAFETY: the memory is valid, initialised and aligned as long as `self` lives, and this word of it is accessed as an
        // atomic alone, here and in the other process.
        unsafe { AtomicU32::from_ptr(place.as_ptr().cast()) }
    }
}

/// The reader's memory of another process: it is let go of on drop.
pub(super) struct Imported {
    memory: Owners,
    let_go: LetGo,
}

impl Imported {
    pub(super) fn new(memory: Owners, let_go: LetGo) -> Imported {
        Imported { memory, let_go }
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        self.memory.clear();
        self.let_go.say();
    }
}

/// The owner's memory that another process reaches: it outlives this until that has let go of it.
pub(super) struct Exported {
    memory: Owners,
    let_go: LetGo,
}

/// What was exported and is wanted here no more.
static KEPT: Mutex<Vec<Exported>> = Mutex::new(Vec::new());

impl Exported {
    pub(super) fn new(memory: Owners, let_go: LetGo) -> Exported {
        Exported { memory, let_go }
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        if self.memory.is_empty() {
            return;
        }
        let kept = Exported { memory: std::mem::take(&mut self.memory), let_go: self.let_go.clone() };
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        free_what_was_let_go();
    }
}

/// Frees what is kept for nobody any more.
pub(super) fn free_what_was_let_go() {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut done: Vec<Exported> = kept.extract_if(.., |kept| kept.let_go.is_said()).collect();
    drop(kept);
    // Here, and not kept a second time.
    done.iter_mut().for_each(|exported| exported.memory.clear());
}
