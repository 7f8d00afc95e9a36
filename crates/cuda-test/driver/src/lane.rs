//! The context and the order of the work of a stream.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haloport_cuda_races::Line;

use crate::memory::blocks::{Found, blocks};
use crate::order::{host, line_after};
use crate::status::Status;

/// A primary context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) handle: usize,
    pub(crate) device: i32,
    /// The status of its first fault, or 0.
    fault: AtomicU32,
    /// The contexts whose memory its kernels reach.
    peers: Mutex<Vec<usize>>,
    /// The writes of a network adapter that work in streams does not see yet.
    unseen: Mutex<Vec<RemoteWrite>>,
}

/// Bytes from a network adapter, and their address.
#[derive(Debug)]
pub(crate) struct RemoteWrite {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Context {
    pub(crate) fn new(handle: usize, device: i32) -> Arc<Context> {
        Arc::new(Context {
            handle,
            device,
            fault: AtomicU32::new(0),
            peers: Mutex::default(),
            unseen: Mutex::default(),
        })
    }

    /// Marks the context as broken: from now on, calls return this status. Prints the reason, which a driver would not.
    pub(crate) fn fail(&self, status: Status, what: &str) {
        eprintln!("the driver for tests: a fault on device {}: {what}", self.device);
        let _ = self.fault.compare_exchange(0, status, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The status of its first fault, or 0.
    pub(crate) fn fault(&self) -> Status {
        self.fault.load(Ordering::Acquire)
    }

    /// Takes a write of a network adapter, which nothing sees yet.
    pub(crate) fn take_remote_write(&self, write: RemoteWrite) {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner).push(write);
    }

    /// Makes all writes of network adapters visible.
    pub(crate) fn see_remote_writes(&self) {
        for RemoteWrite { address, bytes } in
            self.unseen.lock().unwrap_or_else(PoisonError::into_inner).drain(..)
        {
            if let Found::Inside(block, offset) = blocks().find(address, bytes.len()) {
                // SAFETY: the block is that long from there on.
                unsafe { block.mapping.at(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
        }
    }

    /// Whether its kernels reach the memory of another context.
    pub(crate) fn reaches(&self, other: usize) -> bool {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).contains(&other)
    }

    /// Lets its kernels reach the memory of another context; returns whether they could not before.
    pub(crate) fn reach(&self, peer: usize) -> bool {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !peers.contains(&peer);
        peers.push(peer);
        is_new
    }
}

/// The works of a stream, in their order.
pub(crate) struct Lane {
    pub(crate) context: Arc<Context>,
    line: Mutex<Line>,
}

impl Lane {
    /// A lane whose work follows all that the host has seen.
    pub(crate) fn new(context: Arc<Context>) -> Arc<Lane> {
        let line = Mutex::new(line_after(&host()));
        Arc::new(Lane { context, line })
    }

    pub(crate) fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a stream of device {}", self.context.device)
    }
}
