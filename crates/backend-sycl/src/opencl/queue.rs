//! Queues: the commands that go into them.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::mem;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cl3::command_queue::{
    CL_QUEUE_CONTEXT, CL_QUEUE_DEVICE, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE,
    CL_QUEUE_PROPERTIES, CL_QUEUE_PROPERTIES_ARRAY, create_command_queue_with_properties,
    enqueue_marker_with_wait_list, flush, get_command_queue_info,
};
use cl3::ext::{
    CL_QUEUE_PRIORITY_HIGH_KHR, CL_QUEUE_PRIORITY_KHR, CL_QUEUE_PRIORITY_LOW_KHR, CL_QUEUE_PRIORITY_MED_KHR,
    CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL,
};
use cl3::types::{cl_command_queue, cl_event, cl_int, cl_queue_properties};
use haloport_core::device::{DeviceError, DeviceId, Pointer, Priority};

use super::event::{Marker, Opening, Time};
use super::handles::{EventHandle, QueueHandle};
use super::kernel::Kernel;
use super::library::{checked, count_blocking_call, failed, length};
use super::place::Place;
use crate::driver::NdRange;
use crate::kind::Kind;

/// A queue of Haloport, or one of another program with a reference to it.
#[derive(Debug)]
pub(crate) struct Queue {
    place: Arc<Place>,
    queue: QueueHandle,
    in_order: bool,
    immediate: bool,
    /// Whether its events have a profile.
    profiling: bool,
    /// A second queue with profiling, made for the first event with timing: queues with profiling are slower.
    clock: OnceLock<QueueHandle>,
}

impl Queue {
    /// Makes an in-order queue.
    pub(crate) fn new(place: &Arc<Place>, priority: Priority) -> Result<Queue, DeviceError> {
        let level = match priority {
            Priority::High => CL_QUEUE_PRIORITY_HIGH_KHR,
            Priority::Normal => CL_QUEUE_PRIORITY_MED_KHR,
            Priority::Low => CL_QUEUE_PRIORITY_LOW_KHR,
        };
        let properties =
            if place.info.stream_priorities { [CL_QUEUE_PRIORITY_KHR, u64::from(level), 0] } else { [0; 3] };
        Ok(Queue::in_order_of(place, create(place, &properties)?, false))
    }

    /// Makes a queue whose commands are executed by the thread that puts them there, on a device that has such.
    pub(crate) fn immediate(place: &Arc<Place>) -> Result<Queue, DeviceError> {
        let properties =
            [CL_QUEUE_PROPERTIES as cl_queue_properties, CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL, 0];
        Ok(Queue::in_order_of(place, create(place, &properties)?, true))
    }

    fn in_order_of(place: &Arc<Place>, queue: QueueHandle, immediate: bool) -> Queue {
        let place = Arc::clone(place);
        Queue { place, queue, in_order: true, immediate, profiling: false, clock: OnceLock::new() }
    }

    /// Takes a reference to a queue of another program, if it is of this place.
    ///
    /// # Safety
    /// `handle` is a live `cl_command_queue`.
    pub(crate) unsafe fn of_handle(place: &Arc<Place>, handle: usize) -> Result<Queue, DeviceError> {
        // SAFETY: the caller's promise.
        let queue = unsafe { QueueHandle::retain(handle as *mut c_void) };
        Queue::foreign(place, queue.map_err(failed("clRetainCommandQueue", place.id()))?)
    }

    /// Takes a queue that another program made, if it is of this place.
    pub(crate) fn foreign(place: &Arc<Place>, queue: QueueHandle) -> Result<Queue, DeviceError> {
        let of = |name| get_command_queue_info(queue.raw(), name).map_or(0, isize::from).cast_unsigned();
        let (context, device) = (of(CL_QUEUE_CONTEXT), of(CL_QUEUE_DEVICE));
        if (context, device) != place.native() {
            return Err(DeviceError::invalid(
                "the handle of a SYCL stream",
                format!("a queue of {}", place.name()),
                format!("one of the context {context:#x} and the device {device:#x}"),
            ));
        }
        let properties = get_command_queue_info(queue.raw(), CL_QUEUE_PROPERTIES).map_or(0, u64::from);
        let immediate = is_immediate(queue.raw());
        let queue = Queue {
            place: Arc::clone(place),
            queue,
            in_order: immediate || properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0,
            immediate,
            profiling: properties & CL_QUEUE_PROFILING_ENABLE != 0,
            clock: OnceLock::new(),
        };
        if !queue.in_order && place.is_intels_cpu_runtime() {
            queue.keep_for_ever().map_err(failed("clRetainCommandQueue", place.id()))?;
        }
        Ok(queue)
    }

