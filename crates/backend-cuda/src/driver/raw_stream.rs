//! Streams of the driver.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUstream, CUstream_flags, CUstreamCaptureStatus};
use haloport_core::device::{DeviceError, Priority};

use crate::driver::context::{Context, call};
use crate::driver::functions::{CAPTURE_IMPLICIT, SUCCESS};
use crate::driver::handles::StreamHandle;

/// A stream of a context. If the backend created it, it is destroyed with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct RawStream {
    pub(crate) context: Arc<Context>,
    raw: CUstream,
    _owned: Option<Arc<StreamHandle>>,
}

// SAFETY: a stream belongs to no thread.
unsafe impl Send for RawStream {}
// SAFETY: several threads may put work into a stream at once.
unsafe impl Sync for RawStream {}

impl RawStream {
    /// Handles up to this one name the default streams that every context has: the legacy one (0, and 1 in descriptions
    /// of arrays) and that of the calling thread.
    pub(crate) const LAST_DEFAULT: usize = 2;

    /// The handle of the default stream of the calling thread: in each thread, it names another stream.
    const OF_THREAD: usize = 2;

    /// Creates a stream that waits for no other stream, not even for the legacy default stream. CUDA has no priority
    /// below the normal one.
    pub(crate) fn new(
        context: &Arc<Context>,
        priority: Priority,
        [least, greatest]: [c_int; 2],
    ) -> Result<RawStream, DeviceError> {
        let level = if priority == Priority::High { greatest } else { least };
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let mut raw = ptr::null_mut();
        // SAFETY: the call writes to a local variable, and the new stream belongs to the caller.
        let handle = unsafe {
            call!(context, cuStreamCreateWithPriority(&raw mut raw, flags, level))?;
            StreamHandle::own(context, raw)
        };
        Ok(RawStream { context: Arc::clone(context), raw: handle.raw(), _owned: Some(Arc::new(handle)) })
    }

    /// The legacy default stream.
    pub(crate) fn default_of(context: &Arc<Context>) -> RawStream {
        RawStream { context: Arc::clone(context), raw: ptr::null_mut(), _owned: None }
    }

    /// A stream that another program owns.
    ///
    /// # Safety
    /// `handle` is a live stream that outlives all clones of the result.
    ///
    /// # Errors
    /// [`DeviceError::InvalidArgument`] if the stream belongs to another context; the driver's errors.
    pub(crate) unsafe fn borrow(context: &Arc<Context>, handle: usize) -> Result<RawStream, DeviceError> {
        let raw: CUstream = ptr::with_exposed_provenance_mut(handle);
        if handle > RawStream::LAST_DEFAULT {
            let mut found = ptr::null_mut();
            // SAFETY: the caller promised a live stream; the call writes to a local variable.
            unsafe { call!(context, cuStreamGetCtx(raw, &raw mut found)) }?;
            if found != context.raw() {
                return Err(DeviceError::invalid(
                    "the handle of a CUDA stream",
                    format!("a stream of the primary context {:p} of {}", context.raw(), context.id),
                    format!("a stream of the context {found:p}"),
                ));
            }
        }
        Ok(RawStream { context: Arc::clone(context), raw, _owned: None })
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Whether it is another stream in each thread.
    pub(crate) fn is_of_thread(&self) -> bool {
        self.raw.addr() == RawStream::OF_THREAD
    }

    /// An error if another program captures what is put into the stream.
    pub(crate) fn check_not_captured(&self) -> Result<(), DeviceError> {
        let _entered = self.context.enter()?;
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as u32;
        // SAFETY: the stream is live; the call writes a number of the type of the enum to a local variable.
        let call = unsafe { (self.context.driver.cuStreamIsCapturing)(self.raw, &raw mut status) };
        let found = match call {
            SUCCESS if status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as u32 => return Ok(()),
            SUCCESS => "one that is being captured",
            CAPTURE_IMPLICIT => "the default stream while a stream that waits for it is being captured",
            status => return self.context.checked("cuStreamIsCapturing", status),
        };
        let expected = "one that is not being captured: end the capture before the exchange";
        Err(DeviceError::invalid("the stream of an exchange", expected, found))
    }

    /// Blocks until all work in the stream is done.
    pub(crate) fn synchronize(&self) -> Result<(), DeviceError> {
        // SAFETY: the stream is live.
        unsafe { call!(&self.context, cuStreamSynchronize(self.raw)) }
    }
}

/// The least and the most urgent priority of streams; the more urgent is the lower number.
pub(crate) fn priorities(context: &Context) -> Result<[c_int; 2], DeviceError> {
    let (mut least, mut greatest) = (0, 0);
    // SAFETY: the call writes to local variables.
    unsafe { call!(context, cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest)) }?;
    Ok([least, greatest])
}
