//! Events: points in streams, or positions in captured work.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use haloport_core::device::{DeviceError, Event};

use super::capture::Position;
use super::queue::{Point, lock};

/// An event.
#[derive(Debug)]
pub struct QueuedEvent {
    pub(super) timing: bool,
    pub(super) latest: Mutex<Latest>,
}

/// Where an event was recorded last.
#[derive(Debug, Clone, Default)]
pub(super) enum Latest {
    #[default]
    Never,
    At(Arc<Point>),
    InCapture(Position),
}

impl QueuedEvent {
    /// The point of the latest recording, if there is one.
    pub(super) fn point(&self) -> Result<Option<Arc<Point>>, DeviceError> {
        match &*lock(&self.latest) {
            Latest::Never => Ok(None),
            Latest::At(point) => Ok(Some(Arc::clone(point))),
            Latest::InCapture(_) => {
                Err(DeviceError::invalid("an event", "one recorded in a stream", "one that was captured"))
            }
        }
    }

    /// When the latest recording was reached; `which` names the event in the error.
    pub(super) fn time(&self, which: &'static str) -> Result<Instant, DeviceError> {
        let point = self.point()?.filter(|_| self.timing);
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
