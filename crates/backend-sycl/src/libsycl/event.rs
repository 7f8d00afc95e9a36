//! Points in queues.

use std::ffi::c_int;
use std::ptr;
use std::thread;
use std::time::Duration;

use haloport_core::device::{DeviceError, DeviceId};

use super::handles::EventHandle;
use super::shim::{Functions, Object};
use crate::opencl::library::count_blocking_call;

/// A point in a queue.
pub(crate) struct Marker {
    functions: &'static Functions,
    event: EventHandle,
    in_order: bool,
    device: DeviceId,
}

impl Marker {
    /// The marker behind an event that `make` makes. `in_order`: whether it is one of a queue that is in order, or of none.
    pub(super) fn made(
        functions: &'static Functions,
        in_order: bool,
        device: DeviceId,
        call: &'static str,
        make: impl FnOnce(*mut Object) -> c_int,
    ) -> Result<Marker, DeviceError> {
        let mut raw = ptr::null_mut();
        functions.checked(make(&raw mut raw), call, device)?;
        // SAFETY: the call has made the event for its caller.
        let event = unsafe { EventHandle::own(functions, raw) };
        Ok(Marker { functions, event, in_order, device })
    }

    pub(super) fn raw(&self) -> Object {
        self.event.raw()
    }

    /// The address of the `sycl::event`.
    pub(crate) fn handle(&self) -> usize {
        // SAFETY: the event is live.
        unsafe { (self.functions.event_handle)(self.event.raw()) }.addr()
    }

    /// Blocks until the marker is reached.
    ///
    /// For a queue that is out of order, the thread polls: in Intel's CPU runtime (2026.2), on which SYCL's OpenCL
    /// backend may stand, two threads that wait for such queues can wait for each other for ever.
    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        const YIELDS: u32 = 200;
        count_blocking_call();
        let mut polls = 0;
        while !self.in_order && !self.is_reached()? {
            if polls < YIELDS {
                thread::yield_now()
            } else {
                thread::sleep(Duration::from_micros(50))
            }
            polls += 1;
        }
        // SAFETY: the event is live.
        let status = unsafe { (self.functions.event_wait)(self.event.raw()) };
        self.functions.checked(status, "sycl::event::wait", self.device)
    }

    pub(crate) fn is_reached(&self) -> Result<bool, DeviceError> {
        let mut reached = 0;
        // SAFETY: the event is live.
        let status = unsafe { (self.functions.event_is_reached)(self.event.raw(), &raw mut reached) };
        self.functions.checked(status, "the status of a sycl::event", self.device)?;
        Ok(reached != 0)
    }

    /// The time at which the marker, which belongs to a queue with profiling, was reached: waits for it.
    pub(crate) fn time(&self) -> Result<u64, DeviceError> {
        let mut nanoseconds = 0;
        // SAFETY: the event is live.
        let status = unsafe { (self.functions.event_time)(self.event.raw(), &raw mut nanoseconds) };
        self.functions.checked(status, "the time of a sycl::event", self.device)?;
        Ok(nanoseconds)
    }
}

impl std::fmt::Debug for Marker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Marker({:?} of {})", self.event, self.device)
    }
}
