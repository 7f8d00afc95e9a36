//! Objects of the driver that the backend owns: dropping one destroys it in its context, and never panics.

use std::sync::Arc;

use cudarc::driver::sys::{CUevent, CUmodule, CUstream};

use crate::driver::context::Context;

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
            /// `raw` is a live object of `context`. Nothing but the result destroys it.
            pub(crate) unsafe fn own(context: &Arc<Context>, raw: $raw) -> $name {
                $name { context: Arc::clone(context), raw }
            }

            pub(crate) fn raw(&self) -> $raw {
                self.raw
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // On a lost device the context cannot be made current; the object is destroyed all the same.
                let _entered = self.context.enter();
                // SAFETY: the handle owns the object and destroys it once. An error is one of earlier work, or needs no
                // action.
                unsafe { (self.context.driver.$destroy)(self.raw) };
            }
        }

        // SAFETY: objects of the driver belong to no thread.
        unsafe impl Send for $name {}
        // SAFETY: several threads may call the driver's functions at once.
        unsafe impl Sync for $name {}
    };
}

handle!(
    /// A stream. Work that is still in it when it is destroyed is done all the same.
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
