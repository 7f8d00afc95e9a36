//! The objects that the handles of the driver stand for.

use std::sync::Arc;

use haloport_cuda_ptx::Kernel;

use crate::lane::{Context, Lane};
use crate::memory::pages::{Addresses, Physical};
use crate::work::job::Work;
use crate::work::point::Point;
use crate::work::queue::Queue;

/// An object of the driver.
#[derive(Debug, Clone)]
pub(crate) enum Object {
    /// A primary context, with the number of times that it was retained.
    Context {
        context: Arc<Context>,
        retained: u32,
    },
    /// A context of another program.
    Foreign,
    Stream(Arc<Stream>),
    Event(Event),
    Module {
        module: Arc<Module>,
        /// The context that was current when it was loaded.
        context: usize,
    },
    /// A function; it lives as long as its module.
    Function {
        module: usize,
        /// The context of the module.
        context: usize,
        name: String,
        kernel: Option<Arc<Kernel>>,
    },
    /// Memory of `cuMemCreate`, or imported; its handle counts as a reference.
    Memory(Arc<Physical>),
    /// Reserved addresses; the handle is the first one.
    Addresses(Addresses),
}

impl Object {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Object::Context { .. } => "context",
            Object::Foreign => "foreign context",
            Object::Stream { .. } => "stream",
            Object::Event { .. } => "event",
            Object::Module { .. } => "module",
            Object::Memory { .. } => "memory",
            Object::Addresses { .. } => "addresses",
            Object::Function { .. } => "function",
        }
    }
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) lane: Arc<Lane>,
    pub(crate) queue: Arc<Queue>,
    /// Whether no other stream uses the queue.
    pub(crate) owns_queue: bool,
    /// Whether it and the default stream wait for each other.
    pub(crate) is_blocking: bool,
}

impl Stream {
    /// Puts work behind all that the stream has.
    pub(crate) fn put(&self, work: Work) {
        self.queue.put(&self.lane, work);
    }

    /// A point behind all that the stream has.
    pub(crate) fn point_behind(&self) -> Arc<Point> {
        let point = Point::new();
        self.put(Work::Record(Arc::clone(&point)));
        point
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owns_queue {
            self.queue.end();
        }
    }
}

/// An event.
#[derive(Debug, Clone, Default)]
pub(crate) struct Event {
    /// The context that was current when it was created.
    pub(crate) context: usize,
    pub(crate) has_time: bool,
    /// Where it was last recorded.
    pub(crate) point: Option<Arc<Point>>,
}

/// A module: its kernels, or only its source, if the compiler was the driver's own.
#[derive(Debug)]
pub(crate) enum Module {
    Kernels(Vec<Arc<Kernel>>),
    Source(String),
}

/// A capture that has not ended: what is put into its stream is not done.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) stream: usize,
    /// The thread that began it, which meanwhile makes no call that is not allowed during a capture.
    pub(crate) thread: u32,
    /// Whether such a call came.
    pub(crate) is_invalid: bool,
}
