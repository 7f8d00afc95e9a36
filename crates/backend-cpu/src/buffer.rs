//! Host memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use haloport_core::device::{Buffer, DeviceError, DeviceId, MemoryKind, Pointer};

/// Alignment of every buffer in bytes: a cache line.
const ALIGNMENT: usize = align_of::<Line>();

/// A cache line.
#[repr(align(64))]
struct Line;

/// Host memory, aligned to a cache line and freed on drop.
#[derive(Debug)]
pub struct CpuBuffer {
    memory: NonNull<u8>,
    layout: Layout,
    kind: MemoryKind,
    device: DeviceId,
}

// SAFETY: the buffer owns its memory and gives nothing but its address; see `Pointer`.
unsafe impl Send for CpuBuffer {}
// SAFETY: as for `Send`.
unsafe impl Sync for CpuBuffer {}

impl CpuBuffer {
    /// Zeroed memory. Large buffers get their pages on first touch.
    pub(crate) fn new(bytes: usize, kind: MemoryKind, device: DeviceId) -> Result<CpuBuffer, DeviceError> {
        let failed = || DeviceError::OutOfMemory { bytes, kind, device };
        let layout = Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| failed())?;
        let memory = if bytes == 0 {
            NonNull::<Line>::dangling().cast()
        } else {
            // SAFETY: the size of the layout is not 0.
            NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(failed)?
        };
        Ok(CpuBuffer { memory, layout, kind, device })
    }
}

impl Drop for CpuBuffer {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: `memory` came from `alloc_zeroed` with this layout, and is freed once.
            unsafe { dealloc(self.memory.as_ptr(), self.layout) }
        }
    }
}

// SAFETY: the memory is of this layout, zeroed, and freed on drop.
unsafe impl Buffer for CpuBuffer {
    fn pointer(&self) -> Pointer {
        Pointer::new(self.memory.as_ptr())
    }

    fn bytes(&self) -> usize {
        self.layout.size()
    }

    fn kind(&self) -> MemoryKind {
        self.kind
    }

    fn device(&self) -> DeviceId {
        self.device
    }

    fn host_accessible(&self) -> bool {
        true
    }
}
