//! Points in streams: events and gates.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use cl3::event::{
    CL_COMPLETE, CL_PROFILING_COMMAND_END, create_user_event, get_event_profiling_info, set_event_callback,
    set_user_event_status, wait_for_events,
};
use cl3::types::{cl_event, cl_int};
use haloport_core::device::{DeviceError, DeviceId, Event};

use crate::opencl::handles::EventHandle;
use crate::opencl::library::failed;
use crate::opencl::opened::Opened;
use crate::opencl::queue::Marker;
use crate::opencl::select::Kind;
use crate::stream::SyclStream;

/// The longest time from when an event is reached until the driver makes the call that it was asked for.
const LATEST_CALL: Duration = Duration::from_secs(10);

/// A point in a stream. Each time it is recorded, a new `cl_event` is made, so that a wait for an earlier point still
/// holds.
#[derive(Debug)]
pub struct SyclEvent {
    device: DeviceId,
    timing: bool,
    latest: Mutex<Option<Arc<Point>>>,
}

/// The point at which an event was recorded.
#[derive(Debug)]
struct Point {
    reached: Marker,
    /// `None` for events without timing.
    time: Option<Time>,
}

/// The source of the time of a point.
#[derive(Debug)]
enum Time {
    /// The profile of the marker itself.
    Profile,
    /// The profile of another event, which is reached together with the marker.
    OtherProfile(EventHandle),
    /// The host's clock, read when the driver calls. On a CPU, another event would be late: it waits for an idle
    /// thread.
    Host(Arc<HostTime>),
}

/// The time at which an event was reached, in nanoseconds of the host's clock.
#[derive(Debug, Default)]
struct HostTime {
    at: Mutex<Option<u64>>,
    is_set: Condvar,
}

impl SyclEvent {
    pub(crate) fn new(device: DeviceId, timing: bool) -> SyclEvent {
        SyclEvent { device, timing, latest: Mutex::new(None) }
    }

    pub(crate) fn record(&self, stream: &SyclStream) -> Result<(), DeviceError> {
        let reached = stream.marker()?;
        let on_host = self.timing && stream.opened.kind == Kind::Cpu;
        let time = if on_host { Some(Time::Host(HostTime::of(&reached, self.device)?)) } else { None };
        stream.flush()?;
        let time = match time {
            None if self.timing => Some(stream.clock(&reached)?.map_or(Time::Profile, Time::OtherProfile)),
            time => time,
        };
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(Point { reached, time }));
        Ok(())
    }

    /// Makes `stream` wait for the event. If `stream` is immediate, the host waits instead: Intel's CPU runtime
    /// (2026.2) crashes if a barrier of such a queue waits for an event that is not reached.
    pub(crate) fn make_wait(&self, stream: &SyclStream) -> Result<(), DeviceError> {
        match self.latest() {
            Some(point) if stream.is_immediate() => point.reached.wait(),
            Some(point) => stream.barrier(&[point.reached.raw()]),
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
        if !self.timing {
            return wrong("an event made with timing", "one made without");
        }
        let Some(point) = self.latest() else {
            return wrong("a recorded event", "one that was never recorded");
        };
        if !point.reached.is_reached()? {
            return wrong("an event that is complete", "one that is not");
        }
        let event = match &point.time {
            Some(Time::Host(time)) => return time.wait(self.device),
            Some(Time::OtherProfile(other)) => other.raw(),
            Some(Time::Profile) | None => point.reached.raw(),
        };
        wait_for_events(&[event]).map_err(failed("clWaitForEvents", self.device))?;
        get_event_profiling_info(event, CL_PROFILING_COMMAND_END)
            .map(u64::from)
            .map_err(failed("clGetEventProfilingInfo", self.device))
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
    let event = create_user_event(opened.context.raw()).map_err(failed("clCreateUserEvent", opened.id()))?;
    // SAFETY: the event is new, and its reference has no other owner.
    let gate = Gate(unsafe { EventHandle::own(event) });
    stream.barrier(&[gate.0.raw()])?;
    stream.flush()?;
    Ok(Box::new(move || drop(gate)))
}

fn call_when_reached(reached: &Marker, device: DeviceId, function: HostFunction) -> Result<(), DeviceError> {
    let function: *mut HostFunction = Box::into_raw(Box::new(function));
    let set = set_event_callback(reached.raw(), CL_COMPLETE, run_host_function, function.cast());
    if let Err(code) = set {
        // SAFETY: the driver has refused the function, so it has no other owner.
        drop(unsafe { Box::from_raw(function) });
        return Err(failed("clSetEventCallback", device)(code));
    }
    Ok(())
}

impl HostTime {
    /// Asks the driver to call when `reached` is reached.
    fn of(reached: &Marker, device: DeviceId) -> Result<Arc<HostTime>, DeviceError> {
        static BEGIN: OnceLock<Instant> = OnceLock::new();

        let begin = *BEGIN.get_or_init(Instant::now);
        let time = Arc::new(HostTime::default());
        let at_call = Arc::clone(&time);
        let set = move || {
            *at_call.at.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(begin.elapsed().as_nanos() as u64);
            at_call.is_set.notify_all();
        };
        call_when_reached(reached, device, Box::new(set))?;
        Ok(time)
    }

    /// Blocks until the driver has called: some microseconds, since the event is reached.
    fn wait(&self, device: DeviceId) -> Result<u64, DeviceError> {
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.is_set.wait_timeout_while(at, LATEST_CALL, |at| at.is_none());
        let (at, _) = waited.unwrap_or_else(PoisonError::into_inner);
        at.ok_or_else(|| {
            let found = format!("no call of {device} within {LATEST_CALL:?}");
            DeviceError::invalid("the time of an event", "a call of the driver when it is reached", found)
        })
    }
}

type HostFunction = Box<dyn FnOnce() + Send>;

extern "C" fn run_host_function(_event: cl_event, _status: cl_int, function: *mut c_void) {
    // SAFETY: `function` is the box that `call_when_reached` gave to the driver, which calls this once.
    let function = unsafe { Box::from_raw(function.cast::<HostFunction>()) };
    // A panic must not reach the driver; the panic hook has reported it.
    let _ = catch_unwind(AssertUnwindSafe(function));
}

/// An event that the host completes when this is dropped.
struct Gate(EventHandle);

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = set_user_event_status(self.0.raw(), CL_COMPLETE);
    }
}

impl Event for SyclEvent {
    /// The `cl_event` of the latest point, alive until the event is recorded again; 0 before it is first recorded.
    fn handle(&self) -> usize {
        self.latest().map_or(0, |point| point.reached.raw().addr())
    }
}
