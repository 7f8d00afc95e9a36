//! Queues as streams: the commands that go into them.

use std::fmt;
use std::ptr;
use std::sync::{Arc, PoisonError, Weak};

use cl3::command_queue::{CL_QUEUE_CONTEXT, CL_QUEUE_DEVICE, get_command_queue_info};
use cl3::types::{cl_command_queue, cl_event, cl_int};
use haloport_core::device::{DeviceError, DeviceId, Stream};

use crate::opencl::handles::{EventHandle, Queue};
use crate::opencl::library::{checked, count_blocking_call, failed, length};
use crate::opencl::opened::Opened;
use crate::opencl::queue::{Marker, WorkQueue};

/// A queue of commands that run in order.
#[derive(Clone)]
pub struct SyclStream {
    pub(crate) opened: Arc<Opened>,
    queue: Arc<WorkQueue>,
}

impl SyclStream {
    pub(crate) fn new(opened: &Arc<Opened>, queue: Arc<WorkQueue>) -> SyclStream {
        SyclStream { opened: Arc::clone(opened), queue }
    }

    /// Makes a stream of a queue that is not yet one.
    pub(crate) fn with_queue(opened: &Arc<Opened>, queue: WorkQueue) -> SyclStream {
        let queue = Arc::new(queue);
        let mut queues = opened.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
        SyclStream::new(opened, queue)
    }

    /// Makes a stream of a queue that another program made and keeps alive. The stream has a reference of its own: a
    /// thread that waits for all streams may still use the queue when the last clone of the stream is dropped.
    ///
    /// # Safety
    /// `raw` is a live queue, and outlives all clones of the stream.
    pub(crate) unsafe fn borrow(
        opened: &Arc<Opened>,
        raw: cl_command_queue,
    ) -> Result<SyclStream, DeviceError> {
        // SAFETY: the caller promised a live queue.
        let queue = unsafe { Queue::retain(raw) }.map_err(failed("clRetainCommandQueue", opened.id()))?;
        SyclStream::share(opened, queue)
    }

    /// Makes a stream of a queue that another program made.
    pub(crate) fn share(opened: &Arc<Opened>, queue: Queue) -> Result<SyclStream, DeviceError> {
        let of = |name| get_command_queue_info(queue.raw(), name).map_or(0, isize::from).cast_unsigned();
        let (context, device) = (of(CL_QUEUE_CONTEXT), of(CL_QUEUE_DEVICE));
        if context != opened.context.raw().addr() || device != opened.device.id().addr() {
            return Err(DeviceError::invalid(
                "the handle of a SYCL stream",
                format!("a queue of the context {:p} of {}", opened.context.raw(), opened.id()),
                format!("one of the context {context:#x} and the device {device:#x}"),
            ));
        }
        let queue = WorkQueue::foreign(queue);
        if !queue.in_order && opened.is_intels_cpu_runtime() {
            queue.keep_for_ever().map_err(failed("clRetainCommandQueue", opened.id()))?;
        }
        Ok(SyclStream::with_queue(opened, queue))
    }

    /// Puts one command into the queue, after all earlier commands and before all later ones.
    pub(crate) fn put(
        &self,
        call: &'static str,
        command: impl FnOnce(cl_command_queue) -> Option<cl_int>,
    ) -> Result<(), DeviceError> {
        if !self.queue.in_order {
            self.barrier(&[])?;
        }
        checked(command(self.queue.raw()), call, self.opened.id())?;
        if !self.queue.in_order {
            self.barrier(&[])?;
        }
        Ok(())
    }

    /// Makes later commands wait for `events`, or, if there are none, for all earlier commands.
    pub(crate) fn barrier(&self, events: &[cl_event]) -> Result<(), DeviceError> {
        let list = if events.is_empty() { ptr::null() } else { events.as_ptr() };
        // Queue and events are live.
        let status = self.opened.library.clEnqueueBarrierWithWaitList(
            self.queue.raw(),
            length(events),
            list,
            ptr::null_mut(),
        );
        checked(status, "clEnqueueBarrierWithWaitList", self.opened.id())?;
        // In a queue that is out of order, PoCL 3.1 makes commands wait for the last barrier alone, and that barrier
        // for its events alone, not for the barrier before it. A barrier without events waits for everything.
        if self.queue.in_order || events.is_empty() { Ok(()) } else { self.barrier(&[]) }
    }

    /// Puts a marker into the queue, which is reached when all earlier commands are complete.
    pub(crate) fn marker(&self) -> Result<Marker, DeviceError> {
        self.queue.marker(self.opened.id())
    }

    /// An event whose profile holds the time at which `reached`, a marker of this stream, is reached; `None` if that
    /// event is `reached` itself. Not for CPUs, which may have no thread free for it.
    pub(crate) fn clock(&self, reached: &Marker) -> Result<Option<EventHandle>, DeviceError> {
        if self.queue.profiling {
            return Ok(None);
        }
        self.queue.clock(&self.opened.context, self.opened.device, reached).map(Some)
    }

    /// Makes the driver begin with the commands in the queue, as every wait for one of its events requires.
    pub(crate) fn flush(&self) -> Result<(), DeviceError> {
        cl3::command_queue::flush(self.queue.raw()).map_err(failed("clFlush", self.opened.id()))
    }

    /// Blocks until all commands in the queue are complete.
    pub(crate) fn finish(&self) -> Result<(), DeviceError> {
        let marker = if self.queue.in_order { None } else { self.marker().ok() };
        if let Some(marker) = marker.filter(|_| self.flush().is_ok()) {
            return marker.wait();
        }
        count_blocking_call();
        cl3::command_queue::finish(self.queue.raw()).map_err(failed("clFinish", self.opened.id()))
    }

    /// Whether each command is complete when the call that puts it there returns.
    pub(crate) fn is_immediate(&self) -> bool {
        self.queue.immediate
    }

    /// Whether blocking calls of the driver are allowed on the queue. See [`Marker::wait`].
    pub(crate) fn may_block(&self) -> bool {
        self.queue.in_order
    }
}

/// Blocks until all commands in all streams are complete, and returns the first error.
pub(crate) fn finish_all(opened: &Arc<Opened>) -> Result<(), DeviceError> {
    let queues = opened.queues.lock().unwrap_or_else(PoisonError::into_inner);
    let others: Vec<Arc<WorkQueue>> = queues.iter().filter_map(Weak::upgrade).collect();
    // Other threads can make streams meanwhile.
    drop(queues);
    let all = others.iter().chain([&opened.default]);
    // Wait for every stream, even if one has failed.
    let ends: Vec<_> = all.map(|queue| SyclStream::new(opened, Arc::clone(queue)).finish()).collect();
    ends.into_iter().collect()
}

impl fmt::Debug for SyclStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SyclStream({:p} of {})", self.queue.raw(), self.opened.id())
    }
}

impl Stream for SyclStream {
    fn handle(&self) -> usize {
        self.queue.raw().addr()
    }

    fn device(&self) -> DeviceId {
        self.opened.id()
    }
}
