//! Streams: queues, and the commands that go into them.

use std::fmt;
use std::ptr;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use cl3::command_queue::{
    CL_QUEUE_CONTEXT, CL_QUEUE_DEVICE, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE,
    CL_QUEUE_PROPERTIES, CL_QUEUE_PROPERTIES_ARRAY, create_command_queue_with_properties,
    get_command_queue_data,
};
use cl3::event::{CL_COMPLETE, CL_EVENT_COMMAND_EXECUTION_STATUS, get_event_data, wait_for_events};
use cl3::types::{cl_command_queue, cl_device_id, cl_event, cl_int, cl_queue_properties};
use haloport_core::device::{DeviceError, DeviceId, Priority, Stream};

use crate::driver::{blocks, checked, count, failed, handle, number};
use crate::handles::{Context, EventHandle, Queue};
use crate::open::Opened;

/// The extension of a device on which queues can be made whose commands are done by the thread that puts them there.
pub(crate) const IMMEDIATE_QUEUES: &str = "cl_intel_exec_by_local_thread";

/// A property of queues, of that extension.
const CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL: cl_queue_properties = 1 << 31;

/// A queue of commands that run in order.
#[derive(Clone)]
pub struct SyclStream {
    pub(crate) opened: Arc<Opened>,
    queue: Arc<WorkQueue>,
}

/// A queue, ours or somebody else's.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    raw: cl_command_queue,
    /// What releases it, or our reference to it.
    _owned: Queue,
    in_order: bool,
    /// Whether each command is done by the thread that puts it there, before the call returns.
    immediate: bool,
    profiling: bool,
    /// A queue that takes times, made for the first event with timing: a queue that does is slower.
    clock: OnceLock<Queue>,
}

/// A point in a queue.
#[derive(Debug)]
pub(crate) struct Marker {
    event: EventHandle,
    in_order: bool,
    device: DeviceId,
}

// SAFETY: a queue belongs to no thread.
unsafe impl Send for WorkQueue {}
// SAFETY: commands may be put into a queue by several threads at once.
unsafe impl Sync for WorkQueue {}

impl WorkQueue {
    /// A queue of ours, in order.
    pub(crate) fn new(
        context: &Context,
        device: cl_device_id,
        id: DeviceId,
        priority: Priority,
        priorities: bool,
    ) -> Result<WorkQueue, DeviceError> {
        /// Of the extension `cl_khr_priority_hints`.
        const CL_QUEUE_PRIORITY_KHR: cl_queue_properties = 0x1096;
        let level = match priority {
            Priority::High => 1 << 0,
            Priority::Normal => 1 << 1,
            Priority::Low => 1 << 2,
        };
        let properties = if priorities { [CL_QUEUE_PRIORITY_KHR, level, 0] } else { [0; 3] };
        Ok(WorkQueue::own(create(context, device, id, &properties)?, false))
    }

    /// A queue of ours whose commands are done by the thread that puts them there, on a device with
    /// [`IMMEDIATE_QUEUES`].
    pub(crate) fn immediate(
        context: &Context,
        device: cl_device_id,
        id: DeviceId,
    ) -> Result<WorkQueue, DeviceError> {
        let properties =
            [CL_QUEUE_PROPERTIES as cl_queue_properties, CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL, 0];
        Ok(WorkQueue::own(create(context, device, id, &properties)?, true))
    }

    fn own(queue: Queue, immediate: bool) -> WorkQueue {
        let (raw, clock) = (queue.raw(), OnceLock::new());
        WorkQueue { raw, _owned: queue, in_order: true, immediate, profiling: false, clock }
    }
}

fn create(
    context: &Context,
    device: cl_device_id,
    id: DeviceId,
    properties: &[cl_queue_properties],
) -> Result<Queue, DeviceError> {
    // SAFETY: context and device are live, the list ends with 0, and the queue that is made is ours.
    unsafe {
        create_command_queue_with_properties(context.raw(), device, properties.as_ptr())
            .map(|queue| Queue::own(queue))
    }
    .map_err(failed("clCreateCommandQueueWithProperties", id))
}

/// Whether a queue was made to do its commands in the thread that puts them there. The driver says so in the list of
/// properties that it was made with alone.
fn is_immediate(queue: cl_command_queue) -> bool {
    let bytes = get_command_queue_data(queue, CL_QUEUE_PROPERTIES_ARRAY).unwrap_or_default();
    let word = |bytes: &[u8]| number(Ok(bytes.to_vec()));
    bytes.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..]))).any(|(name, value)| {
        name == u64::from(CL_QUEUE_PROPERTIES) && value & CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL != 0
    })
}

