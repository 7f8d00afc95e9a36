//! Memory of the device, also of such that another process has allocated.

use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUipcMem_flags, CUipcMemHandle, CUmemAttach_flags};
use haloport_core::device::{Buffer, DeviceError, DeviceId, MemoryKind, Pointer};

use crate::context::{Context, call};
use crate::driver::{OUT_OF_MEMORY, Status};
use crate::open::Opened;
use crate::stream::{CudaStream, synchronize};

/// Memory that the device allocated; freed on drop.
///
/// Device memory is from `cuMemAlloc`, so that other processes can be given it; that of
/// [`allocate_on`](haloport_core::device::Device::allocate_on) is from the device's default pool.
#[derive(Debug)]
pub struct CudaBuffer {
    /// Frees the memory before the device may be closed.
    memory: Memory,
    _opened: Arc<Opened>,
}

/// The memory of a buffer, which keeps its context but not the device open.
#[derive(Debug)]
pub(crate) struct Memory {
    context: Arc<Context>,
    /// 0 where there are no bytes.
    address: CUdeviceptr,
    bytes: usize,
    kind: MemoryKind,
    origin: Origin,
}

/// Where memory is from, and with that how it is given back.
#[derive(Debug)]
enum Origin {
    Ours,
    /// From the pool of the device, in the order of this stream.
    Pool(CudaStream),
    /// From another process, which frees it.
    OtherProcess,
}

/// What another process finds memory by: the driver's handle, and the bytes.
const TOKEN_BYTES: usize = size_of::<CUipcMemHandle>() + size_of::<u64>();

/// An address that is aligned as buffers are, and leads nowhere.
#[repr(align(64))]
struct Line;

impl CudaBuffer {
    /// Zeroed memory.
    pub(crate) fn new(
        opened: &Arc<Opened>,
        bytes: usize,
        kind: MemoryKind,
    ) -> Result<CudaBuffer, DeviceError> {
        Ok(CudaBuffer { memory: Memory::new(opened, bytes, kind)?, _opened: Arc::clone(opened) })
    }

    /// Device memory that is zeroed in the order of `stream`.
    pub(crate) fn on(stream: &CudaStream, bytes: usize) -> Result<CudaBuffer, DeviceError> {
        Ok(CudaBuffer { memory: Memory::on(stream, bytes)?, _opened: Arc::clone(&stream.opened) })
    }

    /// What another process finds the memory by.
    pub(crate) fn export(&self) -> Result<Vec<u8>, DeviceError> {
        let Memory { context, address, bytes, kind, origin } = &self.memory;
        if *kind != MemoryKind::Device || !matches!(origin, Origin::Ours) || *address == 0 {
            let what = "memory that other processes reach, but for device memory that it has allocated, and not in a stream";
            return Err(DeviceError::Unsupported { what, device: context.id });
        }
        let mut handle = CUipcMemHandle { reserved: [0; _] };
        // SAFETY: the memory is from `cuMemAlloc` and begins there; the handle is written to a place of ours.
        unsafe { call!(context, cuIpcGetMemHandle(&raw mut handle, *address)) }?;
        let handle = handle.reserved.into_iter().map(|byte| byte as u8);
        Ok(handle.chain((*bytes as u64).to_le_bytes()).collect())
    }

    /// Memory that another process has exported.
    ///
    /// # Safety
    /// That process keeps it as long as this lives.
    pub(crate) unsafe fn import(opened: &Arc<Opened>, token: &[u8]) -> Result<CudaBuffer, DeviceError> {
        let parts = token.split_last_chunk().filter(|_| token.len() == TOKEN_BYTES);
        let Some((bytes, Ok(bytes_there))) =
            parts.map(|(handle, bytes)| (handle, usize::try_from(u64::from_le_bytes(*bytes))))
        else {
            let found = format!("{} bytes", token.len());
            return Err(DeviceError::invalid(
                "the token of exported memory",
                "one that `export` gave",
                found,
            ));
        };
        let mut handle = CUipcMemHandle { reserved: [0; _] };
        handle.reserved.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte as c_char);
        let context = &opened.context;
        let (mut address, lazily) = (0, CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32);
        // SAFETY: the handle is one of another process, which keeps the memory, or the driver refuses it; the address is
        // written to a place of ours.
        unsafe { call!(context, cuIpcOpenMemHandle_v2(&raw mut address, handle, lazily)) }?;
        let origin = Origin::OtherProcess;
        let kind = MemoryKind::Device;
        let memory = Memory { context: Arc::clone(context), address, bytes: bytes_there, kind, origin };
        Ok(CudaBuffer { memory, _opened: Arc::clone(opened) })
    }
}

