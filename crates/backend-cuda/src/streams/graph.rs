//! Work that is captured once and put into streams with one call.

use std::ptr;

use cudarc::driver::sys::{CUgraph, CUgraphInstantiate_flags, CUstreamCaptureMode};
use haloport_core::device::{Captured, DeviceError, Stream};

use crate::context::call;
use crate::handles::{CapturedGraph, ReadyGraph};
use crate::stream::CudaStream;

/// Launches, copies and fills that [`CudaDevice::capture`](crate::CudaDevice::capture_graph) has captured, with their arguments
/// and their order.
#[derive(Debug)]
pub struct CudaGraph {
    ready: ReadyGraph,
}

impl CudaGraph {
    pub(crate) fn capture(
        stream: &CudaStream,
        work: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<CudaGraph, DeviceError> {
        if stream.handle() <= CudaStream::LAST_DEFAULT {
            let found = format!("the default stream of handle {}", stream.handle());
            return Err(DeviceError::invalid("the stream of a capture", "one that was made", found));
        }
        let (context, raw) = (stream.context(), stream.raw());
        // What other threads do meanwhile does not end the capture.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is live.
        unsafe { call!(context, cuStreamBeginCapture_v2(raw, mode)) }?;
        let capturing = Capturing(stream);
        let worked = work();
        let captured = capturing.end();
        worked?;
        let captured = captured?;
        let mut ready = ptr::null_mut();
        // Packing before other work, as in the streams that were captured.
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0;
        // SAFETY: the graph is live; it writes to a place of ours, and what is made is ours.
        unsafe {
            call!(context, cuGraphInstantiateWithFlags(&raw mut ready, captured.raw(), flags.into()))?;
            Ok(CudaGraph { ready: ReadyGraph::own(context, ready) })
        }
    }

    /// Puts the captured work into a stream: it begins after all that is there, and ends before all that follows. It runs
    /// with the arguments that it was captured with; a graph does not run beside itself.
    ///
    /// # Safety
    /// What was promised for the captured calls holds anew, from this call until the work has finished in stream order. The
    /// graph, and the kernels, launches and lists of copies that were captured, live until then.
    ///
    /// # Errors
    /// What the driver says.
    pub unsafe fn launch(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        // SAFETY: graph and stream are live, and the rest is the caller's promise.
        unsafe { call!(stream.context(), cuGraphLaunch(self.ready.raw(), stream.raw())) }
    }
}

impl Captured<CudaStream> for CudaGraph {
    unsafe fn replay(&self, stream: &CudaStream) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.launch(stream) }
    }
}

/// A stream that captures, at the latest until this is dropped: also where the work panics.
struct Capturing<'a>(&'a CudaStream);

impl Capturing<'_> {
    fn end(self) -> Result<CapturedGraph, DeviceError> {
        let stream = self.0;
        std::mem::forget(self);
        end(stream)?.ok_or_else(|| DeviceError::Driver {
            call: "cuStreamEndCapture",
            device: stream.device(),
            message: "the capture was broken off by a call that no capture allows".into(),
        })
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        let _ = end(self.0);
    }
}

/// Ends a capture, also where the context cannot be made current; the graph, if there is one.
fn end(stream: &CudaStream) -> Result<Option<CapturedGraph>, DeviceError> {
    let context = stream.context();
    let entered = context.enter();
    let mut graph: CUgraph = ptr::null_mut();
    // SAFETY: the stream is live and captures; it writes to a place of ours.
    let status = unsafe { (context.driver.cuStreamEndCapture)(stream.raw(), &raw mut graph) };
    // SAFETY: it was just made, and is ours.
    let graph = (!graph.is_null()).then(|| unsafe { CapturedGraph::own(context, graph) });
    entered?;
    context.checked("cuStreamEndCapture", status)?;
    Ok(graph)
}
