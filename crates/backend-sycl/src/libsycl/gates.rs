//! Gates in queues of Level Zero: its events, which the host signals.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use haloport_core::device::DeviceError;

use super::event::Marker;
use super::level_zero::{HostEvent, LevelZero};

/// The gates of a place. A gate is used again when the queue has passed it.
#[derive(Debug)]
pub(super) struct Gates {
    driver: Arc<LevelZero>,
    /// Those that were put into a queue, each with a point behind it.
    used: Mutex<Vec<(Arc<Gate>, Marker)>>,
}

/// A point in a queue that the host opens once.
#[derive(Debug)]
pub(super) struct Gate(HostEvent);

impl Gates {
    pub(super) fn new(driver: Arc<LevelZero>) -> Gates {
        Gates { driver, used: Mutex::default() }
    }

    /// A gate that is closed and in no queue.
    pub(super) fn closed(&self) -> Result<Arc<Gate>, DeviceError> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        // The function that opens a gate holds it, too.
        let passed = |(gate, behind): &(Arc<Gate>, Marker)| {
            Arc::strong_count(gate) == 1 && behind.is_reached().is_ok_and(|reached| reached)
        };
        let Some(index) = used.iter().position(passed) else {
            return Ok(Arc::new(Gate(HostEvent::new(&self.driver)?)));
        };
        let (gate, _) = used.swap_remove(index);
        gate.0.reset()?;
        Ok(gate)
    }

    /// Takes a gate back that was put into a queue. `behind` is a point behind it.
    pub(super) fn put(&self, gate: Arc<Gate>, behind: Marker) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).push((gate, behind));
    }
}

impl Gate {
    /// The `ze_event_handle_t` that a queue waits for.
    pub(super) fn event(&self) -> *mut c_void {
        self.0.handle()
    }

    pub(super) fn open(&self) {
        // The driver refuses an event that does not exist alone.
        let _ = self.0.signal();
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        for (gate, behind) in self.used.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A command may still wait for it.
            if !behind.is_reached().is_ok_and(|reached| reached) {
                std::mem::forget(gate);
            }
        }
    }
}
