//! Points in queues, and the times at which they are reached.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cl3::event::{
    CL_COMPLETE, CL_EVENT_COMMAND_EXECUTION_STATUS, CL_PROFILING_COMMAND_END, get_event_info,
    get_event_profiling_info, set_event_callback, set_user_event_status, wait_for_events,
};
use cl3::types::{cl_event, cl_int};
use haloport_core::device::{DeviceError, DeviceId};

use super::handles::EventHandle;
use super::library::{count_blocking_call, failed};

/// The longest time from when an event is reached until the driver makes the call that it was asked for.
const LATEST_CALL: Duration = Duration::from_secs(10);

/// A point in a queue.
#[derive(Debug)]
pub(crate) struct Marker {
    event: EventHandle,
    in_order: bool,
    device: DeviceId,
}

/// The source of the time at which a marker is reached, in nanoseconds.
#[derive(Debug)]
pub(crate) enum Time {
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
pub(crate) struct HostTime {
    at: Mutex<Option<u64>>,
    is_set: Condvar,
}

/// Opens a gate when it is called or dropped.
pub(crate) type Opening = Box<dyn FnOnce() + Send>;

/// An event that the host completes when this is dropped.
pub(super) struct Gate(pub(super) EventHandle);

impl Marker {
    /// The marker behind an event of a queue that is in order, or not.
    pub(super) fn new(event: EventHandle, in_order: bool, device: DeviceId) -> Marker {
        Marker { event, in_order, device }
    }

    pub(crate) fn raw(&self) -> cl_event {
        self.event.raw()
    }

    pub(crate) fn handle(&self) -> usize {
        self.raw().addr()
    }

    /// Blocks until the marker is reached, or a command before it has failed. The queue was flushed.
    ///
    /// For a queue that is out of order, the thread polls: in Intel's CPU runtime (2026.2), a thread that waits for
    /// such a queue executes commands meanwhile and takes on the waits of other threads, so that two threads can wait
    /// for each other for ever.
    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        const YIELDS: u32 = 200;
        count_blocking_call();
        let mut polls = 0;
        while !self.in_order && self.is_reached() == Ok(false) {
            if polls < YIELDS {
                thread::yield_now()
            } else {
                thread::sleep(Duration::from_micros(50))
            }
            polls += 1;
        }
        // Also if it is reached: this call makes what was written visible, and returns the error if there is one.
        wait_for_events(&[self.raw()]).map_err(failed("clWaitForEvents", self.device))
    }

    pub(crate) fn is_reached(&self) -> Result<bool, DeviceError> {
        let status = get_event_info(self.raw(), CL_EVENT_COMMAND_EXECUTION_STATUS)
            .map_err(failed("clGetEventInfo", self.device))?;
        match cl_int::from(status) {
            CL_COMPLETE => Ok(true),
            code if code < 0 => Err(failed("the work before an event", self.device)(code)),
            _ => Ok(false),
        }
    }

    /// The time at which the marker, which is reached, was reached.
    pub(crate) fn time(&self, time: &Time) -> Result<u64, DeviceError> {
        let event = match time {
            Time::Host(time) => return time.wait(self.device),
            Time::OtherProfile(other) => other.raw(),
            Time::Profile => self.raw(),
        };
        wait_for_events(&[event]).map_err(failed("clWaitForEvents", self.device))?;
        get_event_profiling_info(event, CL_PROFILING_COMMAND_END)
            .map(u64::from)
            .map_err(failed("clGetEventProfilingInfo", self.device))
    }

    /// Asks the driver to take the time of the host when the marker is reached.
    pub(super) fn host_time(&self) -> Result<Time, DeviceError> {
        static BEGIN: OnceLock<Instant> = OnceLock::new();

        let begin = *BEGIN.get_or_init(Instant::now);
        let time = Arc::new(HostTime::default());
        let at_call = Arc::clone(&time);
        let set = move || {
            *at_call.at.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(begin.elapsed().as_nanos() as u64);
            at_call.is_set.notify_all();
        };
        call_when_reached(self, Box::new(set))?;
        Ok(Time::Host(time))
    }
}

impl HostTime {
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

fn call_when_reached(reached: &Marker, function: HostFunction) -> Result<(), DeviceError> {
    let function: *mut HostFunction = Box::into_raw(Box::new(function));
    let set = set_event_callback(reached.raw(), CL_COMPLETE, run_host_function, function.cast());
    if let Err(code) = set {
        // SAFETY: the driver has refused the function, so it has no other owner.
        drop(unsafe { Box::from_raw(function) });
        return Err(failed("clSetEventCallback", reached.device)(code));
    }
    Ok(())
}

type HostFunction = Box<dyn FnOnce() + Send>;

extern "C" fn run_host_function(_event: cl_event, _status: cl_int, function: *mut c_void) {
    // SAFETY: `function` is the box that `call_when_reached` gave to the driver, which calls this once.
    let function = unsafe { Box::from_raw(function.cast::<HostFunction>()) };
    // A panic must not reach the driver; the panic hook has reported it.
    let _ = catch_unwind(AssertUnwindSafe(function));
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = set_user_event_status(self.0.raw(), CL_COMPLETE);
    }
}
