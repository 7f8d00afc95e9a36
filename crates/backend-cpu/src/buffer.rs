//! Host memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use haloport_core::device::{Buffer, DeviceError, DeviceId, MemoryKind, Pointer};
use memmap2::{MmapOptions, MmapRaw};

/// The alignment of buffers in bytes: a cache line.
const ALIGNMENT: usize = align_of::<Line>();

/// A cache line.
#[repr(align(64))]
struct Line;

/// Buffers of at least this many bytes are mapped, with a request for large pages: a sweep over strided cells of a
/// field touches another page every few rows, and the lookup of pages can take as long as the copy. (NumPy uses the
/// same size.)
const MAPPED_BYTES: usize = 4 << 20;

/// Host memory, aligned to a cache line and freed on drop.
#[derive(Debug)]
pub struct CpuBuffer {
    memory: Memory,
    bytes: usize,
    kind: MemoryKind,
    device: DeviceId,
}

#[derive(Debug)]
enum Memory {
    Empty,
    Heap { begin: NonNull<u8>, layout: Layout },
    Mapped(MmapRaw),
}

// SAFETY: the buffer owns its memory and hands out only its address; see `Pointer`.
unsafe impl Send for CpuBuffer {}
// SAFETY: as for `Send`.
unsafe impl Sync for CpuBuffer {}

impl CpuBuffer {
    /// Allocates zeroed memory. Large buffers get their pages on first access.
    pub(crate) fn new(bytes: usize, kind: MemoryKind, device: DeviceId) -> Result<CpuBuffer, DeviceError> {
        let memory = match bytes {
            0 => Some(Memory::Empty),
            1..MAPPED_BYTES => on_heap(bytes),
            _ => mapped(bytes),
        };
        let memory = memory.ok_or(DeviceError::OutOfMemory { bytes, kind, device })?;
        Ok(CpuBuffer { memory, bytes, kind, device })
    }
}

fn on_heap(bytes: usize) -> Option<Memory> {
    let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
    // SAFETY: the size of the layout is not 0.
    let begin = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    Some(Memory::Heap { begin, layout })
}

fn mapped(bytes: usize) -> Option<Memory> {
    let mapping = MmapRaw::from(MmapOptions::new().len(bytes).map_anon().ok()?);
    // A refusal does not matter: small pages work, too.
    #[cfg(target_os = "linux")]
    let _ = mapping.advise(memmap2::Advice::HugePage);
    Some(Memory::Mapped(mapping))
}

impl Drop for CpuBuffer {
    fn drop(&mut self) {
        if let Memory::Heap { begin, layout } = self.memory {
            // SAFETY: the memory came from `alloc_zeroed` with this layout, and is freed once.
            unsafe { dealloc(begin.as_ptr(), layout) }
        }
    }
}

// SAFETY: the memory has the length that `bytes` returns, is zeroed, aligned (a mapping to a page), and freed on drop.
unsafe impl Buffer for CpuBuffer {
    fn pointer(&self) -> Pointer {
        Pointer::new(match &self.memory {
            Memory::Empty => NonNull::<Line>::dangling().as_ptr().cast(),
            Memory::Heap { begin, .. } => begin.as_ptr(),
            Memory::Mapped(mapping) => mapping.as_mut_ptr(),
        })
    }

    fn bytes(&self) -> usize {
        self.bytes
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
