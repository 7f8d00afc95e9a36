//! Memory of the device.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, OnceLock};

use haloport_core::device::{Buffer, DeviceError, DeviceId, MemoryKind, Pointer};

use crate::driver::Place;
#[cfg(target_os = "linux")]
use crate::kind::Kind;
use crate::libsycl::handles::Exported;
use crate::opened::Opened;
use crate::stream::SyclStream;

/// Memory that the device allocated, freed on drop.
#[derive(Debug)]
pub struct SyclBuffer {
    opened: Arc<Opened>,
    /// Null if there are no bytes.
    memory: *mut c_void,
    bytes: usize,
    kind: MemoryKind,
    /// If other processes can map it. Dropped before the memory is freed.
    pub(crate) exported: OnceLock<Exported>,
    /// Whether it is memory of another process.
    imported: bool,
}

// SAFETY: the buffer owns its memory and shows nothing but its address; see `Pointer`.
unsafe impl Send for SyclBuffer {}
// SAFETY: as for `Send`.
unsafe impl Sync for SyclBuffer {}

/// The alignment of buffers, for the address of an empty one.
#[repr(align(64))]
struct Aligned;

impl SyclBuffer {
    /// Allocates zeroed memory.
    pub(crate) fn new(
        opened: &Arc<Opened>,
        bytes: usize,
        kind: MemoryKind,
    ) -> Result<SyclBuffer, DeviceError> {
        let buffer = SyclBuffer::uninitialised(opened, bytes, kind)?;
        if buffer.host_accessible() && bytes > 0 {
            // SAFETY: the memory has that length and no other user, and the host may follow its address.
            unsafe { buffer.memory.cast::<u8>().write_bytes(0, bytes) };
        } else {
            let stream = SyclStream::new(opened, Arc::clone(&opened.setup));
            buffer.zero(&stream)?;
            stream.finish()?;
        }
        Ok(buffer)
    }

    fn uninitialised(
        opened: &Arc<Opened>,
        bytes: usize,
        kind: MemoryKind,
    ) -> Result<SyclBuffer, DeviceError> {
        if !opened.place.offers(kind) {
            let what = match kind {
                MemoryKind::Device => "device memory",
                MemoryKind::Pinned => "pinned host memory that its kernels reach",
                MemoryKind::Shared => "memory shared with the host",
            };
            return Err(DeviceError::Unsupported { what, device: opened.id() });
        }
        let memory = match bytes {
            0 => ptr::null_mut(),
            _ => opened.place.allocate(bytes, kind),
        };
        if bytes > 0 && memory.is_null() {
            return Err(DeviceError::OutOfMemory { bytes, kind, device: opened.id() });
        }
        #[cfg(target_os = "linux")]
        if opened.place.kind() == Kind::Cpu {
            ask_for_large_pages(memory, bytes);
        }
        Ok(SyclBuffer {
            opened: Arc::clone(opened),
            memory,
            bytes,
            kind,
            exported: OnceLock::new(),
            imported: false,
        })
    }

    /// Allocates zeroed device memory in whole blocks of this size.
    pub(crate) fn in_blocks(
        opened: &Arc<Opened>,
        bytes: usize,
        block: usize,
    ) -> Result<SyclBuffer, DeviceError> {
        let whole = bytes.checked_next_multiple_of(block).unwrap_or(bytes);
        let mut buffer = SyclBuffer::new(opened, whole, MemoryKind::Device)?;
        buffer.bytes = bytes;
        Ok(buffer)
    }

    /// Memory of another process, which is mapped here until the buffer is dropped.
    pub(crate) fn of_other_process(opened: &Arc<Opened>, memory: *mut c_void, bytes: usize) -> SyclBuffer {
        let (opened, kind) = (Arc::clone(opened), MemoryKind::Device);
        SyclBuffer { opened, memory, bytes, kind, exported: OnceLock::new(), imported: true }
    }

    /// The address of device memory that this process has allocated; `None` for other memory.
    pub(crate) fn own_device_memory(&self) -> Option<*mut c_void> {
        let own = !self.imported && self.kind == MemoryKind::Device && !self.memory.is_null();
        own.then_some(self.memory)
    }

    fn zero(&self, stream: &SyclStream) -> Result<(), DeviceError> {
        if self.bytes == 0 {
            return Ok(());
        }
        stream.put(|queue| {
            // SAFETY: the memory has that length and no other user; `new` waits until the fill is complete. All drivers
            // take bytes at any address.
            unsafe { queue.fill(self.pointer(), &[0], self.bytes) }
        })
    }
}

/// Asks for large pages before memory of the host is first touched: with small ones, a CPU spends more time on finding
/// the pages of a face than on copying it. If the system has no large pages, small ones stay.
#[cfg(target_os = "linux")]
fn ask_for_large_pages(memory: *mut c_void, bytes: usize) {
    const LARGE_PAGE: usize = 2 << 20;
    let begin = memory.addr().next_multiple_of(LARGE_PAGE);
    let whole = (memory.addr() + bytes).saturating_sub(begin) / LARGE_PAGE * LARGE_PAGE;
    if whole > 0 {
        let begin = memory.wrapping_byte_add(begin - memory.addr());
        // SAFETY: the pages lie within the allocation, and the advice does not change their content.
        let _ = unsafe { rustix::mm::madvise(begin, whole, rustix::mm::Advice::LinuxHugepage) };
    }
}

impl Drop for SyclBuffer {
    fn drop(&mut self) {
        drop(self.exported.take());
        match &self.opened.place {
            _ if self.memory.is_null() => {}
            // SAFETY: it came from `import`; the rest as below.
            Place::Sycl(place) if self.imported => unsafe { place.close(self.memory) },
            // SAFETY: it came from `allocate`; callers that enqueued work on the memory promised that the buffer
            // outlives it.
            place => unsafe { place.free(self.memory) },
        }
    }
}

// SAFETY: the memory has the length in `bytes`, is zeroed before any work that is ordered after its allocation, is
// aligned as buffers must be, and is freed on drop.
unsafe impl Buffer for SyclBuffer {
    fn pointer(&self) -> Pointer {
        match self.memory.is_null() {
            true => Pointer::new(ptr::NonNull::<Aligned>::dangling().as_ptr().cast()),
            false => Pointer::new(self.memory.cast()),
        }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn kind(&self) -> MemoryKind {
        self.kind
    }

    fn device(&self) -> DeviceId {
        self.opened.id()
    }

    fn host_accessible(&self) -> bool {
        self.kind != MemoryKind::Device
    }
}
