//! Buffers.

use std::sync::Arc;

use haloport_core::device::{Buffer, DeviceError, DeviceId, MemoryKind, Pointer};

use crate::memory::allocation::Allocation;
use crate::opened::Opened;
use crate::streams::stream::CudaStream;

/// Memory that the device allocated; freed on drop.
///
/// Device memory is from `cuMemAlloc`, so that it can be exported to other processes;
/// [`allocate_on`](haloport_core::device::Device::allocate_on) takes it from the device's default pool.
#[derive(Debug)]
pub struct CudaBuffer {
    /// First: freed before the device may be closed.
    memory: Allocation,
    _opened: Arc<Opened>,
}

impl CudaBuffer {
    /// Allocates zeroed memory.
    pub(crate) fn new(
        opened: &Arc<Opened>,
        bytes: usize,
        kind: MemoryKind,
    ) -> Result<CudaBuffer, DeviceError> {
        Ok(CudaBuffer { memory: Allocation::new(opened, bytes, kind)?, _opened: Arc::clone(opened) })
    }

    /// Allocates device memory that is zeroed in the order of `stream`.
    pub(crate) fn on(
        CudaStream { opened, stream }: &CudaStream,
        bytes: usize,
    ) -> Result<CudaBuffer, DeviceError> {
        Ok(CudaBuffer { memory: Allocation::on(opened, stream, bytes)?, _opened: Arc::clone(opened) })
    }

    /// The token that another process opens the memory with.
    pub(crate) fn export(&self) -> Result<Vec<u8>, DeviceError> {
        self.memory.export()
    }

    /// Opens memory that another process has exported.
    ///
    /// # Safety
    /// That process keeps the memory as long as the buffer lives.
    pub(crate) unsafe fn import(opened: &Arc<Opened>, token: &[u8]) -> Result<CudaBuffer, DeviceError> {
        // SAFETY: the caller's promise.
        let memory = unsafe { Allocation::import(opened, token) }?;
        Ok(CudaBuffer { memory, _opened: Arc::clone(opened) })
    }
}

// SAFETY: the memory has the length that `bytes` returns, is zeroed before all work that its user orders after its
// allocation, is aligned to 256 bytes or a page, and is freed on drop.
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
