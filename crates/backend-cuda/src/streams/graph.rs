//! Work that is captured once and launched with one call.

use std::ptr;

use cudarc::driver::sys::{CUgraph, CUgraphInstantiate_flags, CUstreamCaptureMode};
use haloport_core::device::{Captured, DeviceError, Stream};

use crate::driver::context::call;
use crate::driver::handles::{CapturedGraph, ReadyGraph};
use crate::streams::stream::CudaStream;

/// Launches, copies and fills that [`CudaDevice::capture_graph`](crate::CudaDevice::capture_graph) has captured, with
/// their arguments and their order.
#[derive(Debug)]
pub struct CudaGraph {
    ready: ReadyGraph,
}

impl CudaGraph {
    pub(crate) fn capture(
        stream: &CudaStream,
        work: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<CudaGraph, DeviceError> {
        if stream.is_default() {
            let found = format!("the default stream of handle {}", stream.handle());
            return Err(DeviceError::invalid("the stream of a capture", "one that was made", found));
        }
        let (context, raw) = (stream.context(), stream.raw());
        // Calls of other threads meanwhile do not end the capture.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is live.
        unsafe { call!(context, cuStreamBeginCapture_v2(raw, mode)) }?;
        let capturing = Capturing(stream);
        let worked = work();
        let captured = capturing.end();
        worked?;
        let captured = captured?;
        let mut ready = ptr::null_mut();
        // With the priorities of the captured streams: packing before other work.
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0;
        // SAFETY: the graph is live; the call writes to a local variable, and the new object belongs to the result.
        unsafe {
            call!(context, cuGraphInstantiateWithFlags(&raw mut ready, captured.raw(), flags.into()))?;
            let ready = ReadyGraph::own(context, ready);
            // Otherwise the first launch would do it. In a stream of our own, it waits for no work of the caller.
            call!(context, cuGraphUpload(ready.raw(), stream.opened.setup.raw()))?;
            Ok(CudaGraph { ready })
        }
    }

    /// Puts the captured work into a stream. It begins after all earlier work of the stream, ends before all later
    /// work, and uses the arguments that it was captured with. Two launches of one graph do not overlap. Does not
    /// block.
    ///
    /// # Safety
    /// The promises for the captured calls hold again, from this call until the work has finished in stream order. The
    /// graph and the captured kernels, launches and lists of copies live until then.
    ///
    /// # Errors
    /// The driver's errors.
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

/// A stream that captures. Dropping this ends the capture, so it also ends if the work panics.
struct Capturing<'a>(&'a CudaStream);

impl Capturing<'_> {
    fn end(self) -> Result<CapturedGraph, DeviceError> {
        let stream = self.0;
        std::mem::forget(self);
        end(stream)?.ok_or_else(|| DeviceError::Driver {
            call: "cuStreamEndCapture",
            device: stream.device(),
            message: "a call that is not allowed during a capture has ended it".into(),
        })
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        let _ = end(self.0);
    }
}

/// Ends a capture, even if the context cannot be made current. Returns the graph, if there is one.
fn end(stream: &CudaStream) -> Result<Option<CapturedGraph>, DeviceError> {
    let context = stream.context();
    let entered = context.enter();
    let mut graph: CUgraph = ptr::null_mut();
    // SAFETY: the stream is live and captures; the call writes to a local variable.
    let status = unsafe { (context.driver.cuStreamEndCapture)(stream.raw(), &raw mut graph) };
    // SAFETY: the graph is new and belongs to the result.
    let graph = (!graph.is_null()).then(|| unsafe { CapturedGraph::own(context, graph) });
    entered?;
    context.checked("cuStreamEndCapture", status)?;
    Ok(graph)
}
