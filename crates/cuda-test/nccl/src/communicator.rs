//! A rank of a group.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use crate::driver::driver;
use crate::links::{Kind, Link, Links, PAUSE};
use crate::settings::settings;
use crate::status::{IN_PROGRESS, INVALID_ARGUMENT, REMOTE_ERROR, SUCCESS, SYSTEM_ERROR, Status};

/// A rank of a group, for ever non-blocking.
#[derive(Debug)]
pub(crate) struct Communicator {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) context: usize,
    /// The status of the last call, which may still be under way.
    state: AtomicU32,
    /// The first error of an exchange.
    fault: AtomicU32,
    is_aborted: AtomicBool,
    links: OnceLock<Links>,
    /// The ranks with which it has exchanged.
    connected: Mutex<BTreeSet<usize>>,
    /// The number of exchanges that were put into streams, and of those that are done.
    put: AtomicU64,
    done: AtomicU64,
    /// The thread of the call that goes on.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Communicator {
    /// Begins to join the group `name`.
    pub(crate) fn begin(
        name: String,
        [rank, ranks]: [usize; 2],
        (device, context): (i32, usize),
    ) -> Result<Arc<Communicator>, Status> {
        let communicator = Arc::new(Communicator {
            rank,
            ranks,
            context,
            state: AtomicU32::new(IN_PROGRESS),
            fault: AtomicU32::new(SUCCESS),
            is_aborted: AtomicBool::new(false),
            links: OnceLock::new(),
            connected: Mutex::default(),
            put: AtomicU64::new(0),
            done: AtomicU64::new(0),
            thread: Mutex::default(),
        });
        communicator.go_on(move |own| {
            let links = Links::new(&name, [rank, ranks], device, || own.is_aborted())?;
            own.links.set(links).map_err(|_| INVALID_ARGUMENT)
        });
        Ok(communicator)
    }

    /// The state as the caller asks for it.
    pub(crate) fn state(&self) -> Status {
        match self.state.load(Ordering::Acquire) {
            SUCCESS => self.fault.load(Ordering::Acquire),
            state => state,
        }
    }

    /// Does the rest of a call in a thread.
    pub(crate) fn go_on(
        self: &Arc<Communicator>,
        act: impl FnOnce(&Communicator) -> Result<(), Status> + Send + 'static,
    ) {
        self.join_thread();
        self.state.store(IN_PROGRESS, Ordering::Release);
        let own = Arc::clone(self);
        let run = move || own.state.store(act(&own).err().unwrap_or(SUCCESS), Ordering::Release);
        match std::thread::Builder::new().name("nccl".into()).spawn(run) {
            Ok(thread) => *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread),
            Err(_) => self.state.store(SYSTEM_ERROR, Ordering::Release),
        }
    }

    /// Connects to ranks with which it has not exchanged yet, and waits until they do the same.
    pub(crate) fn connect(&self, peers: &BTreeSet<usize>) -> Result<(), Status> {
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<&Link> = peers.difference(&connected).filter_map(|peer| self.link(*peer)).collect();
        new.iter().for_each(|link| link.send(Kind::Connect, &[]));
        while new.iter().any(|link| !link.inbox().has_connected) {
            let is_lost = new.iter().any(|link| link.inbox().is_closed);
            if self.is_aborted() || is_lost {
                return Err(REMOTE_ERROR);
            }
            std::thread::sleep(PAUSE);
        }
        connected.extend(peers);
        Ok(())
    }

    pub(crate) fn link(&self, peer: usize) -> Option<&Link> {
        self.links.get()?.to(peer)
    }

    /// Counts an exchange that is put into a stream; returns the number of those before.
    pub(crate) fn next(&self) -> u64 {
        std::thread::sleep(settings().delay);
        self.put.fetch_add(1, Ordering::AcqRel)
    }

    /// The number of exchanges that are done.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// Counts an exchange that is done.
    pub(crate) fn end_exchange(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
    }

    /// Keeps the first error of an exchange.
    pub(crate) fn fail(&self, status: Status) {
        let _ = self.fault.compare_exchange(SUCCESS, status, Ordering::AcqRel, Ordering::Acquire);
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::Acquire)
    }

    /// Begins to wait for its exchanges.
    pub(crate) fn finalize(self: &Arc<Communicator>) {
        self.go_on(|own| {
            while own.done() < own.put.load(Ordering::Acquire) && !own.is_aborted() {
                std::thread::sleep(PAUSE);
            }
            Ok(())
        });
    }

    /// Ends; waits until all ranks do.
    pub(crate) fn end(&self, aborts: bool) {
        self.is_aborted.fetch_or(aborts, Ordering::AcqRel);
        self.join_thread();
        if let Some(links) = self.links.get() {
            links.leave();
        }
    }

    fn join_thread(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that has panicked has ended, too.
        let _ = thread.map(JoinHandle::join);
    }
}

/// The device of the current context, and the context.
pub(crate) fn current() -> Result<(i32, usize), Status> {
    driver()?.current()
}