    /// Takes a reference that is never released, unless there is one.
    ///
    /// When the last reference to a queue that is out of order is released, Intel's CPU runtime (2026.2) waits for all
    /// its commands. If the thread that executed the last one does this, which no event excludes, it waits for itself,
    /// and no other work of the process gets that thread again.
    fn keep_for_ever(&self) -> Result<(), cl_int> {
        /// The queues that are kept: one reference is enough for each, and no other queue gets its address.
        static KEPT: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.contains(&self.handle()) {
            // SAFETY: the queue is live.
            mem::forget(unsafe { QueueHandle::retain(self.queue.raw()) }?);
            kept.insert(self.handle());
        }
        Ok(())
    }

    pub(crate) fn handle(&self) -> usize {
        self.queue.raw().addr()
    }

    pub(crate) fn is_in_order(&self) -> bool {
        self.in_order
    }

    /// Whether each command is executed by the thread that puts it there, before the call returns.
    pub(crate) fn is_immediate(&self) -> bool {
        self.immediate
    }

    /// Puts a copy into the queue. If `blocking`, it is complete when the call returns.
    ///
    /// # Safety
    /// As for [`Device::copy`](haloport_core::device::Device::copy), on this queue.
    pub(crate) unsafe fn copy(
        &self,
        ends: (Pointer, Pointer),
        bytes: usize,
        blocking: bool,
    ) -> Result<(), DeviceError> {
        if blocking {
            count_blocking_call();
        }
        let Place { unified, library, .. } = &*self.place;
        // SAFETY: the caller's promise.
        let status = unsafe { unified.copy(library, self.queue.raw(), ends, bytes, blocking) };
        checked(status, "copying memory", self.place.id())
    }

    /// Whether [`fill`](Queue::fill) takes elements of this value at this address.
    pub(crate) fn fills(&self, target: Pointer, element: &[u8]) -> bool {
        target.as_ptr().addr().is_multiple_of(element.len())
    }

    /// Puts a fill of `bytes` bytes into the queue.
    ///
    /// # Safety
    /// As for [`Device::fill`](haloport_core::device::Device::fill), on this queue, which [`fills`](Queue::fills) so.
    pub(crate) unsafe fn fill(
        &self,
        target: Pointer,
        element: &[u8],
        bytes: usize,
    ) -> Result<(), DeviceError> {
        let Place { unified, library, .. } = &*self.place;
        // SAFETY: the caller's promise, and the target is aligned.
        let status = unsafe { unified.fill(library, self.queue.raw(), target, element, bytes) };
        checked(status, "filling memory", self.place.id())
    }

    /// Puts a kernel into the queue, whose arguments are all set.
    ///
    /// # Safety
    /// As for [`Device::launch`](haloport_core::device::Device::launch), on this queue.
    pub(crate) unsafe fn launch(&self, kernel: &Kernel, range: NdRange) -> Result<(), DeviceError> {
        // Queue and kernel are live, and the sizes have three numbers each. The caller promised that the kernel may
        // run.
        let status = self.place.library.clEnqueueNDRangeKernel(
            self.queue.raw(),
            kernel.raw(),
            3,
            ptr::null(),
            range.global.as_ptr(),
            range.group.as_ptr(),
            0,
            ptr::null(),
            ptr::null_mut(),
        );
        checked(status, "clEnqueueNDRangeKernel", self.place.id())
    }

