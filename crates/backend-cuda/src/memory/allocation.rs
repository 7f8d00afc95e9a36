//! Allocations: memory of the device, pinned and shared memory, and memory that another process exported.

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUipcMem_flags, CUipcMemHandle, CUmemAttach_flags};
use haloport_core::device::{DeviceError, MemoryKind, Pointer};

use crate::driver::context::{Context, call};
use crate::driver::device_context::DeviceContext;
use crate::driver::functions::{OUT_OF_MEMORY, Status};
use crate::memory::pages::{Failure, Pages};
use crate::memory::token::{Handle, Token, bytes_of, ipc_handle};

/// Memory that is freed on drop. It keeps its context, but not the device, open.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) context: Arc<Context>,
    /// 0 if there are no bytes.
    address: CUdeviceptr,
    pub(crate) bytes: usize,
    pub(crate) kind: MemoryKind,
    origin: Origin,
}

/// Where memory comes from, which decides how it is freed.
#[derive(Debug)]
enum Origin {
    /// Allocated here, by the call for its kind.
    Device,
    /// Allocated by `cuMemCreate`, here or in another process; freed when this is dropped.
    Pages(Pages),
    /// Allocated by `cuMemAlloc` in another process, which frees it.
    OtherProcess,
}

/// The size of the blocks that `cuMemAlloc` takes small allocations from. Exporting one exposes its whole block ("CUDA
/// Programming Guide", "Interprocess Communication", which recommends sizes that are multiples of this).
const BLOCK_BYTES: usize = 2 << 20;

/// The alignment of buffers, for the dangling address of an empty one.
#[repr(align(64))]
struct Line;

impl Allocation {
    /// Allocates zeroed memory. Blocks until it is zeroed.
    pub(crate) fn new(
        device: &DeviceContext,
        bytes: usize,
        kind: MemoryKind,
    ) -> Result<Allocation, DeviceError> {
        let context = &device.context;
        if !device.info.offers(kind) {
            let what = "memory that the host uses while the device computes";
            return Err(DeviceError::Unsupported { what, device: device.id() });
        }
        let mut memory = Allocation::empty(device, bytes, kind, Origin::Device);
        if bytes == 0 {
            return Ok(memory);
        }
        memory.check_size(device)?;
        let driver = context.driver;
        let (mut address, mut host) = (0, ptr::null_mut());
        let entered = context.enter()?;
        // Plain pinned memory: the processor caches it, and every device reaches it at the same address.
        let (no_flags, global) = (0, CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32);
        // SAFETY: the calls write to local variables, and the new memory belongs to the allocation.
        let (call, status) = unsafe {
            match kind {
                MemoryKind::Device => ("cuMemAlloc", (driver.cuMemAlloc_v2)(&raw mut address, bytes)),
                MemoryKind::Pinned => {
                    ("cuMemHostAlloc", (driver.cuMemHostAlloc)(&raw mut host, bytes, no_flags))
                }
                MemoryKind::Shared => {
                    ("cuMemAllocManaged", (driver.cuMemAllocManaged)(&raw mut address, bytes, global))
                }
            }
        };
        drop(entered);
        memory.check(call, status)?;
        if kind == MemoryKind::Pinned {
            memory.address = host.expose_provenance() as CUdeviceptr;
            // SAFETY: the memory has that length and no other user yet, and the host may use its address.
            unsafe { host.cast::<u8>().write_bytes(0, bytes) };
        } else {
            memory.address = address;
            memory.zero(device)?;
        }
        Ok(memory)
    }

    /// Allocates zeroed device memory that other processes can map without reaching any other memory. Blocks until it is
    /// zeroed.
    pub(crate) fn exportable(device: &DeviceContext, bytes: usize) -> Result<Allocation, DeviceError> {
        if bytes == 0 || !device.info.capabilities.memory_export {
            return Allocation::new(device, bytes, MemoryKind::Device);
        }
        let mut memory = Allocation::empty(device, bytes, MemoryKind::Device, Origin::Device);
        memory.check_size(device)?;
        match Pages::new(device, bytes) {
            Ok(Some(pages)) => {
                memory.address = pages.address;
                memory.origin = Origin::Pages(pages);
                memory.zero(device)?;
                Ok(memory)
            }
            Ok(None) => {
                let whole = bytes.next_multiple_of(BLOCK_BYTES);
                let mut memory = Allocation::new(device, whole, MemoryKind::Device)?;
                memory.bytes = bytes;
                Ok(memory)
            }
            Err(Failure::Create(call, status)) => {
                memory.check(call, status)?;
                Ok(memory)
            }
            Err(Failure::Other(error)) => Err(error),
        }
    }

