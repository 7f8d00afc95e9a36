//! The transport below a communicator, and host memory for its channels.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haloport_core::comm::Communicator;
use haloport_core::device::{DeviceId, MemoryRange, Pointer};
use haloport_core::transport::{Channel, Transport, TransportError};

/// The transport below a communicator.
pub(crate) fn bare(comm: &Communicator) -> &dyn Transport {
    // SAFETY: the tests use tags that no exchange has and channels that they have opened, and make no collective calls.
    unsafe { &**comm.raw_transport() }
}

/// Waits until `done` returns true, at most 30 s.
pub(crate) fn until(
    comm: &Communicator,
    what: &str,
    mut done: impl FnMut() -> Result<bool, TransportError>,
) -> Result<(), TransportError> {
    let (began, limit) = (Instant::now(), Duration::from_secs(30));
    for round in 0.. {
        if done()? {
            break;
        }
        bare(comm).relax(round)?;
        if began.elapsed() > limit {
            return Err(TransportError::TimeLimit { what: what.into(), ranks: Vec::new(), limit });
        }
    }
    Ok(())
}

/// Waits until the messages on all channels are complete.
pub(super) fn wait(comm: &Communicator, channels: &[Channel]) -> Result<(), TransportError> {
    until(comm, "a test's messages", || {
        let mut complete = true;
        for &channel in channels {
            complete &= bare(comm).test(channel)?;
        }
        Ok(complete)
    })
}

/// Closes a channel that was opened on `memory`.
pub(super) fn close(comm: &Communicator, channel: Channel, memory: &Memory) {
    // SAFETY: the clone that is passed keeps the memory of the channel alive.
    unsafe { bare(comm).close(channel, Arc::new(memory.clone())) }
}

/// Shared host memory for messages.
#[derive(Clone)]
pub(super) struct Memory(Arc<[UnsafeCell<u8>]>);

// SAFETY: the tests access it only while no message is in flight.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn new(bytes: usize) -> Memory {
        Memory((0..bytes).map(|_| UnsafeCell::new(0)).collect())
    }

    fn pointer(&self) -> *mut u8 {
        UnsafeCell::raw_get(self.0.as_ptr())
    }

    pub(super) fn range(&self, begin: usize, bytes: usize) -> MemoryRange {
        let pointer = Pointer::new(self.pointer()).offset(begin as isize);
        MemoryRange { device: DeviceId { backend: "cpu", index: 0, context: 0 }, pointer, bytes }
    }

    pub(super) fn fill(&mut self, value: u8) {
        self.fill_range(0, self.0.len(), value);
    }

    pub(super) fn fill_range(&mut self, begin: usize, bytes: usize, value: u8) {
        assert!(begin + bytes <= self.0.len());
        // SAFETY: within the memory, and no message is in flight.
        unsafe { self.pointer().add(begin).write_bytes(value, bytes) }
    }

    pub(super) fn all(&self, value: u8) -> bool {
        self.all_range(0, self.0.len(), value)
    }

    pub(super) fn all_range(&self, begin: usize, bytes: usize, value: u8) -> bool {
        // SAFETY: no message is in flight; every cell is initialised.
        self.0[begin..begin + bytes].iter().all(|cell| unsafe { *cell.get() } == value)
    }
}
