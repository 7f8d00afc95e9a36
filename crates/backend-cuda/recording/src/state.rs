//! What the driver remembers: the calls, what lives, and which call is to fail.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::capture::Capture;
use crate::memory::Block;
use crate::objects::Object;

/// A code of the driver.
pub(crate) type Status = u32;

pub(crate) const SUCCESS: Status = 0;
pub(crate) const INVALID_VALUE: Status = 1;
pub(crate) const OUT_OF_MEMORY: Status = 2;
pub(crate) const NO_DEVICE: Status = 100;
pub(crate) const INVALID_DEVICE: Status = 101;
pub(crate) const INVALID_CONTEXT: Status = 201;
pub(crate) const INVALID_HANDLE: Status = 400;
pub(crate) const NOT_FOUND: Status = 500;
pub(crate) const CAPTURE_UNSUPPORTED: Status = 900;
pub(crate) const CAPTURE_INVALIDATED: Status = 901;
pub(crate) const CAPTURE_UNJOINED: Status = 904;
pub(crate) const CAPTURE_ISOLATION: Status = 905;
pub(crate) const CAPTURED_EVENT: Status = 907;

#[derive(Debug)]
pub(crate) struct State {
    /// Each with the number of its thread: `NAME ARGUMENTS`.
    pub(crate) calls: Vec<(u32, String)>,
    /// What was made and is not destroyed, by its handle.
    pub(crate) objects: BTreeMap<usize, Object>,
    /// The memory that was allocated and is not freed, by its address.
    pub(crate) blocks: BTreeMap<usize, Block>,
    /// The captures that go on, by the stream that each was begun in.
    pub(crate) captures: BTreeMap<usize, Capture>,
    /// The next handle.
    next: usize,
    pub(crate) failure: Option<Failure>,
}

/// The call that is to fail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    /// How many calls are still to succeed.
    pub(crate) after: u64,
    pub(crate) status: Status,
    /// Whether all that follow fail, too.
    pub(crate) for_ever: bool,
    pub(crate) has_happened: bool,
}

/// The state, for one call.
pub(crate) fn state() -> MutexGuard<'static, State> {
    static STATE: Mutex<State> = Mutex::new(State {
        calls: Vec::new(),
        objects: BTreeMap::new(),
        blocks: BTreeMap::new(),
        captures: BTreeMap::new(),
        next: 0x1000,
        failure: None,
    });
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Records a call, and says whether it is to fail.
    pub(crate) fn record(&mut self, name: &str, arguments: &str) -> Result<(), Status> {
        self.calls.push((thread(), format!("{name} {arguments}").trim_end().to_string()));
        match &mut self.failure {
            Some(failure) if failure.after == 0 => {
                if failure.has_happened && !failure.for_ever {
                    return Ok(());
                }
                failure.has_happened = true;
                Err(failure.status)
            }
            Some(failure) => {
                failure.after -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Keeps an object and gives its handle.
    pub(crate) fn make(&mut self, object: Object) -> usize {
        self.next += 0x10;
        self.objects.insert(self.next, object);
        self.next
    }
}

thread_local! {
    /// The current contexts of a thread, the present one last.
    pub(crate) static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The present context of this thread; 0 where there is none.
pub(crate) fn current() -> usize {
    CONTEXTS.with_borrow(|contexts| contexts.last().copied().unwrap_or(0))
}

/// The number of this thread, in the order of their first calls.
pub(crate) fn thread() -> u32 {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    thread_local!(static NUMBER: Cell<Option<u32>> = const { Cell::new(None) });
    NUMBER.with(|number| match number.get() {
        Some(known) => known,
        None => {
            let new = THREADS.fetch_add(1, Ordering::Relaxed);
            number.set(Some(new));
            new
        }
    })
}

/// A number from the environment.
pub(crate) fn setting(name: &str, default: i32) -> i32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
