//! Events, gates, and calls of the host: points in streams.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use cl3::event::{
    CL_COMPLETE, CL_PROFILING_COMMAND_END, create_user_event, get_event_profiling_data, set_event_callback,
    set_user_event_status, wait_for_events,
};
use cl3::types::{cl_event, cl_int};
use haloport_core::device::{DeviceError, DeviceId, Event};

use crate::driver::{failed, number};
use crate::handles::EventHandle;
use crate::open::Opened;
use crate::queue::{Marker, SyclStream};
use crate::select::Kind;

/// How long a driver may take to tell that an event is reached, after it says so when it is asked.
const LATEST_CALL: Duration = Duration::from_secs(10);

/// A point in a stream: each recording is a `cl_event` of its own, so that a wait for an earlier one keeps that.
#[derive(Debug)]
pub struct SyclEvent {
    device: DeviceId,
    timing: bool,
    latest: Mutex<Option<Arc<Recording>>>,
}

#[derive(Debug)]
struct Recording {
    reached: Marker,
    /// Of an event with timing.
    time: Option<Time>,
}

/// Where the time of a recording is to be found.
#[derive(Debug)]
enum Time {
    /// In its own profile.
    Profile,
    /// In the profile of another event, which is reached with it.
    OtherProfile(EventHandle),
    /// On the host's clock: the driver calls when it is reached. Other events of a CPU would wait for a thread that has
    /// nothing else to do, and be late.
    Host(Arc<HostTime>),
}

/// When an event was reached, in nanoseconds of the host's clock.
#[derive(Debug, Default)]
struct HostTime {
    at: Mutex<Option<u64>>,
    told: Condvar,
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
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Arc::new(Recording { reached, time }));
        Ok(())
    }

    /// Has `stream` wait. Where its work is done in the call, so does the host: Intel's CPU runtime (2026.2) crashes where a
    /// barrier of such a queue is given an event that is not reached.
    pub(crate) fn make_wait(&self, stream: &SyclStream) -> Result<(), DeviceError> {
        match self.latest() {
            Some(recording) if stream.is_immediate() => recording.reached.wait(),
            Some(recording) => stream.barrier(&[recording.reached.raw()]),
            None => Ok(()),
        }
    }

    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        self.latest().map_or(Ok(()), |recording| recording.reached.wait())
    }

    pub(crate) fn is_reached(&self) -> Result<bool, DeviceError> {
        self.latest().map_or(Ok(true), |recording| recording.reached.is_reached())
    }

    /// Nanoseconds of the device's clock.
    fn time(&self, which: &'static str) -> Result<u64, DeviceError> {
        let wrong = |expected: &str, found: &str| Err(DeviceError::invalid(which, expected, found));
        if !self.timing {
            return wrong("an event made with timing", "one made without");
        }
        let Some(recording) = self.latest() else {
            return wrong("a recorded event", "one that was never recorded");
        };
        if !recording.reached.is_reached()? {
            return wrong("an event that is complete", "one that is not");
        }
        let event = match &recording.time {
            Some(Time::Host(time)) => return time.wait(self.device),
            Some(Time::OtherProfile(other)) => other.raw(),
            Some(Time::Profile) | None => recording.reached.raw(),
        };
        wait_for_events(&[event]).map_err(failed("clWaitForEvents", self.device))?;
        let time = get_event_profiling_data(event, CL_PROFILING_COMMAND_END)
            .map_err(failed("clGetEventProfilingInfo", self.device))?;
        Ok(number(Ok(time)))
    }

    fn latest(&self) -> Option<Arc<Recording>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The time from one event to the other.
pub(crate) fn elapsed(begin: &SyclEvent, end: &SyclEvent) -> Result<Duration, DeviceError> {
    let begin = begin.time("the first event of an elapsed time")?;
    let end = end.time("the second event of an elapsed time")?;
    Ok(Duration::from_nanos(end.saturating_sub(begin)))
}

/// Holds `stream` back until what this returns is called or dropped.
pub(crate) fn gate(opened: &Opened, stream: &SyclStream) -> Result<Box<dyn FnOnce() + Send>, DeviceError> {
    if stream.is_immediate() {
        return Err(DeviceError::Unsupported { what: "gates in an immediate stream", device: opened.id() });
    }
    let event = create_user_event(opened.context.raw()).map_err(failed("clCreateUserEvent", opened.id()))?;
    // SAFETY: the event was just made, and is ours.
    let gate = Gate(unsafe { EventHandle::own(event) });
    stream.barrier(&[gate.0.raw()])?;
    stream.flush()?;
    Ok(Box::new(move || drop(gate)))
}

/// Calls `function` when what is now in `stream` is done.
pub(crate) fn call_host(stream: &SyclStream, function: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError> {
    let reached = stream.marker()?;
    call_when_reached(&reached, stream.opened.id(), function)?;
    stream.flush()
}

fn call_when_reached(reached: &Marker, device: DeviceId, function: HostFunction) -> Result<(), DeviceError> {
    let function: *mut HostFunction = Box::into_raw(Box::new(function));
    let set = set_event_callback(reached.raw(), CL_COMPLETE, run_host_function, function.cast());
    if let Err(code) = set {
        // SAFETY: the driver refused it, so that it is still ours alone.
        drop(unsafe { Box::from_raw(function) });
        return Err(failed("clSetEventCallback", device)(code));
    }
    Ok(())
}

impl HostTime {
    /// That of an event.
    fn of(reached: &Marker, device: DeviceId) -> Result<Arc<HostTime>, DeviceError> {
        static BEGIN: OnceLock<Instant> = OnceLock::new();

        let begin = *BEGIN.get_or_init(Instant::now);
        let time = Arc::new(HostTime::default());
        let told = Arc::clone(&time);
        let tell = move || {
            *told.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(begin.elapsed().as_nanos() as u64);
            told.told.notify_all();
        };
        call_when_reached(reached, device, Box::new(tell))?;
        Ok(time)
    }

    /// The event is reached: it is a matter of microseconds until the driver has called.
    fn wait(&self, device: DeviceId) -> Result<u64, DeviceError> {
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.told.wait_timeout_while(at, LATEST_CALL, |at| at.is_none());
        let (at, _) = waited.unwrap_or_else(PoisonError::into_inner);
        at.ok_or_else(|| {
            let found = format!("no call of {device} within {LATEST_CALL:?}");
            DeviceError::invalid("the time of an event", "a call of the driver when it is reached", found)
        })
    }
}

type HostFunction = Box<dyn FnOnce() + Send>;

extern "C" fn run_host_function(_event: cl_event, _status: cl_int, function: *mut c_void) {
    // SAFETY: it is the box that `call_host` gave away, and the driver calls this once.
    let function = unsafe { Box::from_raw(function.cast::<HostFunction>()) };
    // A panic must not reach the driver; the hook has reported it.
    let _ = catch_unwind(AssertUnwindSafe(function));
}

/// An event that the host sets, at the latest when it is dropped.
struct Gate(EventHandle);

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = set_user_event_status(self.0.raw(), CL_COMPLETE);
    }
}

impl Event for SyclEvent {
    /// The `cl_event` of the latest recording, alive until the next; 0 before the first.
    fn handle(&self) -> usize {
        self.latest().map_or(0, |recording| recording.reached.raw().addr())
    }
}