impl SyclStream {
    pub(crate) fn new(opened: &Arc<Opened>, queue: Arc<WorkQueue>) -> SyclStream {
        SyclStream { opened: Arc::clone(opened), queue }
    }

    /// A stream on a queue that is no stream yet.
    pub(crate) fn with_queue(opened: &Arc<Opened>, queue: WorkQueue) -> SyclStream {
        let queue = Arc::new(queue);
        let mut queues = opened.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
        SyclStream::new(opened, queue)
    }

    /// A queue that somebody else made and keeps alive. We take a reference of our own for as long: whoever waits for all
    /// streams may still be using it when the last clone of this goes.
    ///
    /// # Safety
    /// `raw` is a live queue, and outlives all clones of what this returns.
    pub(crate) unsafe fn borrow(
        opened: &Arc<Opened>,
        raw: cl_command_queue,
    ) -> Result<SyclStream, DeviceError> {
        // SAFETY: the caller promised a live queue.
        let queue = unsafe { Queue::retain(raw) }.map_err(failed("clRetainCommandQueue", opened.id()))?;
        SyclStream::share(opened, queue)
    }

    /// A queue that somebody else made, and of which this is a reference.
    pub(crate) fn share(opened: &Arc<Opened>, queue: Queue) -> Result<SyclStream, DeviceError> {
        let raw = queue.raw();
        let of = |name| get_command_queue_data(raw, name);
        let (context, device) = (handle(of(CL_QUEUE_CONTEXT)), handle(of(CL_QUEUE_DEVICE)));
        if context != opened.context.raw() || device != opened.device {
            return Err(DeviceError::invalid(
                "the handle of a SYCL stream",
                format!("a queue of the context {:p} of {}", opened.context.raw(), opened.id()),
                format!("one of the context {context:p} and the device {device:p}"),
            ));
        }
        let properties = number(of(CL_QUEUE_PROPERTIES));
        let immediate = is_immediate(raw);
        let queue = WorkQueue {
            raw,
            _owned: queue,
            in_order: immediate || properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0,
            immediate,
            profiling: properties & CL_QUEUE_PROFILING_ENABLE != 0,
            clock: OnceLock::new(),
        };
        Ok(SyclStream::with_queue(opened, queue))
    }

    /// Puts one command into the queue, after all that is there and before all that follows.
    pub(crate) fn put(
        &self,
        call: &'static str,
        command: impl FnOnce(cl_command_queue) -> Option<cl_int>,
    ) -> Result<(), DeviceError> {
        if !self.queue.in_order {
            self.barrier(&[])?;
        }
        checked(command(self.queue.raw), call, self.opened.id())?;
        if !self.queue.in_order {
            self.barrier(&[])?;
        }
        Ok(())
    }

    /// Makes later commands wait for `events`, or, without any, for all earlier commands.
    pub(crate) fn barrier(&self, events: &[cl_event]) -> Result<(), DeviceError> {
        let list = if events.is_empty() { ptr::null() } else { events.as_ptr() };
        // Queue and events are live.
        let status = self.opened.library.clEnqueueBarrierWithWaitList(
            self.queue.raw,
            count(events),
            list,
            ptr::null_mut(),
        );
        checked(status, "clEnqueueBarrierWithWaitList", self.opened.id())?;
        // PoCL 3.1 has commands of a queue that is out of order wait for the last barrier alone, and that one for its events
        // alone, not for the barrier before it. One without events waits for everything.
        if self.queue.in_order || events.is_empty() { Ok(()) } else { self.barrier(&[]) }
    }

    /// A point that is reached when all that is now in the queue is done.
    pub(crate) fn marker(&self) -> Result<Marker, DeviceError> {
        let device = self.opened.id();
        let event = mark(self.queue.raw, &[], device)?;
        Ok(Marker { event, in_order: self.queue.in_order, device })
    }

