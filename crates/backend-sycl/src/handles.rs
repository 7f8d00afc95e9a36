//! OpenCL objects that are ours: released when they are dropped, and never with a panic.

use cl3::types::{cl_command_queue, cl_context, cl_event, cl_int, cl_kernel, cl_program};

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $raw:ty, $release:path) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name($raw);

        impl $name {
            /// # Safety
            /// `raw` is a live object, and one of its references is ours to release.
            pub(crate) unsafe fn own(raw: $raw) -> $name {
                $name(raw)
            }

            pub(crate) fn raw(&self) -> $raw {
                self.0
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the reference is ours and released once. An error leaves nothing to be done.
                let _ = unsafe { $release(self.0) };
            }
        }

        // SAFETY: OpenCL objects belong to no thread.
        unsafe impl Send for $name {}
    };
}

handle!(
    /// A context.
    Context, cl_context, cl3::context::release_context
);
handle!(
    /// A queue.
    Queue, cl_command_queue, cl3::command_queue::release_command_queue
);
impl Context {
    /// A reference of our own to a context that somebody else made.
    ///
    /// # Safety
    /// `raw` is a live context.
    pub(crate) unsafe fn retain(raw: cl_context) -> Result<Context, cl_int> {
        // SAFETY: the caller's promise; the reference that is taken is ours.
        unsafe { cl3::context::retain_context(raw).map(|()| Context::own(raw)) }
    }
}

impl Queue {
    /// A reference of our own to a queue that somebody else made.
    ///
    /// # Safety
    /// `raw` is a live queue.
    pub(crate) unsafe fn retain(raw: cl_command_queue) -> Result<Queue, cl_int> {
        // SAFETY: the caller's promise; the reference that is taken is ours.
        unsafe { cl3::command_queue::retain_command_queue(raw).map(|()| Queue::own(raw)) }
    }
}

handle!(
    /// An event.
    EventHandle, cl_event, cl3::event::release_event
);
handle!(
    /// A program, built.
    Program, cl_program, cl3::program::release_program
);
handle!(
    /// A kernel with its arguments. Setting one of them is no business of two threads at once: it is not `Sync`.
    KernelHandle, cl_kernel, cl3::kernel::release_kernel
);

// SAFETY: all functions of OpenCL but those that set a kernel's arguments may be called by several threads at once.
unsafe impl Sync for Context {}
// SAFETY: as above.
unsafe impl Sync for Queue {}
// SAFETY: as above.
unsafe impl Sync for EventHandle {}
// SAFETY: as above.
unsafe impl Sync for Program {}
