//! Streams.

use std::ffi::c_int;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUstream, CUstream_flags};
use haloport_core::device::{DeviceError, DeviceId, Priority, Stream};

use crate::context::{Context, call};
use crate::handles::StreamHandle;
use crate::open::Opened;

/// A stream: a `cudaStream_t`, ours or somebody else's.
#[derive(Clone)]
pub struct CudaStream {
    pub(crate) opened: Arc<Opened>,
    raw: CUstream,
    /// What destroys it, if it is ours.
    _owned: Option<Arc<StreamHandle>>,
}

// SAFETY: a stream belongs to no thread.
unsafe impl Send for CudaStream {}
// SAFETY: work may be put into a stream by several threads at once.
unsafe impl Sync for CudaStream {}

impl CudaStream {
    /// Up to here handles are names of default streams, which every context has: the legacy one (0 and 1), and that of the
    /// calling thread.
    pub(crate) const LAST_DEFAULT: usize = 2;

    /// A stream of ours.
    pub(crate) fn new(opened: &Arc<Opened>, priority: Priority) -> Result<CudaStream, DeviceError> {
        let handle = create(&opened.context, priority, opened.has.priorities)?;
        Ok(CudaStream { opened: Arc::clone(opened), raw: handle.raw(), _owned: Some(Arc::new(handle)) })
    }

    /// The legacy default stream.
    pub(crate) fn default_of(opened: &Arc<Opened>) -> CudaStream {
        CudaStream { opened: Arc::clone(opened), raw: ptr::null_mut(), _owned: None }
    }

    /// A stream that somebody else made.
    ///
    /// # Safety
    /// `handle` is a live stream, and outlives all clones of what this returns.
    pub(crate) unsafe fn borrow(opened: &Arc<Opened>, handle: usize) -> Result<CudaStream, DeviceError> {
        let raw: CUstream = ptr::with_exposed_provenance_mut(handle);
        if handle > CudaStream::LAST_DEFAULT {
            let mut context = ptr::null_mut();
            // SAFETY: the caller promised a live stream; it writes to a place of ours.
            unsafe { call!(&opened.context, cuStreamGetCtx(raw, &raw mut context)) }?;
            if context != opened.context.raw() {
                return Err(DeviceError::invalid(
                    "the handle of a CUDA stream",
                    format!("a stream of the primary context {:p} of {}", opened.context.raw(), opened.id()),
                    format!("one of the context {context:p}"),
                ));
            }
        }
        Ok(CudaStream { opened: Arc::clone(opened), raw, _owned: None })
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.raw
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.opened.context
    }

    /// Waits for all that is in the stream.
    pub(crate) fn synchronize(&self) -> Result<(), DeviceError> {
        synchronize(self.context(), self.raw)
    }
}

/// The least and the most urgent priority of streams, which is the lower number.
pub(crate) fn priorities(context: &Context) -> Result<[c_int; 2], DeviceError> {
    let (mut least, mut greatest) = (0, 0);
    // SAFETY: it writes to places of ours.
    unsafe { call!(context, cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest)) }?;
    Ok([least, greatest])
}

/// A stream that waits for no other, the legacy default stream included. CUDA knows no priority below the usual one.
pub(crate) fn create(
    context: &Arc<Context>,
    priority: Priority,
    [least, greatest]: [c_int; 2],
) -> Result<StreamHandle, DeviceError> {
    let level = if priority == Priority::High { greatest } else { least };
    let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    let mut raw = ptr::null_mut();
    // SAFETY: it writes to a place of ours, and the stream that is made is ours.
    unsafe {
        call!(context, cuStreamCreateWithPriority(&raw mut raw, flags, level))?;
        Ok(StreamHandle::own(context, raw))
    }
}

/// Blocks until all work in a stream is done.
pub(crate) fn synchronize(context: &Context, raw: CUstream) -> Result<(), DeviceError> {
    // SAFETY: the stream is live.
    unsafe { call!(context, cuStreamSynchronize(raw)) }
}

/// Blocks until all work in all streams of the context is done, also of other programs in the process that share it.
pub(crate) fn synchronize_all(context: &Context) -> Result<(), DeviceError> {
    // SAFETY: the context is current.
    unsafe { call!(context, cuCtxSynchronize()) }
}

impl fmt::Debug for CudaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaStream({:p} of {})", self.raw, self.opened.id())
    }
}

impl Stream for CudaStream {
    fn handle(&self) -> usize {
        self.raw.expose_provenance()
    }

    fn device(&self) -> DeviceId {
        self.opened.id()
    }
}
