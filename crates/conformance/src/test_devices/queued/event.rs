//! Events: points in streams.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use haloport_core::device::{DeviceError, Event};

use super::queue::{Point, lock};

/// An event.
#[derive(Debug)]
pub struct QueuedEvent {
    pub(super) timing: bool,
    /// Where it was recorded last.
    pub(super) latest: Mutex<Option<Arc<Point>>>,
}

impl QueuedEvent {
    /// The point of the latest recording, if there is one.
    pub(super) fn point(&self) -> Option<Arc<Point>> {
        lock(&self.latest).clone()
    }

    /// When the latest recording was reached; `which` names the event in the error.
    pub(super) fn time(&self, which: &'static str) -> Result<Instant, DeviceError> {
        let point = self.point().filter(|_| self.timing);
        let reached = point.and_then(|point| point.reached());
        let wanted = "an event made with timing, recorded and complete";
        reached.ok_or_else(|| DeviceError::invalid(which, wanted, "another"))
    }
}

impl Event for QueuedEvent {
    fn handle(&self) -> usize {
        (&raw const *self).addr()
    }
}
