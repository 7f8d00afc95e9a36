//! Buffers.

use std::sync::Arc;

use haloport_core::device::{Buffer, DeviceId, MemoryKind, Pointer};

use crate::memory::allocation::Allocation;
use crate::opened::Opened;

/// Memory that the device allocated; freed on drop.
///
/// Device memory is from `cuMemAlloc`, and can be exported to other processes by CUDA's calls for IPC.
/// [`allocate_exportable`](haloport_core::device::MemoryExport::allocate_exportable) takes it from `cuMemCreate`, with handles
/// by file descriptors or of a fabric.
#[derive(Debug)]
pub struct CudaBuffer {
    /// First: freed before the device may be closed.
    pub(crate) memory: Allocation,
    _opened: Arc<Opened>,
}

impl CudaBuffer {
    pub(crate) fn new(opened: &Arc<Opened>, memory: Allocation) -> CudaBuffer {
        CudaBuffer { memory, _opened: Arc::clone(opened) }
    }
}

// SAFETY: the memory has the length that `bytes` returns, was zeroed when it was allocated, is aligned to 256 bytes or a
// page, and is freed on drop.
unsafe impl Buffer for CudaBuffer {
    fn pointer(&self) -> Pointer {
        self.memory.pointer()
    }

    fn bytes(&self) -> usize {
        self.memory.bytes
    }

    fn kind(&self) -> MemoryKind {
        self.memory.kind
    }

    fn device(&self) -> DeviceId {
        self.memory.context.id
    }

    fn host_accessible(&self) -> bool {
        self.memory.kind != MemoryKind::Device
    }
}
