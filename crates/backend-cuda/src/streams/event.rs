//! Events, and calls of the host: points in streams.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cudarc::driver::sys::{CUevent_flags, CUstream};
use haloport_core::device::{DeviceError, Event};

use crate::context::{Context, call};
use crate::driver::{NOT_READY, SUCCESS, Status};
use crate::handles::EventHandle;
use crate::stream::CudaStream;

/// A point in a stream: a `cudaEvent_t`. A wait keeps the recording that it was made for.
#[derive(Debug)]
pub struct CudaEvent {
    handle: EventHandle,
    timing: bool,
    recorded: AtomicBool,
}

impl CudaEvent {
    pub(crate) fn new(context: &Arc<Context>, timing: bool) -> Result<CudaEvent, DeviceError> {
        let flags =
            if timing { CUevent_flags::CU_EVENT_DEFAULT } else { CUevent_flags::CU_EVENT_DISABLE_TIMING };
        let mut raw = ptr::null_mut();
        // SAFETY: it writes to a place of ours, and the event that is made is ours.
        let handle = unsafe {
            call!(context, cuEventCreate(&raw mut raw, flags as u32))?;
            EventHandle::own(context, raw)
        };
        Ok(CudaEvent { handle, timing, recorded: AtomicBool::new(false) })
    }

    pub(crate) fn record(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        // SAFETY: event and stream are live.
        unsafe { call!(stream.context(), cuEventRecord(self.handle.raw(), stream.raw())) }?;
        self.recorded.store(true, Ordering::Release);
        Ok(())
    }

    pub(crate) fn make_wait(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        let no_flags = 0;
        // SAFETY: event and stream are live. An event that was never recorded holds nothing back.
        unsafe { call!(stream.context(), cuStreamWaitEvent(stream.raw(), self.handle.raw(), no_flags)) }
    }

    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        // SAFETY: the event is live.
        unsafe { call!(&self.handle.context, cuEventSynchronize(self.handle.raw())) }
    }

    pub(crate) fn is_reached(&self) -> Result<bool, DeviceError> {
        let context = &self.handle.context;
        let _entered = context.enter()?;
        // SAFETY: the event is live.
        match unsafe { (context.driver.cuEventQuery)(self.handle.raw()) } {
            SUCCESS => Ok(true),
            NOT_READY => Ok(false),
            status => Err(context.driver.failed("cuEventQuery", status, context.id)),
        }
    }

    /// That it has a time.
    fn check(&self, which: &'static str) -> Result<(), DeviceError> {
        let wrong = |expected: &str, found: &str| Err(DeviceError::invalid(which, expected, found));
        match (self.timing, self.recorded.load(Ordering::Acquire)) {
            (false, _) => wrong("an event made with timing", "one made without"),
            (_, false) => wrong("a recorded event", "one that was never recorded"),
            _ if !self.is_reached()? => wrong("an event that is complete", "one that is not"),
            _ => Ok(()),
        }
    }
}

/// The time from one event to the other, to about half a microsecond.
pub(crate) fn elapsed(begin: &CudaEvent, end: &CudaEvent) -> Result<Duration, DeviceError> {
    begin.check("the first event of an elapsed time")?;
    end.check("the second event of an elapsed time")?;
    let mut milliseconds = 0.0;
    let (first, second) = (begin.handle.raw(), end.handle.raw());
    // SAFETY: the events are live and recorded; it writes to a place of ours.
    unsafe { call!(&begin.handle.context, cuEventElapsedTime(&raw mut milliseconds, first, second)) }?;
    Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1000.0).unwrap_or(Duration::ZERO))
}

/// Calls `function` when what is now in `stream` is done.
pub(crate) fn call_host(stream: &CudaStream, function: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError> {
    let function: *mut HostFunction = Box::into_raw(Box::new(function));
    let no_flags = 0;
    // SAFETY: the stream is live, and the driver calls the function once, whatever becomes of the work before.
    let put = unsafe {
        call!(
            stream.context(),
            cuStreamAddCallback(stream.raw(), Some(run_host_function), function.cast(), no_flags)
        )
    };
    if put.is_err() {
        // SAFETY: the driver refused it, so that it is still ours alone.
        drop(unsafe { Box::from_raw(function) });
    }
    put
}

type HostFunction = Box<dyn FnOnce() + Send>;

unsafe extern "C" fn run_host_function(_stream: CUstream, _status: Status, function: *mut c_void) {
    // SAFETY: it is the box that `call_host` gave away, and the driver calls this once.
    let function = unsafe { Box::from_raw(function.cast::<HostFunction>()) };
    // A panic must not reach the driver; the hook has reported it.
    let _ = catch_unwind(AssertUnwindSafe(function));
}

impl Event for CudaEvent {
    /// The `cudaEvent_t`.
    fn handle(&self) -> usize {
        self.handle.raw().expose_provenance()
    }
}
