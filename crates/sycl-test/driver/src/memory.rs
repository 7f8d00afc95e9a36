//! Allocations, which are memory of the host whatever their kind.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Mutex;

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
    layout: Layout,
    pub(crate) kind: Kind,
    /// The handle of its context.
    pub(crate) context: usize,
    /// A number that no other one has.
    pub(crate) id: u64,
}

static ALLOCATIONS: Mutex<Allocations> = Mutex::new(Allocations { by_start: BTreeMap::new(), made: 0 });

struct Allocations {
    by_start: BTreeMap<usize, Allocation>,
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
    // SAFETY: the size is not 0.
    let memory = unsafe { alloc(layout) };
    if memory.is_null() {
        return Err(OUT_OF_DEVICE_MEMORY);
    }
    let mut all = locked(&ALLOCATIONS);
    all.made += 1;
    let (start, id) = (memory.expose_provenance(), all.made);
    all.by_start.insert(start, Allocation { start, layout, kind, context, id });
    Ok(memory.cast())
}

/// Frees memory of a context.
///
/// # Safety
/// No command and nobody else uses the memory any more.
pub(crate) unsafe fn free(context: usize, memory: *mut c_void) -> Result<(), Status> {
    if memory.is_null() {
        return Err(INVALID_NULL_POINTER);
    }
    let mut all = locked(&ALLOCATIONS);
    match all.by_start.get(&memory.addr()) {
        Some(found) if found.context == context => {
            let layout = found.layout;
            all.by_start.remove(&memory.addr());
            // SAFETY: it was allocated with this layout, and is not in the table any more.
            unsafe { dealloc(memory.cast(), layout) };
            Ok(())
        }
        _ => Err(INVALID_ARGUMENT),
    }
}

/// The allocation of a context that an address points into.
pub(crate) fn find(context: usize, address: usize) -> Option<Allocation> {
    let all = locked(&ALLOCATIONS);
    let (_, found) = all.by_start.range(..=address).next_back()?;
    (found.context == context && address - found.start < found.bytes()).then_some(*found)
}

impl Allocation {
    pub(crate) fn bytes(&self) -> usize {
        self.layout.size()
    }
}
