//! Events.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cudarc::driver::sys::CUevent_flags;
use haloport_core::device::{DeviceError, Event};

use crate::driver::context::{Context, call};
use crate::driver::functions::{NOT_READY, SUCCESS};
use crate::driver::handles::EventHandle;
use crate::streams::stream::CudaStream;

/// A point in a stream (`cudaEvent_t`). If the event is recorded anew, a wait still refers to the earlier recording.
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
        // SAFETY: the call writes to a local variable, and the new event belongs to the handle.
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
        // SAFETY: event and stream are live. An event that was never recorded delays nothing.
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

    /// Checks that it has a time.
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

/// The time from one event to the other, with a resolution of about half a microsecond.
pub(crate) fn elapsed(begin: &CudaEvent, end: &CudaEvent) -> Result<Duration, DeviceError> {
    begin.check("the first event of an elapsed time")?;
    end.check("the second event of an elapsed time")?;
    let mut milliseconds = 0.0;
    let (first, second) = (begin.handle.raw(), end.handle.raw());
    // SAFETY: the events are live and recorded; the call writes to a local variable.
    unsafe { call!(&begin.handle.context, cuEventElapsedTime(&raw mut milliseconds, first, second)) }?;
    Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1000.0).unwrap_or(Duration::ZERO))
}

impl Event for CudaEvent {
    /// The `cudaEvent_t`.
    fn handle(&self) -> usize {
        self.handle.raw().expose_provenance()
    }
}
