//! The state of the driver: the recorded calls, what lives, and the call that is to fail.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::objects::{Block, Capture, Object};
use crate::status::{INVALID_CONTEXT, INVALID_HANDLE, Status};

#[derive(Debug)]
pub(crate) struct State {
    /// The calls, `NAME ARGUMENTS`, each with the number of its thread.
    pub(crate) calls: Vec<(u32, String)>,
    /// The objects that live, by their handles.
    pub(crate) objects: BTreeMap<usize, Object>,
    /// The allocations that live, by their addresses.
    pub(crate) blocks: BTreeMap<usize, Block>,
    /// The captures that have not ended, by the stream in which each began.
    pub(crate) captures: BTreeMap<usize, Capture>,
    /// The next handle.
    next: usize,
    pub(crate) failure: Option<Failure>,
}

/// The call that is to fail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    /// The number of calls that succeed before it.
    pub(crate) after: u64,
    pub(crate) status: Status,
    /// Whether all later calls fail, too.
    pub(crate) for_ever: bool,
    pub(crate) has_happened: bool,
}

/// Locks the state, for one call.
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
    /// Records a call. Fails if the call is to fail.
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

    /// Adds an object and returns its handle.
    pub(crate) fn make(&mut self, object: Object) -> usize {
        self.next += 0x10;
        self.objects.insert(self.next, object);
        self.next
    }

    /// Checks that a primary context is current, and returns it.
    pub(crate) fn in_context(&self) -> Result<usize, Status> {
        let context = current();
        match self.objects.get(&context) {
            Some(Object::Context { .. }) => Ok(context),
            _ => Err(INVALID_CONTEXT),
        }
    }

    /// Checks that a stream lives or is a default stream, and that a context is current.
    pub(crate) fn stream(&self, handle: usize) -> Result<(), Status> {
        self.in_context()?;
        match (handle, self.objects.get(&handle)) {
            (0..=2, _) | (_, Some(Object::Stream { .. })) => Ok(()),
            _ => Err(INVALID_HANDLE),
        }
    }

    /// An event: whether it was recorded, and whether it has timing.
    pub(crate) fn event(&mut self, handle: usize) -> Result<(&mut bool, bool), Status> {
        self.in_context()?;
        match self.objects.get_mut(&handle) {
            Some(Object::Event { timing, recorded, .. }) => Ok((recorded, *timing)),
            _ => Err(INVALID_HANDLE),
        }
    }

    /// Removes an object of this kind.
    pub(crate) fn destroy(&mut self, handle: usize, kind: &str) -> Result<(), Status> {
        match self.objects.get(&handle) {
            Some(object) if object.kind() == kind => {
                self.objects.remove(&handle);
                Ok(())
            }
            _ => Err(INVALID_HANDLE),
        }
    }
}

thread_local! {
    /// The stack of current contexts of a thread.
    pub(crate) static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The current context of this thread; 0 if there is none.
pub(crate) fn current() -> usize {
    CONTEXTS.with_borrow(|contexts| contexts.last().copied().unwrap_or(0))
}

/// The number of this thread; threads count in the order of their first calls.
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
