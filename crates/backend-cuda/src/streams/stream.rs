//! The public stream.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::sys::CUstream;
use haloport_core::device::{DeviceId, Stream};

use crate::driver::context::Context;
use crate::driver::raw_stream::RawStream;
use crate::opened::Opened;

/// A stream (`cudaStream_t`), created by the backend or borrowed from another program.
#[derive(Clone)]
pub struct CudaStream {
    pub(crate) opened: Arc<Opened>,
    pub(crate) stream: RawStream,
}

impl CudaStream {
    pub(crate) fn new(opened: &Arc<Opened>, stream: RawStream) -> CudaStream {
        CudaStream { opened: Arc::clone(opened), stream }
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.stream.raw()
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.stream.context
    }

    /// Whether it is one of the default streams: other code works there, and the legacy one waits for them.
    pub(crate) fn is_default(&self) -> bool {
        self.handle() <= RawStream::LAST_DEFAULT
    }
}

impl fmt::Debug for CudaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaStream({:p} of {})", self.raw(), self.opened.id())
    }
}

impl Stream for CudaStream {
    fn handle(&self) -> usize {
        self.raw().expose_provenance()
    }

    fn device(&self) -> DeviceId {
        self.opened.id()
    }
}