    /// Makes later commands wait for an event; if there is none, for all earlier commands.
    pub(crate) fn barrier(&self, event: Option<&Marker>) -> Result<(), DeviceError> {
        let event: Option<cl_event> = event.map(Marker::raw);
        let list = event.as_ref().map_or(ptr::null(), ptr::from_ref);
        let length = cl3::types::cl_uint::from(event.is_some());
        // Queue and event are live.
        let status =
            self.place.library.clEnqueueBarrierWithWaitList(self.queue.raw(), length, list, ptr::null_mut());
        checked(status, "clEnqueueBarrierWithWaitList", self.place.id())?;
        // In a queue that is out of order, PoCL 3.1 makes commands wait for the last barrier alone, and that barrier
        // for its events alone, not for the barrier before it. A barrier without events waits for everything.
        if self.in_order || event.is_none() { Ok(()) } else { self.barrier(None) }
    }

    /// Holds later commands back until the function is called or dropped.
    pub(crate) fn gate(&self) -> Result<Opening, DeviceError> {
        let (reached, open) = self.place.gate()?;
        self.barrier(Some(&reached))?;
        Ok(open)
    }

    /// Puts a marker into the queue, which is reached when all earlier commands are complete.
    pub(crate) fn marker(&self) -> Result<Marker, DeviceError> {
        let event = mark(self.queue.raw(), &[], self.place.id())?;
        Ok(Marker::new(event, self.in_order, self.place.id()))
    }

    /// The source of the time of a new marker of this queue.
    pub(crate) fn time_of(&self, reached: &Marker) -> Result<Time, DeviceError> {
        if self.place.kind == Kind::Cpu {
            return reached.host_time();
        }
        self.flush()?;
        if self.profiling {
            return Ok(Time::Profile);
        }
        let clock = match self.clock.get() {
            Some(clock) => clock,
            None => {
                let properties = [CL_QUEUE_PROPERTIES as cl_queue_properties, CL_QUEUE_PROFILING_ENABLE, 0];
                let clock = create(&self.place, &properties)?;
                self.clock.get_or_init(|| clock)
            }
        };
        let time = mark(clock.raw(), &[reached.raw()], self.place.id())?;
        flush(clock.raw()).map_err(failed("clFlush", self.place.id()))?;
        Ok(Time::OtherProfile(time))
    }

    /// Makes the driver begin with the commands in the queue, as every wait for one of its events requires.
    pub(crate) fn flush(&self) -> Result<(), DeviceError> {
        flush(self.queue.raw()).map_err(failed("clFlush", self.place.id()))
    }

    /// Blocks until all commands in the queue are complete.
    pub(crate) fn finish(&self) -> Result<(), DeviceError> {
        let marker = if self.in_order { None } else { self.marker().ok() };
        if let Some(marker) = marker.filter(|_| self.flush().is_ok()) {
            return marker.wait();
        }
        count_blocking_call();
        cl3::command_queue::finish(self.queue.raw()).map_err(failed("clFinish", self.place.id()))
    }
}

fn create(place: &Place, properties: &[cl_queue_properties]) -> Result<QueueHandle, DeviceError> {
    // SAFETY: context and device are live, the list ends with 0, and the new queue's reference has no other owner.
    unsafe {
        create_command_queue_with_properties(place.context.raw(), place.device.id(), properties.as_ptr())
            .map(|queue| QueueHandle::own(queue))
    }
    .map_err(failed("clCreateCommandQueueWithProperties", place.id()))
}

fn mark(queue: cl_command_queue, events: &[cl_event], id: DeviceId) -> Result<EventHandle, DeviceError> {
    let list = if events.is_empty() { ptr::null() } else { events.as_ptr() };
    // SAFETY: queue and events are live, and the new event's reference has no other owner.
    unsafe { enqueue_marker_with_wait_list(queue, length(events), list).map(|event| EventHandle::own(event)) }
        .map_err(failed("clEnqueueMarkerWithWaitList", id))
}

/// Whether the thread that puts a command into a queue executes it. The driver shows this only in the list of
/// properties that the queue was made with.
fn is_immediate(queue: cl_command_queue) -> bool {
    let properties =
        get_command_queue_info(queue, CL_QUEUE_PROPERTIES_ARRAY).map_or(Vec::new(), Vec::<u64>::from);
    properties.chunks_exact(2).any(|pair| {
        pair[0] == u64::from(CL_QUEUE_PROPERTIES) && pair[1] & CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL != 0
    })
}
