//! Queues, and markers in them.

use std::collections::BTreeSet;
use std::mem;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use cl3::command_queue::{
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE, CL_QUEUE_PROPERTIES,
    CL_QUEUE_PROPERTIES_ARRAY, create_command_queue_with_properties, enqueue_marker_with_wait_list, flush,
    get_command_queue_info,
};
use cl3::event::{CL_COMPLETE, CL_EVENT_COMMAND_EXECUTION_STATUS, get_event_info, wait_for_events};
use cl3::ext::{
    CL_QUEUE_PRIORITY_HIGH_KHR, CL_QUEUE_PRIORITY_KHR, CL_QUEUE_PRIORITY_LOW_KHR, CL_QUEUE_PRIORITY_MED_KHR,
    CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL,
};
use cl3::types::{cl_command_queue, cl_event, cl_int, cl_queue_properties};
use haloport_core::device::{DeviceError, DeviceId, DeviceInfo, Priority};
use opencl3::device::Device;

use super::handles::{Context, EventHandle, Queue};
use super::library::{count_blocking_call, failed, length};

/// The extension for queues whose commands are executed by the thread that puts them there.
pub(crate) const IMMEDIATE_QUEUES: &str = "cl_intel_exec_by_local_thread";

/// A queue of Haloport, or one of another program with a reference to it.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    queue: Queue,
    pub(crate) in_order: bool,
    /// Whether each command is executed by the thread that puts it there, before the call returns.
    pub(crate) immediate: bool,
    /// Whether its events have a profile.
    pub(crate) profiling: bool,
    /// A second queue with profiling, made for the first event with timing: queues with profiling are slower.
    clock: OnceLock<Queue>,
}

/// A point in a queue.
#[derive(Debug)]
pub(crate) struct Marker {
    event: EventHandle,
    in_order: bool,
    device: DeviceId,
}

impl WorkQueue {
    /// Makes an in-order queue.
    pub(crate) fn new(
        context: &Context,
        device: Device,
        info: &DeviceInfo,
        priority: Priority,
    ) -> Result<WorkQueue, DeviceError> {
        let level = match priority {
            Priority::High => CL_QUEUE_PRIORITY_HIGH_KHR,
            Priority::Normal => CL_QUEUE_PRIORITY_MED_KHR,
            Priority::Low => CL_QUEUE_PRIORITY_LOW_KHR,
        };
        let properties =
            if info.stream_priorities { [CL_QUEUE_PRIORITY_KHR, u64::from(level), 0] } else { [0; 3] };
        Ok(WorkQueue::in_order(create(context, device, info.id, &properties)?, false))
    }

    /// Makes a queue whose commands are executed by the thread that puts them there. The device has
    /// [`IMMEDIATE_QUEUES`].
    pub(crate) fn immediate(
        context: &Context,
        device: Device,
        id: DeviceId,
    ) -> Result<WorkQueue, DeviceError> {
        let properties =
            [CL_QUEUE_PROPERTIES as cl_queue_properties, CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL, 0];
        Ok(WorkQueue::in_order(create(context, device, id, &properties)?, true))
    }

    fn in_order(queue: Queue, immediate: bool) -> WorkQueue {
        WorkQueue { queue, in_order: true, immediate, profiling: false, clock: OnceLock::new() }
    }

    /// Takes a queue that another program made.
    pub(crate) fn foreign(queue: Queue) -> WorkQueue {
        let properties = get_command_queue_info(queue.raw(), CL_QUEUE_PROPERTIES).map_or(0, u64::from);
        let immediate = is_immediate(queue.raw());
        WorkQueue {
            queue,
            in_order: immediate || properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0,
            immediate,
            profiling: properties & CL_QUEUE_PROFILING_ENABLE != 0,
            clock: OnceLock::new(),
        }
    }

    /// Takes a reference that is never released, unless there is one.
    ///
    /// When the last reference to a queue that is out of order is released, Intel's CPU runtime (2026.2) waits for all
    /// its commands. If the thread that executed the last one does this, which no event excludes, it waits for itself,
    /// and no other work of the process gets that thread again.
    pub(crate) fn keep_for_ever(&self) -> Result<(), cl_int> {
        /// The queues that are kept: one reference is enough for each, and no other queue gets its address.
        static KEPT: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.contains(&self.raw().addr()) {
            // SAFETY: the queue is live.
            mem::forget(unsafe { Queue::retain(self.raw()) }?);
            kept.insert(self.raw().addr());
        }
        Ok(())
    }

    pub(crate) fn raw(&self) -> cl_command_queue {
        self.queue.raw()
    }

    /// Puts a marker into the queue, which is reached when all earlier commands are complete.
    pub(crate) fn marker(&self, device: DeviceId) -> Result<Marker, DeviceError> {
        let event = mark(self.raw(), &[], device)?;
        Ok(Marker { event, in_order: self.in_order, device })
    }

    /// Makes an event with a profile that is reached together with `reached`, a marker of this queue.
    pub(crate) fn clock(
        &self,
        context: &Context,
        device: Device,
        reached: &Marker,
    ) -> Result<EventHandle, DeviceError> {
        let clock = match self.clock.get() {
            Some(clock) => clock,
            None => {
                let properties = [CL_QUEUE_PROPERTIES as cl_queue_properties, CL_QUEUE_PROFILING_ENABLE, 0];
                let clock = create(context, device, reached.device, &properties)?;
                self.clock.get_or_init(|| clock)
            }
        };
        let time = mark(clock.raw(), &[reached.raw()], reached.device)?;
        flush(clock.raw()).map_err(failed("clFlush", reached.device))?;
        Ok(time)
    }
}

impl Marker {
    pub(crate) fn raw(&self) -> cl_event {
        self.event.raw()
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
}

fn create(
    context: &Context,
    device: Device,
    id: DeviceId,
    properties: &[cl_queue_properties],
) -> Result<Queue, DeviceError> {
    // SAFETY: context and device are live, the list ends with 0, and the new queue's reference has no other owner.
    unsafe {
        create_command_queue_with_properties(context.raw(), device.id(), properties.as_ptr())
            .map(|queue| Queue::own(queue))
    }
    .map_err(failed("clCreateCommandQueueWithProperties", id))
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