    /// Fills device memory with zeros, and waits for that.
    fn zero(&self, device: &DeviceContext) -> Result<(), DeviceError> {
        let (address, bytes, setup) = (self.address, self.bytes, device.setup.raw());
        // SAFETY: the memory has that length, and the fill is done before the caller gets it.
        unsafe { call!(&self.context, cuMemsetD8Async(address, 0, bytes, setup)) }?;
        device.setup.synchronize()
    }

    /// The token that another process opens this memory with.
    pub(crate) fn export(&self) -> Result<Vec<u8>, DeviceError> {
        let handle = match &self.origin {
            Origin::Pages(pages) => pages.export()?,
            Origin::Device if self.kind == MemoryKind::Device && self.address != 0 => {
                let mut handle = CUipcMemHandle { reserved: [0; _] };
                // SAFETY: `cuMemAlloc` returned this address; the handle is written to a local variable.
                unsafe { call!(&self.context, cuIpcGetMemHandle(&raw mut handle, self.address)) }?;
                Some(Handle::Ipc(bytes_of(&handle)))
            }
            _ => None,
        };
        match handle {
            Some(handle) => Ok(Token { bytes: self.bytes, handle }.to_bytes()),
            None => {
                let what = "exporting memory other than device memory that this process has allocated";
                Err(DeviceError::Unsupported { what, device: self.context.id })
            }
        }
    }

    /// Opens memory that another process has exported.
    ///
    /// # Safety
    /// That process keeps the memory as long as the result lives.
    pub(crate) unsafe fn import(device: &DeviceContext, token: &[u8]) -> Result<Allocation, DeviceError> {
        let Token { bytes, handle } = Token::from_bytes(token)?;
        let mut imported = Allocation::empty(device, bytes, MemoryKind::Device, Origin::OtherProcess);
        let Handle::Ipc(handle) = &handle else {
            let pages = Pages::import(device, &handle)?;
            imported.address = pages.address;
            imported.origin = Origin::Pages(pages);
            return Ok(imported);
        };
        let mut address = 0;
        let flags = CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        let handle = ipc_handle(handle);
        // SAFETY: the handle is from another process, which keeps the memory, or the driver refuses it; the address is
        // written to a local variable.
        unsafe { call!(&device.context, cuIpcOpenMemHandle_v2(&raw mut address, handle, flags)) }?;
        imported.address = address;
        Ok(imported)
    }

    /// An allocation without an address, which frees nothing.
    fn empty(device: &DeviceContext, bytes: usize, kind: MemoryKind, origin: Origin) -> Allocation {
        Allocation { context: Arc::clone(&device.context), address: 0, bytes, kind, origin }
    }

    /// Refuses sizes that no driver could provide.
    fn check_size(&self, device: &DeviceContext) -> Result<(), DeviceError> {
        let on_device = self.kind == MemoryKind::Device;
        let most = device.info.memory_bytes.filter(|_| on_device).unwrap_or(isize::MAX as u64);
        if self.bytes as u64 > most { Err(self.too_large()) } else { Ok(()) }
    }

    fn check(&self, call: &'static str, status: Status) -> Result<(), DeviceError> {
        match status {
            OUT_OF_MEMORY => Err(self.too_large()),
            _ => self.context.checked(call, status),
        }
    }

    fn too_large(&self) -> DeviceError {
        DeviceError::OutOfMemory { bytes: self.bytes, kind: self.kind, device: self.context.id }
    }

    pub(crate) fn pointer(&self) -> Pointer {
        Pointer::new(match self.address {
            0 => ptr::NonNull::<Line>::dangling().as_ptr().cast(),
            address => ptr::with_exposed_provenance_mut(address as usize),
        })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let address = self.address;
        if address == 0 {
            return;
        }
        let context = &self.context;
        // SAFETY, of all calls: the memory belongs to the allocation and is freed, or closed, once. The caller promised that
        // it outlives the work on it. An error needs no action.
        match (self.kind, &self.origin) {
            // Dropped next.
            (_, Origin::Pages(_)) => {}
            // At once: after that, its owner may free it.
            (_, Origin::OtherProcess) => context.free_now(|driver| {
                // SAFETY: as above.
                unsafe { (driver.cuIpcCloseMemHandle)(address) };
            }),
            (MemoryKind::Pinned, Origin::Device) => context.free(move |driver| {
                // SAFETY: as above.
                unsafe { (driver.cuMemFreeHost)(ptr::with_exposed_provenance_mut(address as usize)) };
            }),
            (_, Origin::Device) => context.free(move |driver| {
                // SAFETY: as above.
                unsafe { (driver.cuMemFree_v2)(address) };
            }),
        }
    }
}