impl Memory {
    pub(crate) fn new(opened: &Opened, bytes: usize, kind: MemoryKind) -> Result<Memory, DeviceError> {
        let context = &opened.context;
        if kind == MemoryKind::Shared && !opened.has.shared_memory {
            let what = "memory shared with the host while it computes";
            return Err(DeviceError::Unsupported { what, device: opened.id() });
        }
        let mut memory =
            Memory { context: Arc::clone(context), address: 0, bytes, kind, origin: Origin::Ours };
        if bytes == 0 {
            return Ok(memory);
        }
        memory.check_size(opened)?;
        let driver = context.driver;
        let (mut address, mut host) = (0, ptr::null_mut());
        let entered = context.enter()?;
        // Plain pinned memory, which the processor caches, and which every device reaches at the same address.
        let (no_flags, global) = (0, CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32);
        // SAFETY: the calls write to places of ours, and what is allocated is ours.
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
            // SAFETY: the memory is that long, ours alone, and the host may follow its address.
            unsafe { host.cast::<u8>().write_bytes(0, bytes) };
        } else {
            memory.address = address;
            let setup = opened.setup.raw();
            // SAFETY: the memory is that long and ours alone, and the fill is done before anybody gets it.
            unsafe { call!(context, cuMemsetD8Async(address, 0, bytes, setup)) }?;
            synchronize(context, setup)?;
        }
        Ok(memory)
    }

    fn on(stream: &CudaStream, bytes: usize) -> Result<Memory, DeviceError> {
        let opened = &stream.opened;
        if bytes == 0 || !opened.has.pools {
            return Memory::new(opened, bytes, MemoryKind::Device);
        }
        let context = &opened.context;
        let kind = MemoryKind::Device;
        let mut memory =
            Memory { context: Arc::clone(context), address: 0, bytes, kind, origin: Origin::Ours };
        memory.check_size(opened)?;
        let mut address = 0;
        let entered = context.enter()?;
        // SAFETY: the stream is live, it writes to a place of ours, and what is allocated is ours.
        let status = unsafe { (context.driver.cuMemAllocAsync)(&raw mut address, bytes, stream.raw()) };
        drop(entered);
        memory.check("cuMemAllocAsync", status)?;
        (memory.address, memory.origin) = (address, Origin::Pool(stream.clone()));
        // SAFETY: the memory is that long from here on in the order of the stream, which frees it later.
        unsafe { call!(context, cuMemsetD8Async(address, 0, bytes, stream.raw())) }?;
        Ok(memory)
    }

    /// Sizes that no driver could take are not asked for.
    fn check_size(&self, opened: &Opened) -> Result<(), DeviceError> {
        let on_device = self.kind == MemoryKind::Device;
        let most = opened.info.memory_bytes.filter(|_| on_device).unwrap_or(isize::MAX as u64);
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

impl Drop for Memory {
    fn drop(&mut self) {
        if self.address == 0 {
            return;
        }
        let driver = self.context.driver;
        // Even where the context cannot be made current, which a lost device says, the memory is given back.
        let _entered = self.context.enter();
        // SAFETY: the memory is ours and freed once, or let go of once; whoever put work on it promised that it outlives
        // that, and where it is only zeroed, it is freed behind that in the same stream. An error leaves nothing to be done.
        unsafe {
            match (self.kind, &self.origin) {
                (_, Origin::Pool(stream)) => (driver.cuMemFreeAsync)(self.address, stream.raw()),
                (_, Origin::OtherProcess) => (driver.cuIpcCloseMemHandle)(self.address),
                (MemoryKind::Pinned, Origin::Ours) => (driver.cuMemFreeHost)(self.pointer().as_ptr().cast()),
                (_, Origin::Ours) => (driver.cuMemFree_v2)(self.address),
            }
        };
    }
}

// SAFETY: the memory is as long as it says, zeroed before anything that its user orders after it, aligned to 256 bytes or a
// page, and freed on drop.
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
