//! What devices of any backend make: streams, events, memory, lists of copies and kernels.

use std::any::Any;

use haloport_core::device::{self, Device, DeviceId, MemoryKind, Pointer};
#[cfg(feature = "cpu")]
use haloport_cpu::CpuDevice;
#[cfg(feature = "cuda")]
use haloport_cuda::CudaDevice;
#[cfg(feature = "sycl")]
use haloport_sycl::SyclDevice;

/// Evaluates an expression with the value of a backend that is inside a device, or inside what a device made.
macro_rules! inside {
    ($any:expr, |$value:ident| $body:expr) => {
        match $any {
            #[cfg(feature = "cpu")]
            Self::Cpu($value) => $body,
            #[cfg(feature = "cuda")]
            Self::Cuda($value) => $body,
            #[cfg(feature = "sycl")]
            Self::Sycl($value) => $body,
        }
    };
}
pub(super) use inside;

/// Defines what a device of any backend makes, by the associated type of [`Device`] that it stands for.
macro_rules! value {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Debug)]
        pub enum $name {
            /// Of the CPU.
            #[cfg(feature = "cpu")]
            Cpu(<CpuDevice as Device>::$name),
            /// Of an NVIDIA GPU.
            #[cfg(feature = "cuda")]
            Cuda(<CudaDevice as Device>::$name),
            /// Of a device of OpenCL.
            #[cfg(feature = "sycl")]
            Sycl(<SyclDevice as Device>::$name),
        }
    };
}

value! {
    /// A stream of an [`AnyDevice`](crate::AnyDevice). A [`Schedule`](crate::Schedule) takes that of the backend as well.
    #[derive(Clone)]
    Stream
}
value! {
    /// An event of an [`AnyDevice`](crate::AnyDevice).
    Event
}
value! {
    /// Memory of an [`AnyDevice`](crate::AnyDevice).
    Buffer
}
value! {
    /// A list of copies, laid out for an [`AnyDevice`](crate::AnyDevice).
    Copies
}
value! {
    /// A kernel, compiled for an [`AnyDevice`](crate::AnyDevice).
    Kernel
}
value! {
    /// A kernel with its arguments bound, for an [`AnyDevice`](crate::AnyDevice).
    Launch
}

impl device::Stream for Stream {
    fn handle(&self) -> usize {
        inside!(self, |stream| stream.handle())
    }

    fn device(&self) -> DeviceId {
        inside!(self, |stream| stream.device())
    }

    fn as_any(&self) -> &dyn Any {
        inside!(self, |stream| stream)
    }

    fn of_any(stream: &dyn Any) -> Option<Stream> {
        #[cfg(feature = "cpu")]
        if let Some(stream) = stream.downcast_ref() {
            return Some(Stream::Cpu(Clone::clone(stream)));
        }
        #[cfg(feature = "cuda")]
        if let Some(stream) = stream.downcast_ref() {
            return Some(Stream::Cuda(Clone::clone(stream)));
        }
        #[cfg(feature = "sycl")]
        if let Some(stream) = stream.downcast_ref() {
            return Some(Stream::Sycl(Clone::clone(stream)));
        }
        None
    }
}

impl device::Event for Event {
    fn handle(&self) -> usize {
        inside!(self, |event| event.handle())
    }
}

// SAFETY: each answer is that of the buffer inside.
unsafe impl device::Buffer for Buffer {
    fn pointer(&self) -> Pointer {
        inside!(self, |buffer| buffer.pointer())
    }

    fn bytes(&self) -> usize {
        inside!(self, |buffer| buffer.bytes())
    }

    fn kind(&self) -> MemoryKind {
        inside!(self, |buffer| buffer.kind())
    }

    fn device(&self) -> DeviceId {
        inside!(self, |buffer| buffer.device())
    }

    fn host_accessible(&self) -> bool {
        inside!(self, |buffer| buffer.host_accessible())
    }
}
