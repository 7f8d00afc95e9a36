//! Owners of the shim's objects, each of which is released when its owner is dropped.

use super::shim::{Functions, Object};

macro_rules! handle {
    ($name:ident, $release:ident) => {
        pub(super) struct $name {
            functions: &'static Functions,
            raw: Object,
        }

        impl $name {
            /// # Safety
            /// `raw` is a live object of this kind, which the caller gives away.
            pub(super) unsafe fn own(functions: &'static Functions, raw: Object) -> $name {
                $name { functions, raw }
            }

            pub(super) fn raw(&self) -> Object {
                self.raw
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:p})"), self.raw)
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: this owner releases its object once.
                unsafe { (self.functions.$release)(self.raw) };
            }
        }

        // SAFETY: the shim's objects belong to no thread.
        unsafe impl Send for $name {}
        // SAFETY: SYCL's objects may be used by several threads at once, and the shim's hold nothing else that changes.
        unsafe impl Sync for $name {}
    };
}

handle!(PlaceHandle, place_release);
handle!(ExportHandle, export_release);
handle!(QueueHandle, queue_release);
handle!(EventHandle, event_release);
handle!(ProgramHandle, program_release);
handle!(KernelHandle, kernel_release);

/// Memory that other processes can map.
#[derive(Debug)]
pub(crate) struct Exported {
    /// The bytes by which another process finds it.
    pub(crate) token: Vec<u8>,
    pub(super) _handle: ExportHandle,
}
