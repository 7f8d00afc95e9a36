//! Allocations, which are memory of the host whatever their kind. Memory of the device is in files without a name, which
//! other processes can map.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Mutex;

use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::lock::locked;
use crate::status::{
    INVALID_ARGUMENT, INVALID_NULL_POINTER, INVALID_SIZE, OUT_OF_DEVICE_MEMORY, Status, UNSUPPORTED_ALIGNMENT,
};

/// The size of a page of every allocation.
pub(crate) const PAGE: usize = 4096;

/// The kinds of memory: `ze_memory_type_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    Host = 1,
    Device = 2,
    Shared = 3,
}

/// A range of memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocation {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    pub(crate) kind: Kind,
    /// The handle of its context.
    context: usize,
    /// A number that no other one has.
    pub(crate) id: u64,
}

/// What keeps an allocation.
#[derive(Debug)]
enum Backing {
    Heap(Layout),
    /// A file that this process has made.
    File(OwnedFd),
    /// A file of another process.
    OfOther,
}

static ALLOCATIONS: Mutex<Allocations> = Mutex::new(Allocations { by_start: BTreeMap::new(), made: 0 });

struct Allocations {
    by_start: BTreeMap<usize, (Allocation, Backing)>,
    made: u64,
}

/// Allocates memory of a context, at least a page.
pub(crate) fn allocate(
    context: usize,
    kind: Kind,
    bytes: usize,
    alignment: usize,
) -> Result<*mut c_void, Status> {
    if bytes == 0 {
        return Err(INVALID_SIZE);
    }
    let layout = Layout::from_size_align(bytes, alignment.max(PAGE)).map_err(|_| UNSUPPORTED_ALIGNMENT)?;
    if kind == Kind::Device {
        let file = file_of(bytes).map_err(|_| OUT_OF_DEVICE_MEMORY)?;
        let memory = mapped(&file, layout).map_err(|_| OUT_OF_DEVICE_MEMORY)?;
        enter(context, kind, memory, bytes, Backing::File(file));
        return Ok(memory);
    }
    // SAFETY: the size is not 0.
    let memory = unsafe { alloc(layout) };
    if memory.is_null() {
        return Err(OUT_OF_DEVICE_MEMORY);
    }
    enter(context, kind, memory.cast(), bytes, Backing::Heap(layout));
    Ok(memory.cast())
}

/// Frees memory of a context that this process has allocated.
///
/// # Safety
/// No command and nobody else uses the memory any more.
pub(crate) unsafe fn free(context: usize, memory: *mut c_void) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    unsafe { leave(context, memory, |backing| !matches!(backing, Backing::OfOther)) }
}

/// The file of the allocation of the device that an address points into, for other processes.
pub(crate) fn file_at(context: usize, address: usize) -> Result<RawFd, Status> {
    let start = find(context, address).ok_or(INVALID_ARGUMENT)?.start;
    match locked(&ALLOCATIONS).by_start.get(&start) {
        Some((_, Backing::File(file))) => Ok(file.as_raw_fd()),
        _ => Err(INVALID_ARGUMENT),
    }
}

/// Maps the file of an allocation of another process.
pub(crate) fn open(context: usize, file: BorrowedFd<'_>) -> Result<*mut c_void, Status> {
    let bytes = fstat(file).map_err(|_| INVALID_ARGUMENT)?.st_size as usize;
    let layout = Layout::from_size_align(bytes, PAGE).map_err(|_| INVALID_ARGUMENT)?;
    let memory = mapped(file, layout).map_err(|_| INVALID_ARGUMENT)?;
    enter(context, Kind::Device, memory, bytes, Backing::OfOther);
    Ok(memory)
}

/// Unmaps memory of another process.
///
/// # Safety
/// As for [`free`].
pub(crate) unsafe fn close(context: usize, memory: *mut c_void) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    unsafe { leave(context, memory, |backing| matches!(backing, Backing::OfOther)) }
}

/// The allocation of a context that an address points into.
pub(crate) fn find(context: usize, address: usize) -> Option<Allocation> {
    let all = locked(&ALLOCATIONS);
    let (_, (found, _)) = all.by_start.range(..=address).next_back()?;
    (found.context == context && address - found.start < found.bytes).then_some(*found)
}

fn enter(context: usize, kind: Kind, memory: *mut c_void, bytes: usize, backing: Backing) {
    let mut all = locked(&ALLOCATIONS);
    all.made += 1;
    let (start, id) = (memory.expose_provenance(), all.made);
    all.by_start.insert(start, (Allocation { start, bytes, kind, context, id }, backing));
}

/// # Safety
/// As for [`free`].
unsafe fn leave(
    context: usize,
    memory: *mut c_void,
    may: impl FnOnce(&Backing) -> bool,
) -> Result<(), Status> {
    if memory.is_null() {
        return Err(INVALID_NULL_POINTER);
    }
    let mut all = locked(&ALLOCATIONS);
    match all.by_start.get(&memory.addr()) {
        Some((found, backing)) if found.context == context && may(backing) => {}
        _ => return Err(INVALID_ARGUMENT),
    }
    let Some((found, backing)) = all.by_start.remove(&memory.addr()) else { return Err(INVALID_ARGUMENT) };
    // SAFETY: the memory was made in this way and with this size, and is not in the table any more.
    unsafe {
        match backing {
            Backing::Heap(layout) => dealloc(memory.cast(), layout),
            Backing::File(_) | Backing::OfOther => {
                munmap(memory, whole_pages(found.bytes)).map_err(|_| INVALID_ARGUMENT)?;
            }
        }
    }
    Ok(())
}

/// A file without a name, of zeros.
fn file_of(bytes: usize) -> Result<OwnedFd, Errno> {
    let file = memfd_create("haloport-level-zero", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, bytes as u64)?;
    Ok(file)
}

/// Maps a file, aligned.
fn mapped(file: impl AsFd, layout: Layout) -> Result<*mut c_void, Errno> {
    let (bytes, alignment) = (whole_pages(layout.size()), layout.align());
    let reserved = bytes.checked_add(alignment).ok_or(Errno::NOMEM)?;
    // SAFETY: nothing is at the address that the system chooses; what is unmapped and mapped again lies in that range.
    unsafe {
        let range = mmap_anonymous(ptr::null_mut(), reserved, ProtFlags::empty(), MapFlags::PRIVATE)?;
        let before = range.addr().next_multiple_of(alignment) - range.addr();
        let memory = range.byte_add(before);
        if before > 0 {
            munmap(range, before)?;
        }
        if reserved > before + bytes {
            munmap(memory.byte_add(bytes), reserved - before - bytes)?;
        }
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        mmap(memory, bytes, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0)
    }
}

fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE)
}
