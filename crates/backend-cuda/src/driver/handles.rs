//! Objects of the driver that are ours: destroyed when they are dropped, in their context, and never with a panic.

use std::sync::Arc;

use cudarc::driver::sys::{CUevent, CUgraph, CUgraphExec, CUmodule, CUstream};

use crate::context::Context;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $raw:ty, $destroy:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name {
            pub(crate) context: Arc<Context>,
            raw: $raw,
        }

        impl $name {
            /// # Safety
            /// `raw` is a live object of `context`, and ours to destroy.
            pub(crate) unsafe fn own(context: &Arc<Context>, raw: $raw) -> $name {
                $name { context: Arc::clone(context), raw }
            }

            pub(crate) fn raw(&self) -> $raw {
                self.raw
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // Even where the context cannot be made current, which a lost device says, the object is given back.
                let _entered = self.context.enter();
                // SAFETY: the object is ours and destroyed once. An error is one of earlier work, or leaves nothing to
                // be done.
                unsafe { (self.context.driver.$destroy)(self.raw) };
            }
        }

        // SAFETY: objects of the driver belong to no thread.
        unsafe impl Send for $name {}
        // SAFETY: the driver's functions may be called by several threads at once.
        unsafe impl Sync for $name {}
    };
}

handle!(
    /// A stream. Work that is still in it is done all the same after it was destroyed.
    StreamHandle, CUstream, cuStreamDestroy_v2
);
handle!(
    /// An event.
    EventHandle, CUevent, cuEventDestroy_v2
);
handle!(
    /// A loaded program.
    Module, CUmodule, cuModuleUnload
);
handle!(
    /// Work that was captured.
    CapturedGraph, CUgraph, cuGraphDestroy
);
handle!(
    /// Captured work, made ready to be put into streams.
    ReadyGraph, CUgraphExec, cuGraphExecDestroy
);
