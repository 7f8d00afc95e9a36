//! Queues as streams: the commands that go into them.

use std::fmt;
use std::sync::{Arc, PoisonError, Weak};

use haloport_core::device::{DeviceError, DeviceId, Pointer, Stream};

use crate::driver::{Marker, Queue, Time};
use crate::opencl::event::Opening;
use crate::opened::Opened;

/// A queue of commands that run in order.
#[derive(Clone)]
pub struct SyclStream {
    pub(crate) opened: Arc<Opened>,
    queue: Arc<Queue>,
}

impl SyclStream {
    pub(crate) fn new(opened: &Arc<Opened>, queue: Arc<Queue>) -> SyclStream {
        SyclStream { opened: Arc::clone(opened), queue }
    }

    /// Makes a stream of a queue that is not yet one. A queue that another program made is kept alive by a reference of
    /// its own: a thread that waits for all streams may still use it when the last clone of the stream is dropped.
    pub(crate) fn with_queue(opened: &Arc<Opened>, queue: Queue) -> SyclStream {
        let queue = Arc::new(queue);
        let mut queues = opened.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
        SyclStream::new(opened, queue)
    }

    /// Puts one command into the queue, after all earlier commands and before all later ones.
    pub(crate) fn put(
        &self,
        command: impl FnOnce(&Queue) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        if self.queue.is_in_order() {
            return command(&self.queue);
        }
        self.queue.barrier(None)?;
        command(&self.queue)?;
        self.queue.barrier(None)
    }

    /// Makes later commands wait for `event`.
    pub(crate) fn wait_for(&self, event: &Marker) -> Result<(), DeviceError> {
        self.queue.barrier(Some(event))
    }

    /// Puts a marker into the queue, which is reached when all earlier commands are complete.
    pub(crate) fn marker(&self) -> Result<Marker, DeviceError> {
        self.queue.marker()
    }

    /// Holds later commands back until the function is called or dropped.
    pub(crate) fn gate(&self) -> Result<Opening, DeviceError> {
        self.queue.gate()
    }

    /// The source of the time of a new marker of this stream.
    pub(crate) fn time_of(&self, reached: &Marker) -> Result<Time, DeviceError> {
        self.queue.time_of(reached)
    }

    /// Makes the driver begin with the commands in the queue, as every wait for one of its events requires.
    pub(crate) fn flush(&self) -> Result<(), DeviceError> {
        self.queue.flush()
    }

    /// Blocks until all commands in the queue are complete.
    pub(crate) fn finish(&self) -> Result<(), DeviceError> {
        self.queue.finish()
    }

    /// Whether the queue takes such a fill. See [`Queue::fills`].
    pub(crate) fn fills(&self, target: Pointer, element: &[u8]) -> bool {
        self.queue.fills(target, element)
    }

    /// Whether each command is complete when the call that puts it there returns.
    pub(crate) fn is_immediate(&self) -> bool {
        self.queue.is_immediate()
    }

    /// Whether blocking calls of the driver are allowed on the queue. See [`Marker::wait`].
    pub(crate) fn may_block(&self) -> bool {
        self.queue.is_in_order()
    }
}

/// Blocks until all commands in all streams are complete, and returns the first error.
pub(crate) fn finish_all(opened: &Arc<Opened>) -> Result<(), DeviceError> {
    let queues = opened.queues.lock().unwrap_or_else(PoisonError::into_inner);
    let others: Vec<Arc<Queue>> = queues.iter().filter_map(Weak::upgrade).collect();
    // Other threads can make streams meanwhile.
    drop(queues);
    let all = others.iter().chain([&opened.default]);
    // Wait for every stream, even if one has failed.
    let ends: Vec<_> = all.map(|queue| queue.finish()).collect();
    ends.into_iter().collect()
}

impl fmt::Debug for SyclStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SyclStream({:#x} of {})", self.handle(), self.opened.id())
    }
}

impl Stream for SyclStream {
    /// The address of the `cl_command_queue`, or of the `sycl::queue` if the device was opened by one.
    fn handle(&self) -> usize {
        self.queue.handle()
    }

    fn device(&self) -> DeviceId {
        self.opened.id()
    }
}
