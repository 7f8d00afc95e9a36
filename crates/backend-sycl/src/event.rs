//! Points in streams: events and gates.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haloport_core::device::{DeviceError, Event};

use crate::driver::{Marker, Time};
use crate::opened::Opened;
use crate::stream::SyclStream;

/// A point in a stream. Each time it is recorded, a new native event is made, so that a wait for an earlier point still
/// holds.
#[derive(Debug)]
pub struct SyclEvent {
    timing: bool,
    /// `None` before the event is first recorded, and if the point was reached when it was recorded.
    latest: Mutex<Option<Arc<Point>>>,
}

/// The point at which an event was recorded.
#[derive(Debug)]
struct Point {
    reached: Marker,
    /// `None` for events without timing.
    time: Option<Time>,
}

impl SyclEvent {
    pub(crate) fn new(timing: bool) -> SyclEvent {
        SyclEvent { timing, latest: Mutex::new(None) }
    }

    pub(crate) fn record(&self, stream: &SyclStream) -> Result<(), DeviceError> {
        // All that was put into an immediate stream is complete.
        let is_reached = stream.is_immediate() && !self.timing;
        let latest = if is_reached { None } else { Some(Arc::new(self.point(stream)?)) };
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = latest;
        Ok(())
    }

    /// The point behind all earlier commands of `stream`.
    fn point(&self, stream: &SyclStream) -> Result<Point, DeviceError> {
        let reached = stream.marker()?;
        let time = if self.timing { Some(stream.time_of(&reached)?) } else { None };
        stream.flush()?;
        Ok(Point { reached, time })
    }

    /// Makes `stream` wait for the event. If `stream` is immediate, the host waits instead: Intel's CPU runtime
    /// (2026.2) crashes if a barrier of such a queue waits for an event that is not reached.
    pub(crate) fn make_wait(&self, stream: &SyclStream) -> Result<(), DeviceError> {
        match self.latest() {
            Some(point) if stream.is_immediate() => point.reached.wait(),
            Some(point) => stream.wait_for(&point.reached),
            None => Ok(()),
        }
    }

    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        self.latest().map_or(Ok(()), |point| point.reached.wait())
    }

    pub(crate) fn is_reached(&self) -> Result<bool, DeviceError> {
        self.latest().map_or(Ok(true), |point| point.reached.is_reached())
    }

    /// The time of the point, in nanoseconds of the clock that it was taken from.
    fn time(&self, which: &'static str) -> Result<u64, DeviceError> {
        let wrong = |expected: &str, found: &str| Err(DeviceError::invalid(which, expected, found));
        let latest = self.latest();
        match latest.as_deref() {
            _ if !self.timing => wrong("an event made with timing", "one made without"),
            None => wrong("a recorded event", "one that was never recorded"),
            Some(point) if !point.reached.is_reached()? => {
                wrong("an event that is complete", "one that is not")
            }
            Some(Point { reached, time }) => time.as_ref().map_or(Ok(0), |time| reached.time(time)),
        }
    }

    fn latest(&self) -> Option<Arc<Point>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The time from one event to the other.
pub(crate) fn elapsed(begin: &SyclEvent, end: &SyclEvent) -> Result<Duration, DeviceError> {
    let begin = begin.time("the first event of an elapsed time")?;
    let end = end.time("the second event of an elapsed time")?;
    Ok(Duration::from_nanos(end.saturating_sub(begin)))
}

/// Holds `stream` back until the returned function is called or dropped.
pub(crate) fn gate(opened: &Opened, stream: &SyclStream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
    if stream.is_immediate() {
        return Err(DeviceError::Unsupported { what: "gates in an immediate stream", device: opened.id() });
    }
    let open = stream.gate()?;
    stream.flush()?;
    Ok(open)
}

impl Event for SyclEvent {
    /// The address of the `cl_event` or `sycl::event` of the latest point, alive until the event is recorded again; 0
    /// before it is first recorded, and if it was recorded in an immediate stream without timing.
    fn handle(&self) -> usize {
        self.latest().map_or(0, |point| point.reached.handle())
    }
}
