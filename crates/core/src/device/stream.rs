//! Streams and events, which order the work of a device.

use std::any::Any;
use std::fmt::Debug;

use super::DeviceId;

/// An in-order queue of work on one device. Cloning gives another handle to the same queue.
pub trait Stream: Clone + Debug + Send + Sync + 'static {
    /// The native handle as an integer: a `cudaStream_t`, a `cl_command_queue`, and 0 on the CPU.
    fn handle(&self) -> usize;

    /// The device of the stream.
    fn device(&self) -> DeviceId;

    /// The stream, to be downcast to the type of its backend. A type that holds streams of several backends hands out the one
    /// inside.
    fn as_any(&self) -> &dyn Any {
        self
    }

    /// A stream of this type, made of what [`as_any`](Stream::as_any) hands out; `None` if that is one of another backend.
    fn of_any(stream: &dyn Any) -> Option<Self> {
        stream.downcast_ref::<Self>().cloned()
    }
}

/// A point in a stream. An event that was never recorded counts as reached.
pub trait Event: Debug + Send + Sync + 'static {
    /// The native handle as an integer: a `cudaEvent_t`, a `cl_event`, and 0 on the CPU.
    fn handle(&self) -> usize;
}

/// A stream of any device, for calls that take streams of several devices. Every [`Stream`] implements it.
pub trait AnyStream: Send + Sync {
    /// The stream, to be downcast to its backend's type.
    fn as_any(&self) -> &dyn Any;

    /// The device of the stream.
    fn device_id(&self) -> DeviceId;
}

impl<S: Stream> AnyStream for S {
    fn as_any(&self) -> &dyn Any {
        Stream::as_any(self)
    }

    fn device_id(&self) -> DeviceId {
        self.device()
    }
}

/// How urgent the work of a stream is, on devices with [`stream_priorities`](super::DeviceInfo::stream_priorities).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Priority {
    /// After other work.
    Low,
    /// As usual.
    #[default]
    Normal,
    /// Before other work: right for packing and unpacking.
    High,
}