    /// An event whose profile has the time at which `reached`, a marker of this stream, is reached; `None` if that is
    /// `reached` itself. Not for CPUs, which may have no thread free for it.
    pub(crate) fn clock(&self, reached: &Marker) -> Result<Option<EventHandle>, DeviceError> {
        if self.queue.profiling {
            return Ok(None);
        }
        let Opened { context, device, info, .. } = &*self.opened;
        let clock = match self.queue.clock.get() {
            Some(clock) => clock,
            None => {
                let properties = [CL_QUEUE_PROPERTIES as cl_queue_properties, CL_QUEUE_PROFILING_ENABLE, 0];
                let clock = create(context, *device, info.id, &properties)?;
                self.queue.clock.get_or_init(|| clock)
            }
        };
        let time = mark(clock.raw(), &[reached.raw()], info.id)?;
        cl3::command_queue::flush(clock.raw()).map_err(failed("clFlush", info.id))?;
        Ok(Some(time))
    }

    /// Lets the driver begin with what is in the queue. Whoever waits for an event of it needs that.
    pub(crate) fn flush(&self) -> Result<(), DeviceError> {
        cl3::command_queue::flush(self.queue.raw).map_err(failed("clFlush", self.opened.id()))
    }

    /// Waits for all that is in the queue.
    pub(crate) fn finish(&self) -> Result<(), DeviceError> {
        let marker = if self.queue.in_order { None } else { self.marker().ok() };
        if let Some(marker) = marker.filter(|_| self.flush().is_ok()) {
            return marker.wait();
        }
        blocks();
        cl3::command_queue::finish(self.queue.raw).map_err(failed("clFinish", self.opened.id()))
    }

    /// Whether its work is done when a call returns.
    pub(crate) fn is_immediate(&self) -> bool {
        self.queue.immediate
    }

    /// Whether calls of the driver that block may be made on the queue. See [`Marker::wait`].
    pub(crate) fn may_block(&self) -> bool {
        self.queue.in_order
    }
}

impl Marker {
    pub(crate) fn raw(&self) -> cl_event {
        self.event.raw()
    }

    /// Blocks until it is reached, or what is before it has failed. The queue was flushed.
    ///
    /// Where commands may run in any order, the thread looks again and again: Intel's CPU runtime (2026.2) has a thread that
    /// waits for such a queue work on commands meanwhile, and take on other threads' waits, so that two of them wait for each
    /// other for ever.
    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        const YIELDS: u32 = 200;
        blocks();
        let mut looks = 0;
        while !self.in_order && self.is_reached() == Ok(false) {
            if looks < YIELDS {
                thread::yield_now()
            } else {
                thread::sleep(Duration::from_micros(50))
            }
            looks += 1;
        }
        // Also where it is reached: what was written is seen after this call, which gives the error if there is one.
        wait_for_events(&[self.raw()]).map_err(failed("clWaitForEvents", self.device))
    }

    /// Whether it is reached.
    pub(crate) fn is_reached(&self) -> Result<bool, DeviceError> {
        let status = get_event_data(self.raw(), CL_EVENT_COMMAND_EXECUTION_STATUS)
            .map_err(failed("clGetEventInfo", self.device))?;
        match number(Ok(status)) as u32 as cl_int {
            CL_COMPLETE => Ok(true),
            code if code < 0 => Err(failed("the work before an event", self.device)(code)),
            _ => Ok(false),
        }
    }
}

/// Waits for all that is in all streams, and gives the first error.
pub(crate) fn finish_all(opened: &Arc<Opened>) -> Result<(), DeviceError> {
    let queues = opened.queues.lock().unwrap_or_else(PoisonError::into_inner);
    let others: Vec<Arc<WorkQueue>> = queues.iter().filter_map(Weak::upgrade).collect();
    // Nobody waits for this one to make a stream.
    drop(queues);
    let all = others.iter().chain([&opened.default]);
    // All are waited for, also where one has failed.
    let ends: Vec<_> = all.map(|queue| SyclStream::new(opened, Arc::clone(queue)).finish()).collect();
    ends.into_iter().collect()
}

fn mark(queue: cl_command_queue, events: &[cl_event], id: DeviceId) -> Result<EventHandle, DeviceError> {
    let list = if events.is_empty() { ptr::null() } else { events.as_ptr() };
    // SAFETY: queue and events are live, and the event that is made is ours.
    unsafe {
        cl3::command_queue::enqueue_marker_with_wait_list(queue, count(events), list)
            .map(|event| EventHandle::own(event))
    }
    .map_err(failed("clEnqueueMarkerWithWaitList", id))
}

impl fmt::Debug for SyclStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SyclStream({:p} of {})", self.queue.raw, self.opened.id())
    }
}

impl Stream for SyclStream {
    fn handle(&self) -> usize {
        self.queue.raw.addr()
    }

    fn device(&self) -> DeviceId {
        self.opened.id()
    }
}
