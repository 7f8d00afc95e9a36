//! Owners of OpenCL objects. Each releases its reference when it is dropped, and ignores an error: nothing can be done
//! then, and `Drop` must not panic.

use cl3::types::{cl_command_queue, cl_context, cl_event, cl_int, cl_kernel, cl_program};
use cl3::{command_queue, context, event, kernel, program};

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $raw:ty, $release:path $(, retained by $retain:path)?) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name($raw);

        impl $name {
            /// # Safety
            /// `raw` is a live object, and the caller gives one of its references away.
            pub(crate) unsafe fn own(raw: $raw) -> $name {
                $name(raw)
            }

            $(
                /// Takes a reference to an object of another program.
                ///
                /// # Safety
                /// `raw` is a live object.
                pub(crate) unsafe fn retain(raw: $raw) -> Result<$name, cl_int> {
                    // SAFETY: the caller's promise; the new reference belongs to the owner that is returned.
                    unsafe { $retain(raw).map(|()| $name::own(raw)) }
                }
            )?

            pub(crate) fn raw(&self) -> $raw {
                self.0
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: this owner has one reference, and releases it once.
                let _ = unsafe { $release(self.0) };
            }
        }

        // SAFETY: OpenCL objects belong to no thread.
        unsafe impl Send for $name {}
    };
}

handle!(Context, cl_context, context::release_context, retained by context::retain_context);
handle!(
    QueueHandle, cl_command_queue, command_queue::release_command_queue,
    retained by command_queue::retain_command_queue
);
handle!(EventHandle, cl_event, event::release_event, retained by event::retain_event);
handle!(
    /// A program that was built.
    ProgramHandle, cl_program, program::release_program
);
handle!(
    /// A kernel with its arguments. It is not `Sync`: two threads must not set arguments at once.
    KernelHandle, cl_kernel, kernel::release_kernel
);

// SAFETY: all functions of OpenCL except those that set a kernel's arguments may be called by several threads at once.
unsafe impl Sync for Context {}
// SAFETY: as above.
unsafe impl Sync for QueueHandle {}
// SAFETY: as above.
unsafe impl Sync for EventHandle {}
// SAFETY: as above.
unsafe impl Sync for ProgramHandle {}
