//! What the driver holds by handles.

use std::sync::Arc;

use haloport_cuda_ptx::Kernel;

use crate::lane::{Context, Lane};
use crate::memory::pages::{Addresses, Physical};
use crate::work::job::{Graph, Node, Work};
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
    /// Captured work.
    Graph(Arc<Graph>),
    /// Captured work that can be launched.
    ReadyGraph(Arc<Graph>),
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
            Object::Graph { .. } => "graph",
            Object::ReadyGraph { .. } => "ready graph",
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
    /// The same, if that was in a capture: its number, and the nodes before.
    pub(crate) captured: Option<(u64, Vec<usize>)>,
}

/// A module: its kernels, or only its source, if the compiler was the driver's own.
#[derive(Debug)]
pub(crate) enum Module {
    Kernels(Vec<Arc<Kernel>>),
    Source(String),
}

/// A capture that has not ended.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) number: u64,
    /// The stream in which it began.
    pub(crate) origin: usize,
    pub(crate) thread: u32,
    pub(crate) nodes: Vec<Node>,
    /// The streams that capture, each with the nodes that its next work comes after.
    pub(crate) tips: Vec<(usize, Vec<usize>)>,
    /// Whether a call came that is not allowed during a capture.
    pub(crate) is_invalid: bool,
}

impl Capture {
    /// Whether a stream captures.
    pub(crate) fn has(&self, stream: usize) -> bool {
        self.tips.iter().any(|(of, _)| *of == stream)
    }

    /// The nodes that the next work of a stream comes after, if the stream captures.
    pub(crate) fn tip(&mut self, stream: usize) -> Option<&mut Vec<usize>> {
        self.tips.iter_mut().find(|(of, _)| *of == stream).map(|(_, tip)| tip)
    }
}
