//! The public stream.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::sys::CUstream;
use haloport_core::device::{DeviceError, DeviceId, Priority, Stream};

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
    /// Creates a stream.
    pub(crate) fn new(opened: &Arc<Opened>, priority: Priority) -> Result<CudaStream, DeviceError> {
        let stream = RawStream::new(&opened.context, priority, opened.offers.priorities)?;
        Ok(CudaStream { opened: Arc::clone(opened), stream })
    }

    /// The legacy default stream.
    pub(crate) fn default_of(opened: &Arc<Opened>) -> CudaStream {
        CudaStream { opened: Arc::clone(opened), stream: RawStream::default_of(&opened.context) }
    }

    /// A stream that another program owns.
    ///
    /// # Safety
    /// As for [`RawStream::borrow`].
    pub(crate) unsafe fn borrow(opened: &Arc<Opened>, handle: usize) -> Result<CudaStream, DeviceError> {
        // SAFETY: the caller's promise.
        let stream = unsafe { RawStream::borrow(&opened.context, handle) }?;
        Ok(CudaStream { opened: Arc::clone(opened), stream })
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.stream.raw()
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.stream.context
    }

    /// Whether it is one of the default streams, which cannot be captured.
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
