//! What the driver holds: objects, allocations and captures.

use std::alloc::Layout;
use std::collections::BTreeMap;

/// An object of the driver.
#[derive(Debug, Clone)]
pub(crate) enum Object {
    /// A primary context, with the number of times that it was retained.
    Context {
        device: i32,
        retained: u32,
    },
    /// A context of another program.
    Foreign,
    Stream {
        context: usize,
    },
    Event {
        timing: bool,
        recorded: bool,
        /// Where it was last recorded, if that was in a capture.
        captured: Option<CapturedAt>,
    },
    /// A module, with its source.
    Module {
        text: String,
    },
    /// Captured work.
    Graph {
        work: Vec<Work>,
    },
    /// Captured work that can be launched.
    ReadyGraph {
        work: Vec<Work>,
    },
    /// A function; it lives as long as its module.
    Function {
        module: usize,
        name: String,
    },
}

impl Object {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Object::Context { .. } => "context",
            Object::Foreign => "foreign context",
            Object::Stream { .. } => "stream",
            Object::Event { .. } => "event",
            Object::Module { .. } => "module",
            Object::Graph { .. } => "graph",
            Object::ReadyGraph { .. } => "ready graph",
            Object::Function { .. } => "function",
        }
    }
}

/// An allocation.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) layout: Layout,
    /// The function that frees it.
    pub(crate) freed_by: &'static str,
    /// The context that was current when it was allocated.
    pub(crate) context: usize,
    pub(crate) managed: bool,
}

/// Work that changes memory. Kernels and waits change none here.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Copies bytes from one address to another.
    Copy { source: u64, target: u64, bytes: usize },
    /// Repeats these bytes.
    Fill { target: u64, pattern: Vec<u8>, count: usize },
    /// Writes a number that other threads may read meanwhile.
    Number { target: u64, number: u32 },
}

/// A capture that has not ended.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) thread: u32,
    pub(crate) work: Vec<Work>,
    /// The number of calls that each of its streams got.
    pub(crate) given: BTreeMap<usize, usize>,
    /// The number of those that another of its streams has waited for.
    pub(crate) joined: BTreeMap<usize, usize>,
    /// Whether a call came that is not allowed during a capture.
    pub(crate) is_invalid: bool,
}

/// The position in a capture at which an event was recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CapturedAt {
    /// The stream in which the capture began.
    pub(crate) origin: usize,
    pub(crate) stream: usize,
    /// The number of calls that the stream had got.
    pub(crate) given: usize,
}

impl Work {
    /// The addresses and lengths of the memory that it reads and writes.
    pub(crate) fn ranges(&self) -> Vec<(u64, usize)> {
        match self {
            Work::Copy { source, target, bytes } => vec![(*source, *bytes), (*target, *bytes)],
            Work::Fill { target, pattern, count } => vec![(*target, pattern.len() * count)],
            Work::Number { target, .. } => vec![(*target, size_of::<u32>())],
        }
    }
}
