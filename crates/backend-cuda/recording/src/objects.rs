//! What lives in the driver besides memory.

use crate::capture::{CapturedAt, Work};
use crate::state::{INVALID_CONTEXT, INVALID_HANDLE, State, Status, current};

/// An object of the driver.
#[derive(Debug, Clone)]
pub(crate) enum Object {
    /// A primary context, and how often it was retained.
    Context {
        device: i32,
        retained: u32,
    },
    /// A context of somebody else.
    Foreign,
    Stream {
        context: usize,
    },
    Event {
        timing: bool,
        recorded: bool,
        /// Where it was recorded last, if a capture was there.
        captured: Option<CapturedAt>,
    },
    /// A module, with what it was loaded from.
    Module {
        text: String,
    },
    /// Work that was captured.
    Graph {
        work: Vec<Work>,
    },
    /// The same, made ready.
    ReadyGraph {
        work: Vec<Work>,
    },
    /// A function, which lives as long as its module.
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

impl State {
    /// That a context of ours is current.
    pub(crate) fn in_context(&self) -> Result<usize, Status> {
        let context = current();
        match self.objects.get(&context) {
            Some(Object::Context { .. }) => Ok(context),
            _ => Err(INVALID_CONTEXT),
        }
    }

    /// That a stream lives, or is one of the default streams, and a context is current.
    pub(crate) fn stream(&self, handle: usize) -> Result<(), Status> {
        self.in_context()?;
        match (handle, self.objects.get(&handle)) {
            (0..=2, _) | (_, Some(Object::Stream { .. })) => Ok(()),
            _ => Err(INVALID_HANDLE),
        }
    }

    pub(crate) fn event(&mut self, handle: usize) -> Result<(&mut bool, bool), Status> {
        self.in_context()?;
        match self.objects.get_mut(&handle) {
            Some(Object::Event { timing, recorded, .. }) => Ok((recorded, *timing)),
            _ => Err(INVALID_HANDLE),
        }
    }

    /// Takes away an object of this kind.
    pub(crate) fn destroy(&mut self, handle: usize, kind: &str) -> Result<(), Status> {
        match self.objects.get(&handle) {
            Some(object) if object.kind() == kind => {
                self.objects.remove(&handle);
                Ok(())
            }
            _ => Err(INVALID_HANDLE),
        }
    }
}
