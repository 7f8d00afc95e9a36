//! Memory of the device.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use haloport_core::device::{Buffer, DeviceError, DeviceId, MemoryKind, Pointer};

use crate::open::Opened;
use crate::queue::{Marker, SyclStream};
#[cfg(target_os = "linux")]
use crate::select::Kind;

/// Memory that the device allocated; freed on drop.
#[derive(Debug)]
pub struct SyclBuffer {
    opened: Arc<Opened>,
    /// Null where there are no bytes.
    memory: *mut c_void,
    bytes: usize,
    kind: MemoryKind,
    /// When it is zeroed, where a stream does that in its order.
    zeroed: Option<Marker>,
}

// SAFETY: the buffer owns its memory and gives nothing but its address; see `Pointer`.
unsafe impl Send for SyclBuffer {}
// SAFETY: as for `Send`.
unsafe impl Sync for SyclBuffer {}

/// An address that is aligned as buffers are, and leads nowhere.
#[repr(align(64))]
struct Line;

impl SyclBuffer {
    /// Zeroed memory.
    pub(crate) fn new(
        opened: &Arc<Opened>,
        bytes: usize,
        kind: MemoryKind,
    ) -> Result<SyclBuffer, DeviceError> {
        let buffer = SyclBuffer::uninitialised(opened, bytes, kind)?;
        if buffer.host_accessible() && bytes > 0 {
            // SAFETY: the memory is that long, ours alone, and the host may follow its address.
            unsafe { buffer.memory.cast::<u8>().write_bytes(0, bytes) };
        } else {
            let stream = SyclStream::new(opened, Arc::clone(&opened.setup));
            buffer.zero(&stream)?;
            stream.finish()?;
        }
        Ok(buffer)
    }

    /// Device memory that is zeroed in the order of `stream`.
    pub(crate) fn on(stream: &SyclStream, bytes: usize) -> Result<SyclBuffer, DeviceError> {
        let mut buffer = SyclBuffer::uninitialised(&stream.opened, bytes, MemoryKind::Device)?;
        buffer.zero(stream)?;
        buffer.zeroed = match stream.marker() {
            Ok(marker) => Some(marker),
            Err(error) => {
                // Without a marker, only this tells when the memory may be freed.
                stream.finish()?;
                return Err(error);
            }
        };
        stream.flush()?;
        Ok(buffer)
    }

    fn uninitialised(
        opened: &Arc<Opened>,
        bytes: usize,
        kind: MemoryKind,
    ) -> Result<SyclBuffer, DeviceError> {
        if !opened.unified.offers(kind) {
            let what = match kind {
                MemoryKind::Device => "device memory",
                MemoryKind::Pinned => "pinned host memory that its kernels reach",
                MemoryKind::Shared => "memory shared with the host",
            };
            return Err(DeviceError::Unsupported { what, device: opened.id() });
        }
        let memory = match bytes {
            0 => ptr::null_mut(),
            _ => opened.unified.allocate(opened.context.raw(), opened.device, bytes, kind),
        };
        if bytes > 0 && memory.is_null() {
            return Err(DeviceError::OutOfMemory { bytes, kind, device: opened.id() });
        }
        #[cfg(target_os = "linux")]
        if opened.kind == Kind::Cpu {
            ask_for_large_pages(memory, bytes);
        }
        Ok(SyclBuffer { opened: Arc::clone(opened), memory, bytes, kind, zeroed: None })
    }

    fn zero(&self, stream: &SyclStream) -> Result<(), DeviceError> {
        if self.bytes == 0 {
            return Ok(());
        }
        let Opened { unified, library, .. } = &*self.opened;
        stream.put("filling fresh memory with zeros", |queue| {
            // SAFETY: the memory is that long and ours alone; the buffer lives until the fill is done: `new` waits for
            // it, and so does `drop` for that of `on`.
            unsafe { unified.fill(library, queue, self.pointer(), &[0], self.bytes) }
        })
    }
}

/// Asks for large pages, before memory of the host is touched for the first time: a device that is the CPU spends more time
/// on finding the small pages of a face than on copying it. Where there are none, small ones serve.
#[cfg(target_os = "linux")]
fn ask_for_large_pages(memory: *mut c_void, bytes: usize) {
    const LARGE_PAGE: usize = 2 << 20;
    let begin = memory.addr().next_multiple_of(LARGE_PAGE);
    let whole = (memory.addr() + bytes).saturating_sub(begin) / LARGE_PAGE * LARGE_PAGE;
    if whole > 0 {
        let begin = memory.wrapping_byte_add(begin - memory.addr());
        // SAFETY: the pages lie within the allocation, and their content stays what it is.
        let _ = unsafe { rustix::mm::madvise(begin, whole, rustix::mm::Advice::LinuxHugepage) };
    }
}

impl Drop for SyclBuffer {
    fn drop(&mut self) {
        if let Some(zeroed) = &self.zeroed {
            let _ = zeroed.wait();
        }
        if !self.memory.is_null() {
            // SAFETY: it came from `allocate`; whoever put work on the memory promised that it outlives that.
            unsafe { self.opened.unified.free(self.opened.context.raw(), self.memory) };
        }
    }
}

// SAFETY: the memory is as long as it says, zeroed before anything that its user orders after it, aligned as it was asked
// for, and freed on drop.
unsafe impl Buffer for SyclBuffer {
    fn pointer(&self) -> Pointer {
        match self.memory.is_null() {
            true => Pointer::new(ptr::NonNull::<Line>::dangling().as_ptr().cast()),
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
